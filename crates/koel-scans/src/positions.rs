//! Positions while a file is read. If a file has 64-bit coordinates far from zero, 32 bits keep
//! them only relative to an origin nearby, which is known once all of them are read.
use crate::report::Rounding;

/// Distance from zero, in longest sides of the box around the points, from which coordinates are
/// stored relative to an origin. Below it, rounding to 32 bits moves a point by less than a
/// millionth of that side.
const FAR: f64 = 8.0;

/// Positions of the points read so far.
pub(crate) enum Positions {
    /// The file's coordinates are exact in 32 bits.
    Narrow(Vec<[f32; 3]>),
    /// The file's coordinates have more digits.
    Wide(Vec<[f64; 3]>),
}

impl Default for Positions {
    fn default() -> Positions {
        Positions::Wide(vec![])
    }
}

/// Positions of all points.
pub(crate) struct Relative {
    /// Positions minus the origin.
    pub positions: Vec<[f32; 3]>,
    /// Zero unless the points are far from it.
    pub origin: [f64; 3],
    /// Coordinates that changed.
    pub rounding: Rounding,
}

impl Positions {
    /// Creates an empty list with room for `count` positions.
    pub(crate) fn with_capacity(wide: bool, count: usize) -> Positions {
        if wide {
            Positions::Wide(Vec::with_capacity(count))
        } else {
            Positions::Narrow(Vec::with_capacity(count))
        }
    }
    /// Reserves room for `count` more positions.
    pub(crate) fn reserve_exact(&mut self, count: usize) {
        match self {
            Positions::Narrow(all) => all.reserve_exact(count),
            Positions::Wide(all) => all.reserve_exact(count),
        }
    }
    pub(crate) fn len(&self) -> usize {
        match self {
            Positions::Narrow(all) => all.len(),
            Positions::Wide(all) => all.len(),
        }
    }
    pub(crate) fn get(&self, index: usize) -> [f64; 3] {
        match self {
            Positions::Narrow(all) => all[index].map(f64::from),
            Positions::Wide(all) => all[index],
        }
    }
    /// Keeps the positions that are marked.
    pub(crate) fn retain(&mut self, marked: &[bool]) {
        let mut marked = marked.iter();
        let mut is_next = || marked.next() == Some(&true);
        match self {
            Positions::Narrow(all) => all.retain(|_| is_next()),
            Positions::Wide(all) => all.retain(|_| is_next()),
        }
    }
    pub(crate) fn push(&mut self, position: [f64; 3]) {
        match self {
            Positions::Narrow(all) => all.push(position.map(|c| c as f32)),
            Positions::Wide(all) => all.push(position),
        }
    }
    /// Rounds all coordinates to 32 bits, relative to an origin if the points are far from zero and
    /// would lose digits. A coordinate beyond 32-bit floating point becomes infinite.
    pub(crate) fn finish(self) -> Relative {
        let all = match self {
            Positions::Narrow(positions) => {
                return Relative { positions, origin: [0.0; 3], rounding: Rounding::default() };
            }
            Positions::Wide(all) => all,
        };
        let origin = origin_of(&all);
        let mut rounding = Rounding::default();
        let mut narrow = |position: [f64; 3]| {
            std::array::from_fn(|a| {
                let c = position[a];
                let is_finite = (c as f32).is_finite();
                rounding.narrow(if is_finite { c - origin[a] } else { c })
            })
        };
        let positions = all.into_iter().map(&mut narrow).collect();
        Relative { positions, origin, rounding }
    }
}

/// Returns the origin for these positions: the middle of their box, rounded to a power of two that
/// is about as long as the box, so that subtracting it is exact. Zero if the points are not far
/// from it, lose nothing, or are one point.
fn origin_of(all: &[[f64; 3]]) -> [f64; 3] {
    let (mut min, mut max) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    let mut is_exact = true;
    for position in all.iter().filter(|p| p.iter().all(|&c| (c as f32).is_finite())) {
        for a in 0..3 {
            (min[a], max[a]) = (min[a].min(position[a]), max[a].max(position[a]));
            is_exact &= f64::from(position[a] as f32) == position[a];
        }
    }
    let side = (0..3).map(|a| max[a] - min[a]).fold(0.0, f64::max);
    let from_zero = min.iter().chain(&max).map(|c| c.abs()).fold(0.0, f64::max);
    if is_exact || side == 0.0 || from_zero < FAR * side {
        return [0.0; 3];
    }
    let unit = side.log2().ceil().exp2();
    std::array::from_fn(|a| (0.5 * (min[a] + max[a]) / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(all: &[[f64; 3]]) -> Relative {
        let mut positions = Positions::with_capacity(true, 0);
        all.iter().for_each(|&p| positions.push(p));
        positions.finish()
    }

    #[test]
    fn digits_far_from_zero_are_kept() {
        for offset in [1e5, -1e7, 5e8] {
            let all = (0..100)
                .map(|i| {
                    let i = f64::from(i);
                    [offset + i * 0.1, i * 0.01 - offset, 0.3 * i]
                })
                .collect::<Vec<_>>();
            let Relative { positions, origin, .. } = finish(&all);
            assert_ne!(origin, [0.0; 3]);
            for (narrow, wide) in positions.iter().zip(&all) {
                for a in 0..3 {
                    let by = (origin[a] + f64::from(narrow[a]) - wide[a]).abs();
                    assert!(by < 1e-6, "{offset}: {by}");
                }
            }
        }
    }
    #[test]
    fn what_is_exact_or_near_zero_keeps_its_coordinates() {
        for all in [
            [[1e7, 2e7, 3e7], [1e7 + 1.0, 2e7, 3e7]],
            [[0.1, 7.0, 0.0], [1.1, 6.0, 0.3]],
            [[f64::NAN, 1e300, 0.1], [f64::INFINITY, 0.0, 0.0]],
        ] {
            assert_eq!(finish(&all).origin, [0.0; 3], "{all:?}");
        }
        // A single point has no geometry to lose.
        assert_eq!(finish(&[[0.1, 1e9 + 0.1, 0.0]]).origin, [0.0; 3]);
        // What is dropped later does not decide.
        let with_fault = finish(&[[1e7 + 0.1, 0.0, 0.0], [1e7, 0.9, 0.0], [f64::NAN; 3]]);
        assert_eq!(with_fault.origin, [1e7, 0.0, 0.0]);
        assert!(with_fault.positions[2].iter().all(|c| c.is_nan()));
    }
}
