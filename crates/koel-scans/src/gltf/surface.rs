//! Triangles of a primitive, and what moves its vertices: joints and morph targets.

use super::accessor::{Reader, SCALAR, VEC3, VEC4, any};
use super::document::{Mesh, Primitive, TRIANGLE_FAN, TRIANGLE_STRIP, TRIANGLES};
use super::fault::{Fault, fault};
use crate::assembly::Unused;

/// Maximum number of vertices and of corners in all, counted where a node shows them, and of
/// vertices of morph targets. A file of a few kilobytes can ask for billions: its nodes can show
/// the same mesh any number of times.
const MOST: u64 = 1 << 26;

/// Counts vertices and corners against their maximum.
#[derive(Default)]
pub(super) struct Room {
    used: u64,
}
impl Room {
    /// Reserves room for more of them.
    pub(super) fn take(&mut self, more: u64, at: &str) -> Result<(), Fault> {
        self.used = self.used.saturating_add(more);
        if self.used <= MOST {
            return Ok(());
        }
        let used = self.used;
        let what = format!("{used} vertices, corners and vertices of morph targets up to here");
        Err(fault(at.into(), format!("{what}, expected at most {MOST}")))
    }
}

/// A primitive of triangles.
pub(super) struct Surface {
    pub positions: Vec<[f32; 3]>,
    pub triangles: Vec<[u32; 3]>,
    /// Joints and weights, four per vertex in each set.
    pub influences: Vec<Influences>,
    /// Displacements of all vertices; none for a target without positions.
    pub targets: Vec<Option<Vec<[f32; 3]>>>,
}
pub(super) struct Influences {
    pub joints: Vec<[u32; 4]>,
    pub weights: Vec<[f32; 4]>,
}

/// Surfaces of a mesh, and the default weights of its morph targets.
pub(super) struct MeshSurfaces {
    pub surfaces: Vec<Surface>,
    pub targets: usize,
    pub weights: Option<Vec<f32>>,
}

/// What primitives hold that is not read.
#[derive(Default)]
pub(super) struct Skipped {
    /// Primitives of points and of lines.
    pub points_or_lines: u64,
    /// Names of attributes, sorted, without duplicates.
    pub attributes: Vec<String>,
    /// Vertices whose weights are all zero: the first joint moves them.
    pub unweighted: u64,
    /// Primitives without POSITION.
    pub without_positions: u64,
    /// Vertices of triangles' primitives that no triangle has, and all vertices.
    pub unused: u64,
    pub vertices: u64,
}

/// Reads the primitives of a mesh that are triangles.
pub(super) fn read(
    reader: &mut Reader<'_, '_, '_>,
    mesh: &Mesh,
    index: usize,
    room: &mut Room,
    skipped: &mut Skipped,
) -> Result<MeshSurfaces, Fault> {
    let mut shape = MeshSurfaces { surfaces: vec![], targets: 0, weights: mesh.weights.clone() };
    for (i, primitive) in mesh.primitives.iter().enumerate() {
        let at = format!("meshes[{index}].primitives[{i}]");
        if primitive.mode < TRIANGLES {
            skipped.points_or_lines += 1;
            continue;
        }
        let Some(&positions) = primitive.attributes.get("POSITION") else {
            skipped.without_positions += 1;
            continue;
        };
        let surface = surface(reader, (primitive, positions), &at, room, skipped)?;
        let (targets, before) = (surface.targets.len(), shape.targets);
        if !shape.surfaces.is_empty() && targets != before {
            let reason = format!("{targets} morph targets, expected {before} as before");
            return Err(fault(at, reason));
        }
        shape.targets = targets;
        shape.surfaces.push(surface);
    }
    if let Some(weights) = &shape.weights
        && weights.len() != shape.targets
        && !shape.surfaces.is_empty()
    {
        let (found, targets) = (weights.len(), shape.targets);
        let reason = format!("{found} weights for {targets} morph targets, expected as many");
        return Err(fault(format!("meshes[{index}]"), reason));
    }
    Ok(shape)
}

fn surface(
    reader: &mut Reader<'_, '_, '_>,
    (primitive, accessor): (&Primitive, usize),
    at: &str,
    room: &mut Room,
    skipped: &mut Skipped,
) -> Result<Surface, Fault> {
    let field = format!("{at}.attributes.POSITION");
    room.take(reader.count(accessor, &field)?, at)?;
    let positions = triples(&reader.floats(accessor, &field, any(VEC3))?);
    let count = positions.len();
    let influences = influences(reader, primitive, at, count, skipped)?;
    let mut targets = Vec::with_capacity(primitive.targets.len());
    for (i, target) in primitive.targets.iter().enumerate() {
        let field = format!("{at}.targets[{i}].POSITION");
        targets.push(match target.get("POSITION") {
            None => None,
            Some(&accessor) => {
                room.take(count as u64, at)?;
                let expected = super::accessor::Expected { shape: VEC3, count: Some(count) };
                Some(triples(&reader.floats(accessor, &field, expected)?))
            }
        });
    }
    let is_read = |name: &str| {
        name == "POSITION" || name.starts_with("JOINTS_") || name.starts_with("WEIGHTS_")
    };
    for name in primitive.attributes.keys().filter(|name| !is_read(name)) {
        if let Err(place) = skipped.attributes.binary_search(name) {
            skipped.attributes.insert(place, name.clone());
        }
    }
    let triangles = triangles(reader, primitive, at, count, room)?;
    let mut surface = Surface { positions, triangles, influences, targets };
    skipped.vertices += count as u64;
    if let Some(unused) = Unused::of(count, &surface.triangles) {
        skipped.unused += unused.count as u64;
        surface.drop(&unused);
    }
    Ok(surface)
}
impl Surface {
    /// Drops vertices of no triangle.
    fn drop(&mut self, unused: &Unused) {
        unused.retain([&mut self.positions].into_iter());
        unused.retain(self.influences.iter_mut().map(|set| &mut set.joints));
        unused.retain(self.influences.iter_mut().map(|set| &mut set.weights));
        unused.retain(self.targets.iter_mut().flatten());
        unused.renumber(&mut self.triangles);
    }
}
fn triples(values: &[f32]) -> Vec<[f32; 3]> {
    values.as_chunks().0.to_vec()
}

