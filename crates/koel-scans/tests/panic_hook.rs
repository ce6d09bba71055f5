//! The panic hook belongs to the program: no reader replaces it. A separate test binary, since a
//! process has one hook.
use koel_scans::parse_las;
use std::panic::{set_hook, take_hook};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Flips every bit of every byte of the fuzzer's compressed seeds and truncates them at every byte.
/// The decoder never panics, and the hook stays in place.
#[test]
fn readers_leave_the_hook_alone() {
    let panics = Arc::new(AtomicUsize::new(0));
    let counted = panics.clone();
    let hook: Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Send + Sync> = Box::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let set = std::ptr::from_ref(&*hook).cast::<()>();
    let before = take_hook();
    set_hook(hook);
    let mut refused = 0;
    for name in ["format3.laz", "format7.laz"] {
        let file = format!("{}/../../fuzz/seeds/las/{name}", env!("CARGO_MANIFEST_DIR"));
        let whole = std::fs::read(file).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                refused += usize::from(parse_las(&damaged).is_err());
            }
            refused += usize::from(parse_las(&whole[..at]).is_err());
        }
    }
    let found = take_hook();
    let found_at = std::ptr::from_ref(&*found).cast::<()>();
    set_hook(before);
    assert_eq!(found_at, set, "the hook was replaced");
    assert!(refused > 1000, "{refused}");
    assert_eq!(panics.load(Ordering::Relaxed), 0, "the decoder panicked");
}
