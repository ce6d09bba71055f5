//! The `koel` program.
fn main() {}