/// Reads JOINTS_0 and WEIGHTS_0, JOINTS_1 and WEIGHTS_1, and so on.
fn influences(
    reader: &mut Reader<'_, '_, '_>,
    primitive: &Primitive,
    at: &str,
    count: usize,
    skipped: &mut Skipped,
) -> Result<Vec<Influences>, Fault> {
    let mut sets: Vec<Influences> = vec![];
    let expected = super::accessor::Expected { shape: VEC4, count: Some(count) };
    loop {
        let [joints, weights] = ["JOINTS", "WEIGHTS"].map(|name| format!("{name}_{}", sets.len()));
        let pair = (primitive.attributes.get(&joints), primitive.attributes.get(&weights));
        let (of_joints, of_weights) = match pair {
            (Some(&of_joints), Some(&of_weights)) => (of_joints, of_weights),
            (None, None) => break,
            _ => return Err(fault(at.into(), format!("expected both {joints} and {weights}"))),
        };
        let field = format!("{at}.attributes.{joints}");
        let joints = reader.integers(of_joints, &field, expected)?;
        let field = format!("{at}.attributes.{weights}");
        let weights = reader.floats(of_weights, &field, expected)?;
        if let Some(i) = weights.iter().position(|&w| w < 0.0) {
            let (vertex, weight) = (i / 4, weights[i]);
            return Err(fault(field, format!("vertex {vertex}: weight {weight}, expected >= 0")));
        }
        let (joints, weights) = (joints.as_chunks().0.to_vec(), weights.as_chunks().0.to_vec());
        sets.push(Influences { joints, weights });
    }
    // Weights may be rounded: they are made to sum to 1.
    for vertex in 0..count {
        let sum = sets.iter().map(|set| set.weights[vertex].iter().sum::<f32>()).sum::<f32>();
        if sum > 0.0 && sum.is_finite() {
            let all = sets.iter_mut().flat_map(|set| &mut set.weights[vertex]);
            all.for_each(|weight| *weight /= sum);
        } else if let Some(first) = sets.first_mut() {
            first.weights[vertex] = [1.0, 0.0, 0.0, 0.0];
            skipped.unweighted += 1;
        }
    }
    Ok(sets)
}

fn triangles(
    reader: &mut Reader<'_, '_, '_>,
    primitive: &Primitive,
    at: &str,
    vertices: usize,
    room: &mut Room,
) -> Result<Vec<[u32; 3]>, Fault> {
    let corners = match primitive.indices {
        None => {
            room.take(vertices as u64, at)?;
            (0..vertices as u32).collect()
        }
        Some(accessor) => {
            let field = format!("{at}.indices");
            room.take(reader.count(accessor, &field)?, at)?;
            let corners = reader.integers(accessor, &field, any(SCALAR))?;
            if let Some(i) = corners.iter().position(|&c| c as usize >= vertices) {
                let index = corners[i];
                let reason =
                    format!("corner {i}: index {index}, but there are {vertices} vertices");
                return Err(fault(field, reason));
            }
            corners
        }
    };
    let has_area = |[a, b, c]: &[u32; 3]| a != b && b != c && c != a;
    let windows = || corners.windows(3).map(|w| [w[0], w[1], w[2]]);
    match primitive.mode {
        TRIANGLES if corners.len() % 3 == 0 => Ok(corners.as_chunks().0.to_vec()),
        TRIANGLES => {
            let reason =
                format!("{} corners of triangles, expected a multiple of 3", corners.len());
            Err(fault(at.into(), reason))
        }
        // Corners are repeated to begin another strip.
        TRIANGLE_STRIP => {
            let turned =
                |(i, [a, b, c]): (usize, [u32; 3])| if i % 2 == 0 { [a, b, c] } else { [b, a, c] };
            Ok(windows().enumerate().map(turned).filter(has_area).collect())
        }
        TRIANGLE_FAN => {
            let fan = corners.iter().skip(1).zip(corners.iter().skip(2));
            Ok(fan.map(|(&b, &c)| [corners[0], b, c]).filter(has_area).collect())
        }
        mode => Err(fault(at.into(), format!("mode is {mode}, expected 0 to 6"))),
    }
}
