#[derive(Clone, Copy, koel::Key)]
enum Side {
    Left,
    Right,
}

fn main() {}
