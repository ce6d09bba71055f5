//! Loops over cells: [`each_cell!`], [`each_of!`].
//!
//! On a GPU a thread waits for each of its reads. It therefore reads four cells before it uses the
//! first, and looks up all bricks around a position before it walks one. On a CPU it takes one cell
//! at a time. Cells are used in the same order.
//!
//! These are macros so that the loop body is written in place: with closures in these loops, or
//! with arrays of four of which one is used, the host's native kernels took a sixth to a third
//! longer.

/// `each_cell!(cells, |c| read, |d| use)` evaluates `read` for the number of each cell of a
/// [`Cells`](super::index::Cells), in order, and runs `use` on the result. With `corner` in front,
/// it walks the cells of one [corner](super::index::InBrick).
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! each_cell {
    ($($walk:tt)*) => { each_cell_alone!($($walk)*) };
}
#[cfg(target_arch = "nvptx64")]
macro_rules! each_cell {
    ($($walk:tt)*) => { four_cells_at_once!($($walk)*) };
}
/// `each_of!(from, end, |c| read, |d| use)` does the same for the numbers `from..end`.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! each_of {
    ($($walk:tt)*) => { each_of_alone!($($walk)*) };
}
#[cfg(target_arch = "nvptx64")]
macro_rules! each_of {
    ($($walk:tt)*) => { four_of_at_once!($($walk)*) };
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! each_cell_alone {
    (corner $in_brick:expr, |$c:ident| $read:expr, |$d:ident| $use:block) => {{
        let mut in_brick = $in_brick;
        loop {
            let $c = in_brick.pop();
            if $c == crate::intersect::NONE {
                break;
            }
            let $d = $read;
            $use
        }
    }};
    ($cells:expr, |$c:ident| $read:expr, |$d:ident| $use:block) => {{
        let (around, mut corner) = ($cells, 0);
        while corner < crate::intersect::index::CORNERS {
            each_cell_alone!(corner around.corner(corner), |$c| $read, |$d| $use);
            corner += 1;
        }
    }};
}
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! each_of_alone {
    ($from:expr, $end:expr, |$c:ident| $read:expr, |$d:ident| $use:block) => {{
        let (mut next, end) = ($from, $end);
        while next < end {
            let $c = next;
            let $d = $read;
            $use
            next += 1;
        }
    }};
}

#[cfg(any(target_arch = "nvptx64", test))]
macro_rules! four_cells_at_once {
    (corner $in_brick:expr, |$c:ident| $read:expr, |$d:ident| $use:block) => {{
        let mut in_brick = $in_brick;
        loop {
            let cells = [in_brick.pop(), in_brick.pop(), in_brick.pop(), in_brick.pop()];
            if cells[0] == crate::intersect::NONE {
                break;
            }
            let some = [
                four_cells_at_once!(read cells 0, |$c| $read),
                four_cells_at_once!(read cells 1, |$c| $read),
                four_cells_at_once!(read cells 2, |$c| $read),
                four_cells_at_once!(read cells 3, |$c| $read),
            ];
            four_cells_at_once!(used cells some 0, |$d| $use);
            four_cells_at_once!(used cells some 1, |$d| $use);
            four_cells_at_once!(used cells some 2, |$d| $use);
            four_cells_at_once!(used cells some 3, |$d| $use);
        }
    }};
    // If there is no such cell, read the first one again.
    (read $cells:ident $j:literal, |$c:ident| $read:expr) => {{
        let $c = if $cells[$j] == crate::intersect::NONE { $cells[0] } else { $cells[$j] };
        $read
    }};
    (used $cells:ident $some:ident $j:literal, |$d:ident| $use:block) => {
        if $cells[$j] != crate::intersect::NONE {
            let $d = $some[$j];
            $use
        }
    };
    ($cells:expr, |$c:ident| $read:expr, |$d:ident| $use:block) => {{
        let around = $cells;
        let bricks = [
            around.corner(0), around.corner(1), around.corner(2), around.corner(3),
            around.corner(4), around.corner(5), around.corner(6), around.corner(7),
        ];
        four_cells_at_once!(corner bricks[0], |$c| $read, |$d| $use);
        four_cells_at_once!(corner bricks[1], |$c| $read, |$d| $use);
        four_cells_at_once!(corner bricks[2], |$c| $read, |$d| $use);
        four_cells_at_once!(corner bricks[3], |$c| $read, |$d| $use);
        four_cells_at_once!(corner bricks[4], |$c| $read, |$d| $use);
        four_cells_at_once!(corner bricks[5], |$c| $read, |$d| $use);
        four_cells_at_once!(corner bricks[6], |$c| $read, |$d| $use);
        four_cells_at_once!(corner bricks[7], |$c| $read, |$d| $use);
    }};
}
#[cfg(any(target_arch = "nvptx64", test))]
macro_rules! four_of_at_once {
    ($from:expr, $end:expr, |$c:ident| $read:expr, |$d:ident| $use:block) => {{
        let (mut first, end) = ($from, $end);
        while first < end {
            let some = [
                four_of_at_once!(read first end 0, |$c| $read),
                four_of_at_once!(read first end 1, |$c| $read),
                four_of_at_once!(read first end 2, |$c| $read),
                four_of_at_once!(read first end 3, |$c| $read),
            ];
            four_of_at_once!(used first end some 0, |$d| $use);
            four_of_at_once!(used first end some 1, |$d| $use);
            four_of_at_once!(used first end some 2, |$d| $use);
            four_of_at_once!(used first end some 3, |$d| $use);
            first += 4;
        }
    }};
    (read $first:ident $end:ident $j:literal, |$c:ident| $read:expr) => {{
        let $c = if $first + $j < $end { $first + $j } else { $first };
        $read
    }};
    (used $first:ident $end:ident $some:ident $j:literal, |$d:ident| $use:block) => {
        if $first + $j < $end {
            let $d = $some[$j];
            $use
        }
    };
}
#[cfg(test)]
mod tests {
    use super::super::index::Index;
    use super::super::layout::Shape;
    use koel_kernels::hash::mix::splitmix_at;
    use koel_simt::{Arg, In};

    /// The walk of a GPU uses the same cells in the same order.
    #[test]
    fn four_at_once_are_used_in_the_order_of_one_at_a_time() {
        let shape = Shape::new(16).unwrap();
        for seed in 0..20 {
            // All bricks are occupied. Their cells are random, and fewer for even seeds.
            let words = (0..shape.words)
                .map(|i| ((32 * i as u64) << 32) | 0xFFFF_FFFF)
                .collect::<Vec<u64>>();
            let sparse = |i: u32| {
                splitmix_at(seed, 2 * i)
                    & if seed % 2 == 0 { splitmix_at(seed, 2 * i + 1) } else { !0 }
            };
            let (mut bricks, mut number) = (vec![], 0);
            for i in 0..32 * shape.words {
                bricks.extend([sparse(i), number]);
                number += sparse(i).count_ones() as u64;
            }
            // SAFETY: the arrays live until the end of the loop body.
            let index = unsafe {
                Index {
                    words: In::new(&words).native(),
                    bricks: In::new(&bricks).native(),
                    codes: In::new(&[]).native(),
                    shape,
                }
            };
            let from = [0, 1, 2].map(|a| (splitmix_at(seed + 99, a) % 16) as i32 - 2);
            let cells = index.cells_in(0, 1, from, from.map(|c| c + 4), None);
            let (mut expected, mut found) = (vec![], vec![]);
            each_cell_alone!(cells, |c| 3 * c, |d| { expected.push(d) });
            four_cells_at_once!(cells, |c| 3 * c, |d| { found.push(d) });
            assert_eq!(found, expected);
            assert!(!found.is_empty());
            let (mut expected, mut found) = (vec![], vec![]);
            let end = seed % 7 + 5;
            each_of_alone!(5, end, |c| 3 * c, |d| { expected.push(d) });
            four_of_at_once!(5, end, |c| 3 * c, |d| { found.push(d) });
            assert_eq!(found, expected);
            assert_eq!(found.len() as u64, seed % 7);
        }
    }
}
