//! The parts of a cloud, each judged by itself.
use super::{CloudOrientation, orientation_of};
use crate::forest::Forest;
use crate::search;
use koel_scans::{Bounds, PointCloud};
use rayon::prelude::*;

/// Points below which a part is not judged.
const FEW: usize = 100;
/// Parts of that many points beyond which none is judged: boxes are compared in pairs.
const MANY: usize = 4096;
/// Neighbours within which points are connected.
const NEIGHBOURS: usize = 16;

/// Connected part of a cloud; see [`cloud_parts`].
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Part {
    /// Number of points.
    pub points: usize,
    /// How its normals stand to its points.
    pub orientation: CloudOrientation,
    /// Whether the box around another part of at least 100 points contains that of this one, which
    /// may be a cavity; only known for parts of at least 100 points.
    pub enclosed: bool,
    /// Whether the part is certainly inside out.
    pub inside_out: bool,
}

/// The parts of a cloud; see [`cloud_parts`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct CloudParts {
    /// Number of the part of each point.
    pub part_of: Vec<u32>,
    /// All parts, in the order of their first points.
    pub parts: Vec<Part>,
    /// How all normals stand to all points.
    pub whole: CloudOrientation,
}
impl CloudParts {
    /// Turns the normals of all parts that are certainly inside out. `cloud` must be the cloud that
    /// was judged. Returns the number of parts and of normals that were turned.
    pub fn turn(&self, cloud: &mut PointCloud) -> (usize, usize) {
        let mut turned = 0;
        for (normal, &part) in cloud.normals.iter_mut().flatten().zip(&self.part_of) {
            if self.parts.get(part as usize).is_some_and(|part| part.inside_out) {
                *normal = normal.map(|c| -c);
                turned += 1;
            }
        }
        (self.parts.iter().filter(|part| part.inside_out).count(), turned)
    }
    /// Returns the number of parts that are not turned although a part around them is, which leaves
    /// open whether they are cavities or solids of their own.
    pub fn ambiguous(&self) -> usize {
        match self.parts.iter().any(|part| part.inside_out) {
            true => {
                let is_left =
                    |part: &&Part| part.enclosed && !part.inside_out && part.points >= FEW;
                self.parts.iter().filter(is_left).count()
            }
            false => 0,
        }
    }
}

/// Judges the orientation of each part of a cloud by itself. `None` for a cloud without normals.
///
/// Parts are sets of occupied cells that touch, at corners too. Cells are as long as the median
/// distance to the 16th neighbour. A part is judged if it has at least 100 points, is closed as far
/// as its normals tell, and lies in the box of no other part (unknown if there are more than 4,096
/// parts of at least 100 points). If all parts that can be judged are inside out, and so is the
/// cloud as a whole, then all points are; otherwise those parts.
///
/// Cost: 32 passes over the points for the cells, a sort of the points by cell, and 13 searches per
/// cell. Deterministic.
pub fn cloud_parts(cloud: &PointCloud) -> Option<CloudParts> {
    let normals = cloud.normals.as_ref()?;
    let part_of = connected(&cloud.positions);
    let count = part_of.iter().max().map_or(0, |&last| last as usize + 1);
    let mut points = vec![vec![]; count];
    part_of.iter().zip(0u32..).for_each(|(&part, i)| points[part as usize].push(i));
    let of_part = |indices: &Vec<u32>| {
        let at = indices.iter().map(|&i| i as usize);
        let positions = at.clone().map(|i| cloud.positions[i]).collect::<Vec<_>>();
        let bounds = Bounds::of(&positions).ok();
        (bounds, orientation_of(at.map(|i| (&cloud.positions[i], &normals[i]))))
    };
    let found: Vec<(Option<Bounds>, CloudOrientation)> = points.iter().map(of_part).collect();
    let large: Vec<usize> = (0..count).filter(|&part| points[part].len() >= FEW).collect();
    let lies_in = |inner: usize, outer: usize| match (found[inner].0, found[outer].0) {
        (Some(i), Some(o)) => (0..3).all(|a| o.min()[a] <= i.min()[a] && i.max()[a] <= o.max()[a]),
        _ => false,
    };
    let is_enclosed = |part: usize| {
        large.len() > MANY || large.iter().any(|&outer| outer != part && lies_in(part, outer))
    };
    let mut parts: Vec<Part> = (0..count)
        .map(|part| Part {
            points: points[part].len(),
            orientation: found[part].1,
            enclosed: points[part].len() >= FEW && is_enclosed(part),
            inside_out: false,
        })
        .collect();
    let is_judged = |part: &Part| part.points >= FEW && !part.enclosed;
    let (mut inward, mut outward) = (0, 0);
    for part in parts.iter().filter(|part| is_judged(part)) {
        inward += usize::from(part.orientation.is_inside_out());
        outward += usize::from(part.orientation.is_outward());
    }
    let whole = orientation_of(cloud.positions.iter().zip(normals));
    let all = whole.is_inside_out() && outward == 0;
    for part in &mut parts {
        let itself = inward > 0 && is_judged(part) && part.orientation.is_inside_out();
        part.inside_out = all || itself;
    }
    Some(CloudParts { part_of, parts, whole })
}

