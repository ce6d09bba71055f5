//! Attacks on soundness from safe code (koel_testing::soundness), under AddressSanitizer. The
//! input does not matter: one run suffices. libFuzzer tries an empty input first, which is skipped.
#![no_main]
use koel_testing::soundness as attempts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if data.is_empty() {
        return;
    }
    // Many attempts end in panics, which would make libFuzzer end the process.
    std::panic::set_hook(Box::new(|_| ()));
    let all: [(&str, fn()); 10] = [
        ("handles_of_tables_outlive_them", attempts::handles_of_tables_outlive_them),
        (
            "handles_of_arrays_are_looked_through_by_kernels_alone",
            attempts::handles_of_arrays_are_looked_through_by_kernels_alone,
        ),
        ("nothing_waits_outside_of_a_kernel", attempts::nothing_waits_outside_of_a_kernel),
        ("slices_do_not_leave_a_capture", attempts::slices_do_not_leave_a_capture),
        ("buffers_stay_until_a_launch_has_them", attempts::buffers_stay_until_a_launch_has_them),
        (
            "buffers_that_left_a_graph_are_kept_apart",
            attempts::buffers_that_left_a_graph_are_kept_apart,
        ),
        (
            "buffers_that_a_graph_shares_are_kept_apart",
            attempts::buffers_that_a_graph_shares_are_kept_apart,
        ),
        (
            "tables_that_left_a_graph_are_kept_apart",
            attempts::tables_that_left_a_graph_are_kept_apart,
        ),
        ("readers_and_a_writer", attempts::readers_and_a_writer),
        ("slices_are_inside", attempts::slices_are_inside),
    ];
    for (name, attempt) in all {
        if let Err(payload) = std::panic::catch_unwind(attempt) {
            eprintln!("{name}: {:?}", payload.downcast_ref::<String>());
            std::process::abort();
        }
    }
});
