//! [What safe code may try](attempts). The fuzz target `soundness` runs the same under
//! AddressSanitizer; CI also runs the parts without the executor under Miri.
use koel_testing::soundness as attempts;

#[test]
fn handles_of_tables_outlive_them() {
    attempts::handles_of_tables_outlive_them();
}
#[test]
fn handles_of_arrays_are_looked_through_by_kernels_alone() {
    attempts::handles_of_arrays_are_looked_through_by_kernels_alone();
}
#[test]
fn nothing_waits_outside_of_a_kernel() {
    attempts::nothing_waits_outside_of_a_kernel();
}
#[test]
fn slices_do_not_leave_a_capture() {
    attempts::slices_do_not_leave_a_capture();
}
#[test]
#[cfg_attr(miri, ignore = "the executor's coroutines are assembly")]
fn buffers_stay_until_a_launch_has_them() {
    attempts::buffers_stay_until_a_launch_has_them();
}
#[test]
#[cfg_attr(miri, ignore = "the executor's coroutines are assembly")]
fn buffers_that_left_a_graph_are_kept_apart() {
    attempts::buffers_that_left_a_graph_are_kept_apart();
}
#[test]
#[cfg_attr(miri, ignore = "the executor's coroutines are assembly")]
fn buffers_that_a_graph_shares_are_kept_apart() {
    attempts::buffers_that_a_graph_shares_are_kept_apart();
}
#[test]
#[cfg_attr(miri, ignore = "the executor's coroutines are assembly")]
fn tables_that_left_a_graph_are_kept_apart() {
    attempts::tables_that_left_a_graph_are_kept_apart();
}
#[test]
fn readers_and_a_writer() {
    attempts::readers_and_a_writer();
}
#[test]
fn slices_are_inside() {
    attempts::slices_are_inside();
}
