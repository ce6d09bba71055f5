//! What `#[derive(Key)]` and `#[derive(Value)]` accept, and what the compiler says of the rest.
//! Texts of errors are those of the oldest supported compiler; others word them otherwise.
#[path = "derive/valid.rs"]
mod valid;

use std::process::Command;

#[test]
fn what_derives_refuse() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    if !version.starts_with(&format!("rustc {oldest}.")) {
        return println!("{version} is not {oldest}: texts of errors were not compared");
    }
    let cases = trybuild::TestCases::new();
    for refused in
        ["empty", "enum", "no_key", "not_copy", "one_key_of_a_batch", "too_wide", "union"]
    {
        cases.compile_fail(format!("tests/derive/{refused}.rs"));
    }
}
