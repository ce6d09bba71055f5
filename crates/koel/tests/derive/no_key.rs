#[derive(Clone, Copy, koel::Key)]
struct Word {
    text: &'static str,
    line: u32,
}

fn main() {}