/// Returns the number of the connected part of each point, in the order of their first points.
fn connected(positions: &[[f32; 3]]) -> Vec<u32> {
    let Ok(bounds) = Bounds::of(positions) else { return vec![0; positions.len()] };
    let size = search::cell_size(positions, NEIGHBOURS);
    let min = bounds.min().map(f64::from);
    let key = |p: &[f32; 3]| {
        let cell = [0, 1, 2].map(|a| ((f64::from(p[a]) - min[a]) / size) as i64);
        // One bit more than a cell needs, so that neighbours outside stay apart.
        pack(cell)
    };
    let mut sorted: Vec<(i64, u32)> =
        positions.par_iter().enumerate().map(|(i, p)| (key(p), i as u32)).collect();
    sorted.par_sort_unstable();
    let mut cells: Vec<i64> = sorted.iter().map(|&(key, _)| key).collect();
    cells.dedup();
    let mut forest = Forest::new(cells.len());
    let ahead = (0..27).map(|i| [i / 9 - 1, i / 3 % 3 - 1, i % 3 - 1]).filter(|&d| d > [0; 3]);
    for by in ahead.map(pack) {
        // Both lists ascend, so one pass finds all pairs.
        let mut to = 0;
        for (from, &cell) in cells.iter().enumerate() {
            while to < cells.len() && cells[to] < cell + by {
                to += 1;
            }
            if to < cells.len() && cells[to] == cell + by {
                forest.join(from as u32, to as u32, false);
            }
        }
    }
    let mut root_of = vec![0; positions.len()];
    let mut cell = 0;
    for (key, i) in sorted {
        while cells[cell] < key {
            cell += 1;
        }
        root_of[i as usize] = forest.find(cell as u32).0;
    }
    let mut number = vec![None; cells.len()];
    let mut count = 0;
    let of_root = |root: u32| {
        *number[root as usize].get_or_insert_with(|| {
            count += 1;
            count - 1
        })
    };
    root_of.into_iter().map(of_root).collect()
}
/// Packs a cell, or the difference of two, into a number: 21 bits per axis. Differences add.
fn pack([x, y, z]: [i64; 3]) -> i64 {
    (x << 42) + (y << 21) + z
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a sphere with normals outward, or inward.
    fn add_sphere(cloud: &mut PointCloud, n: usize, centre: [f32; 3], radius: f32, sign: f32) {
        for i in 0..n {
            let z = (2.0 * i as f32 + 1.0) / n as f32 - 1.0;
            let (r, turn) = ((1.0 - z * z).sqrt(), (i as f64 * 2.399_963).sin_cos());
            let d = [r * turn.0 as f32, r * turn.1 as f32, z];
            cloud.positions.push([0, 1, 2].map(|a| centre[a] + radius * d[a]));
            cloud.normals.get_or_insert_default().push(d.map(|c| sign * c));
        }
    }
    fn spheres(all: &[([f32; 3], f32, f32)]) -> PointCloud {
        let mut cloud = PointCloud::default();
        for &(centre, radius, sign) in all {
            add_sphere(&mut cloud, (2000.0 * radius * radius) as usize, centre, radius, sign);
        }
        cloud
    }
    fn turned(cloud: &mut PointCloud) -> (Vec<bool>, usize) {
        let found = cloud_parts(cloud).unwrap();
        let all = found.parts.iter().map(|part| part.inside_out).collect();
        let ambiguous = found.ambiguous();
        found.turn(cloud);
        (all, ambiguous)
    }

    #[test]
    fn each_part_is_turned_by_itself() {
        let far = [5.0, 0.0, 0.0];
        let mut cloud = spheres(&[([0.0; 3], 1.0, -1.0), (far, 1.0, 1.0)]);
        assert_eq!(turned(&mut cloud), (vec![true, false], 0));
        assert_eq!(cloud, spheres(&[([0.0; 3], 1.0, 1.0), (far, 1.0, 1.0)]));
        // The larger one is inside out, and so is the cloud as a whole.
        let mut cloud = spheres(&[([0.0; 3], 2.0, -1.0), (far, 1.0, 1.0)]);
        assert_eq!(turned(&mut cloud), (vec![true, false], 0));
        let mut cloud = spheres(&[([0.0; 3], 2.0, -1.0), (far, 1.0, -1.0)]);
        assert_eq!(turned(&mut cloud), (vec![true, true], 0));
        assert_eq!(cloud_parts(&PointCloud { normals: None, ..cloud }), None);
        assert_eq!(cloud_parts(&PointCloud::default()), None);
    }
    #[test]
    fn cavities_are_kept_or_turned_with_their_solid() {
        let hollow =
            |outer: f32, inner: f32| spheres(&[([0.0; 3], 2.0, outer), ([0.0; 3], 1.0, inner)]);
        assert_eq!(turned(&mut hollow(1.0, -1.0)), (vec![false, false], 0));
        assert_eq!(turned(&mut hollow(-1.0, 1.0)), (vec![true, true], 0));
        assert_eq!(turned(&mut hollow(1.0, 1.0)), (vec![false, false], 0));
        // Beside a solid that is right, a hollow one that is inside out: its inner part is left.
        let mut cloud = hollow(-1.0, 1.0);
        add_sphere(&mut cloud, 8000, [6.0, 0.0, 0.0], 2.0, 1.0);
        assert_eq!(turned(&mut cloud), (vec![true, false, false], 1));
    }
    #[test]
    fn clouds_without_extent_are_one_part() {
        let heap = PointCloud {
            positions: vec![[1.0, 2.0, 3.0]; 300],
            normals: Some(vec![[0.0, 0.0, 1.0]; 300]),
        };
        assert_eq!(turned(&mut heap.clone()), (vec![false], 0));
    }
}
