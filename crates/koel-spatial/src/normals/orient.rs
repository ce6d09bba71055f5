//! Orientation of normals.

use rayon::prelude::*;

type Vector = [f64; 3];

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn flip(normal: &mut Vector) {
    *normal = normal.map(|c| -c);
}

/// Flips each normal that does not face `viewpoint`.
pub(super) fn towards(positions: &[[f32; 3]], viewpoint: [f32; 3], normals: &mut [Vector]) {
    for (p, normal) in positions.iter().zip(normals) {
        let sight = std::array::from_fn(|a| f64::from(viewpoint[a]) - f64::from(p[a]));
        if dot(*normal, sight) < 0.0 {
            flip(normal);
        }
    }
}

/// Propagates signs along a minimum spanning tree of the neighbour graph (`k` neighbours per point)
/// and orients each component outwards. Returns the number of components.
pub(super) fn outwards(
    positions: &[[f32; 3]],
    graph: &[u32],
    k: usize,
    normals: &mut [Vector],
) -> usize {
    let mut forest = Forest::new(normals.len());
    for Edge { from, to, .. } in sorted_edges(positions, graph, k, normals) {
        let opposed = agreement(positions, normals, from, to) < 0.0;
        forest.join(from, to, opposed);
    }
    let mut parts = Vec::new();
    for i in 0..normals.len() as u32 {
        let (root, flipped) = forest.find(i);
        if flipped {
            flip(&mut normals[i as usize]);
        }
        if root == i {
            parts.push(i);
        }
    }
    // Maps the root of a component to its number.
    let mut number = vec![0; normals.len()];
    parts.iter().zip(0u32..).for_each(|(&root, part)| number[root as usize] = part);
    let part_of: Vec<u32> =
        (0..normals.len() as u32).map(|i| number[forest.find(i).0 as usize]).collect();
    let inwards = parts_turned_inwards(positions, &part_of, parts.len(), normals);
    for (normal, &part) in normals.iter_mut().zip(&part_of) {
        if inwards[part as usize] {
            flip(normal);
        }
    }
    parts.len()
}

/// Returns how well the normals of two points agree, from -1 (opposed) to 1: the cosine between one
/// normal and the mirror image of the other in the plane half-way between the points. On a circular
/// arc it is 1 or -1 at any distance; two walls back to back or face to face come out opposed.
/// Symmetric in the two points.
fn agreement(positions: &[[f32; 3]], normals: &[Vector], from: u32, to: u32) -> f64 {
    let [a, b] = [from, to].map(|i| positions[i as usize].map(f64::from));
    let [m, n] = [from, to].map(|i| normals[i as usize]);
    let step: Vector = std::array::from_fn(|i| b[i] - a[i]);
    let squared = dot(step, step);
    // Coincident points have no plane between them.
    let along = if squared > 0.0 { dot(m, step) * dot(n, step) / squared } else { 0.0 };
    dot(m, n) - 2.0 * along
}

/// Edge between two neighbours; cheap if their normals agree or are opposed. Ordered by cost, then
/// by the points.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    /// 1 - |agreement| as the bits of a float; the bits of positive floats sort in their order.
    cost: u32,
    from: u32,
    to: u32,
}

fn sorted_edges(positions: &[[f32; 3]], graph: &[u32], k: usize, normals: &[Vector]) -> Vec<Edge> {
    let of_point = |(from, near): (usize, &[u32])| -> Vec<Edge> {
        let edge = |&to: &u32| {
            // An edge that both points list is kept by the one with the lower index.
            let of_other =
                (to as usize) < from && graph[to as usize * k..][..k].contains(&(from as u32));
            let agreement = agreement(positions, normals, from as u32, to).abs().min(1.0);
            (to as usize != from && !of_other).then_some(Edge {
                cost: (1.0 - agreement as f32).to_bits(),
                from: from as u32,
                to,
            })
        };
        near.iter().filter_map(edge).collect()
    };
    let mut edges: Vec<Edge> = graph.par_chunks(k).enumerate().flat_map_iter(of_point).collect();
    edges.par_sort_unstable();
    edges
}

/// Returns which components must be flipped; see
/// [`Orientation::Outwards`](super::Orientation::Outwards).
fn parts_turned_inwards(
    positions: &[[f32; 3]],
    part_of: &[u32],
    parts: usize,
    normals: &[Vector],
) -> Vec<bool> {
    const DIRECTIONS: [(usize, f64); 6] =
        [(2, 1.0), (1, 1.0), (0, 1.0), (2, -1.0), (1, -1.0), (0, -1.0)];
    /// Cosines that differ by less count as equal: a sheet, which looks the same from both sides,
    /// then gets the same orientation despite noise.
    const EQUAL: f64 = 0.02;
    let mut inwards = vec![false; parts];
    let mut closest = vec![-EQUAL; parts];
    for (axis, sign) in DIRECTIONS {
        let height = |i: usize| f64::from(positions[i][axis]) * sign;
        let mut outermost: Vec<Option<usize>> = vec![None; parts];
        for (i, &part) in part_of.iter().enumerate() {
            let top = &mut outermost[part as usize];
            if top.is_none_or(|top| height(i) > height(top)) {
                *top = Some(i);
            }
        }
        for (part, top) in outermost.into_iter().enumerate() {
            let cosine = top.map_or(0.0, |top| normals[top][axis] * sign);
            if cosine.abs() > closest[part] + EQUAL {
                (closest[part], inwards[part]) = (cosine.abs(), cosine < 0.0);
            }
        }
    }
    inwards
}

/// Disjoint sets in which each member knows whether it is opposed to the root of its set.
struct Forest {
    parent: Vec<u32>,
    opposed: Vec<bool>,
    size: Vec<u32>,
}

impl Forest {
    fn new(n: usize) -> Forest {
        Forest { parent: (0..n as u32).collect(), opposed: vec![false; n], size: vec![1; n] }
    }
    /// Returns the root of a member, and whether the member is opposed to it. Halves the path.
    fn find(&mut self, mut i: u32) -> (u32, bool) {
        let mut opposed = false;
        loop {
            let at = i as usize;
            let parent = self.parent[at] as usize;
            if parent == at {
                return (i, opposed);
            }
            // The root is not opposed to itself, so the step beyond it changes nothing.
            self.opposed[at] ^= self.opposed[parent];
            self.parent[at] = self.parent[parent];
            opposed ^= self.opposed[at];
            i = self.parent[at];
        }
    }
    /// Joins the sets of two members, opposed to each other or not, if the sets differ.
    fn join(&mut self, a: u32, b: u32, opposed: bool) {
        let ((a, of_a), (b, of_b)) = (self.find(a), self.find(b));
        if a == b {
            return;
        }
        let (small, large) =
            if self.size[a as usize] < self.size[b as usize] { (a, b) } else { (b, a) };
        self.parent[small as usize] = large;
        self.opposed[small as usize] = opposed ^ of_a ^ of_b;
        self.size[large as usize] += self.size[small as usize];
    }
}
