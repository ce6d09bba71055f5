#[derive(koel::Key)]
struct Cell {
    x: i16,
    y: i16,
}

fn main() {}
