#[derive(Clone, Copy, koel::Key)]
struct Triangle {
    corners: [u64; 2],
    level: u8,
}

fn main() {}
