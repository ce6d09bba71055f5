#[derive(Clone, Copy, koel::Key)]
struct Unit;

#[derive(Clone, Copy, koel::Value)]
struct Nothing {}

fn main() {}
