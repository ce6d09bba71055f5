#[derive(Clone, Copy, koel::Value)]
union Either {
    number: u32,
    letter: char,
}

fn main() {}
