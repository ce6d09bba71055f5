//! Faces of more than three corners, divided into triangles.

use earcut::Earcut;
use nalgebra::Vector3;

use crate::error::Place;
use crate::report::ReadNote;

/// Share of a face's area below which triangles that are turned the other way are rounding.
const ROUNDING: f64 = 1e-6;
/// Distance of a corner from the face's plane, in lengths of the face, from which it is noted.
const BENT: f64 = 0.01;

/// Face of more than three corners, whose triangles are a fan so far.
struct Polygon {
    /// Index of its first triangle.
    first: usize,
    corners: usize,
    place: Place,
}

/// Faces of one kind, and the first of them.
#[derive(Default)]
struct Count {
    count: u64,
    first: Place,
}

impl Count {
    fn add(&mut self, place: Place) {
        if self.count == 0 {
            self.first = place;
        }
        self.count += 1;
    }
    fn note(&self, of: impl Fn(u64) -> String) -> Option<ReadNote> {
        (self.count > 0).then(|| ReadNote { place: self.first, text: of(self.count) })
    }
}

/// Triangles of all faces, in their order. A face may refer to vertices that come later, so faces
/// are divided at the end: see [`Faces::divide`].
#[derive(Default)]
pub(crate) struct Faces {
    pub(crate) triangles: Vec<[u32; 3]>,
    polygons: Vec<Polygon>,
}

impl Faces {
    /// Adds a face of at least three corners.
    pub(crate) fn push(&mut self, corners: &[u32], place: Place) {
        if corners.len() > 3 {
            let (first, corners) = (self.triangles.len(), corners.len());
            self.polygons.push(Polygon { first, corners, place });
        }
        let fan = corners.windows(2).skip(1).map(|edge| [corners[0], edge[0], edge[1]]);
        self.triangles.extend(fan);
    }

    /// Divides the faces into triangles without other vertices, and returns them with notes.
    ///
    /// A face is divided as seen along its mean normal (M. Newell): into a fan around its first
    /// corner if that covers it, else by cutting ears (the crate `earcut`), which is right for
    /// concave corners. A face that crosses itself has no inside that all programs agree on: it
    /// keeps its fan, whose parts outside cancel each other, and is noted. So is one that is not
    /// planar. Time is linear in the corners for fans, and mostly n log n for the other faces.
    pub(crate) fn divide(mut self, at: impl Fn(u32) -> [f64; 3]) -> (Vec<[u32; 3]>, Vec<ReadNote>) {
        let (mut all, mut bent, mut crossed) =
            (Count::default(), Count::default(), Count::default());
        let (mut triangles, mut most) = (0, 0.0f64);
        let mut divider = Divider::default();
        for Polygon { first, corners, place } in self.polygons {
            all.add(place);
            triangles += corners as u64 - 2;
            let fan = &mut self.triangles[first..first + corners - 2];
            let found = divider.divide(fan, &at);
            if found.is_crossed {
                crossed.add(place);
            }
            if found.bend > BENT {
                bent.add(place);
                most = most.max(found.bend);
            }
        }
        let notes = [
            all.note(|n| {
                format!("{n} faces of more than 3 corners were split into {triangles} triangles")
            }),
            bent.note(|n| {
                let most = 100.0 * most;
                format!(
                    "{n} faces are not planar, by up to {most:.1} % of their length: they were \
                     split as seen along their mean normals"
                )
            }),
            crossed.note(|n| {
                format!(
                    "{n} faces cross themselves: each became a fan of triangles around its first \
                     corner, and its area is too large"
                )
            }),
        ];
        (self.triangles, notes.into_iter().flatten().collect())
    }
}

/// What a face is like.
#[derive(Default)]
struct Found {
    is_crossed: bool,
    /// Greatest distance of a corner from the plane, in lengths of the face.
    bend: f64,
}

/// Divides faces, with buffers that are used again.
#[derive(Default)]
struct Divider {
    corners: Vec<u32>,
    flat: Vec<[f64; 2]>,
    earcut: Earcut<f64>,
    ears: Vec<u32>,
    is_used: Vec<bool>,
}

impl Divider {
    /// Replaces the triangles of a fan by others if the fan does not cover the face.
    fn divide(&mut self, fan: &mut [[u32; 3]], at: impl Fn(u32) -> [f64; 3]) -> Found {
        self.corners.clear();
        self.corners.push(fan[0][0]);
        self.corners.extend(fan.iter().map(|t| t[1]));
        self.corners.extend(fan.last().map(|t| t[2]));
        let origin = Vector3::from(at(self.corners[0]));
        let from_first = |&corner: &u32| Vector3::from(at(corner)) - origin;
        // Twice the area of all triangles, with its direction and without.
        let (mut area, mut total) = (Vector3::zeros(), 0.0);
        let mut span = 0.0f64;
        for edge in self.corners.windows(2) {
            let (a, b) = (from_first(&edge[0]), from_first(&edge[1]));
            let of = a.cross(&b);
            area += of;
            total += of.norm();
            span = span.max(b.norm());
        }
        let doubled = area.norm();
        if total.is_nan() || total <= 0.0 {
            return Found::default();
        }
        if doubled <= ROUNDING * total {
            return Found { is_crossed: true, bend: 0.0 };
        }
        let normal = area / doubled;
        let [u, v] = across(&normal);
        self.flat.clear();
        let mut bend = 0.0f64;
        for corner in &self.corners {
            let p = from_first(corner);
            bend = bend.max(p.dot(&normal).abs());
            self.flat.push([p.dot(&u), p.dot(&v)]);
        }
        let bend = bend / span;
        if is_covered_by_fan(&self.flat, doubled) {
            return Found { is_crossed: false, bend };
        }
        let is_crossed = !self.cut_ears(fan, doubled);
        Found { is_crossed, bend }
    }

    /// Replaces the fan by ears. Returns false, and leaves the fan, if these do not cover the face:
    /// it crosses itself.
    fn cut_ears(&mut self, fan: &mut [[u32; 3]], doubled: f64) -> bool {
        let no_holes: [u32; 0] = [];
        self.earcut.earcut(self.flat.iter().copied(), &no_holes, &mut self.ears);
        self.is_used.clear();
        self.is_used.resize(self.flat.len(), false);
        let at = |corner: u32| self.flat[corner as usize];
        let (mut area, mut total) = (0.0, 0.0);
        for &[a, b, c] in self.ears.as_chunks::<3>().0 {
            let of = doubled_area(at(a), at(b), at(c));
            (area, total) = (area + of, total + of.abs());
            [a, b, c].iter().for_each(|&corner| self.is_used[corner as usize] = true);
        }
        if (total - doubled).abs() > ROUNDING * doubled || area.abs() < (1.0 - ROUNDING) * total {
            return false;
        }
        let turned = |[a, b, c]: [u32; 3]| if area > 0.0 { [a, b, c] } else { [a, c, b] };
        // Corners on a straight edge are not part of any ear. Triangles without area keep them, so
        // that neighbouring faces meet along the same edges.
        let n = self.flat.len() as u32;
        let Some(start) = (0..n).find(|&i| self.is_used[i as usize]) else { return false };
        let (mut last, mut before) = (start, start);
        let mut flat = vec![];
        for corner in (start + 1..n).chain(0..=start) {
            if before != last {
                flat.push([last, before, corner]);
            }
            if self.is_used[corner as usize] {
                last = corner;
            }
            before = corner;
        }
        let ears = self.ears.as_chunks::<3>().0.iter().copied().map(turned);
        if ears.len() + flat.len() != fan.len() {
            return false;
        }
        for (to, triangle) in fan.iter_mut().zip(ears.chain(flat)) {
            *to = triangle.map(|corner| self.corners[corner as usize]);
        }
        true
    }
}

/// Returns whether the fan around the first corner covers a face once: no triangle is turned the
/// other way, and they do not go round the corner.
fn is_covered_by_fan(flat: &[[f64; 2]], doubled: f64) -> bool {
    let Some((&first, others)) = flat.split_first() else { return true };
    let (mut lost, mut angle) = (0.0, 0.0);
    for edge in others.windows(2) {
        let of = doubled_area(first, edge[0], edge[1]);
        lost -= of.min(0.0);
        let [a, b] = [edge[0], edge[1]].map(|p| [p[0] - first[0], p[1] - first[1]]);
        angle += of.atan2(a[0] * b[0] + a[1] * b[1]);
    }
    lost <= ROUNDING * doubled && angle < std::f64::consts::TAU * (1.0 - ROUNDING)
}

fn doubled_area(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

/// Returns two unit vectors that make a right-handed system with a unit normal.
fn across(normal: &Vector3<f64>) -> [Vector3<f64>; 2] {
    let least = (0..3).min_by(|&i, &j| normal[i].abs().total_cmp(&normal[j].abs())).unwrap_or(0);
    let mut axis = Vector3::zeros();
    axis[least] = 1.0;
    let u = axis.cross(normal).normalize();
    [u, normal.cross(&u)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Divides a face in the plane z = x / 2.
    fn divided(outline: &[[f64; 2]]) -> (Vec<[u32; 3]>, Vec<String>) {
        let mut faces = Faces::default();
        let corners = (0..outline.len() as u32).collect::<Vec<u32>>();
        faces.push(&corners, Place::File);
        let at =
            |i: u32| [outline[i as usize][0], outline[i as usize][1], 0.5 * outline[i as usize][0]];
        let (triangles, notes) = faces.divide(at);
        (triangles, notes.into_iter().map(|note| note.text).collect())
    }
    fn area(outline: &[[f64; 2]], triangles: &[[u32; 3]]) -> [f64; 2] {
        let of = |t: &[u32; 3]| {
            let [a, b, c] = t.map(|i| outline[i as usize]);
            0.5 * doubled_area(a, b, c)
        };
        [triangles.iter().map(of).sum(), triangles.iter().map(|t| of(t).abs()).sum()]
    }
    /// Counts the triangles on each side of an edge of the outline.
    fn meets_its_neighbours(n: u32, triangles: &[[u32; 3]]) -> bool {
        let edges = |t: &[u32; 3]| [[t[0], t[1]], [t[1], t[2]], [t[2], t[0]]];
        let all = triangles.iter().flat_map(edges).collect::<Vec<[u32; 2]>>();
        (0..n).all(|i| all.iter().filter(|e| **e == [i, (i + 1) % n]).count() == 1)
            && all.iter().filter(|e| all.contains(&[e[1], e[0]])).count() == all.len() - n as usize
    }

    #[test]
    fn concave_faces_are_covered_once() {
        let star = |n: usize, inner: f64| {
            let at = |i: usize| {
                let (r, a) = (
                    if i.is_multiple_of(2) { 1.0 } else { inner },
                    i as f64 * std::f64::consts::PI / n as f64,
                );
                [r * a.cos(), r * a.sin()]
            };
            (0..2 * n).map(at).collect::<Vec<[f64; 2]>>()
        };
        let comb = (0..20).flat_map(|i| [[f64::from(i), 0.0], [f64::from(i) + 0.5, 9.0]]);
        let comb = comb.chain([[20.0, 0.0], [20.0, 10.0], [-1.0, 10.0], [-1.0, 0.0]]);
        // With corners on straight edges.
        let hook = [
            [0.0, 0.0],
            [2.0, 0.0],
            [4.0, 0.0],
            [4.0, 1.0],
            [1.0, 1.0],
            [1.0, 2.0],
            [1.0, 3.0],
            [4.0, 3.0],
            [4.0, 4.0],
            [3.0, 4.0],
            [0.0, 4.0],
            [0.0, 2.0],
        ];
        let outlines = [star(9, 0.4), star(5, 0.1), star(200, 0.3), comb.collect(), hook.to_vec()];
        for (outline, mut area_is) in outlines.into_iter().zip([0.0f64; 5]) {
            for rotation in [0, 1, outline.len() / 2] {
                for reversed in [false, true] {
                    let mut outline = outline.clone();
                    outline.rotate_left(rotation);
                    if reversed {
                        outline.reverse();
                    }
                    let n = outline.len() as u32;
                    let (triangles, notes) = divided(&outline);
                    assert_eq!(triangles.len(), outline.len() - 2);
                    assert_eq!(notes.len(), 1, "{notes:?}");
                    let [signed, unsigned] = area(&outline, &triangles);
                    if area_is == 0.0 {
                        area_is = unsigned;
                    }
                    assert!((signed.abs() - unsigned).abs() < 1e-9 * unsigned, "{outline:?}");
                    assert!((unsigned - area_is).abs() < 1e-9 * area_is);
                    assert_eq!(signed < 0.0, reversed, "{outline:?}");
                    assert!(meets_its_neighbours(n, &triangles), "{outline:?} {triangles:?}");
                }
            }
        }
    }

    #[test]
    fn what_crosses_itself_or_is_bent_is_noted() {
        let bow_tie = [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]];
        assert!(divided(&bow_tie).1[1].starts_with("1 faces cross themselves"));
        let at = |i: usize| {
            let a = i as f64 * 0.8 * std::f64::consts::PI;
            [a.cos(), a.sin()]
        };
        let pentagram = (0..5).map(at).collect::<Vec<[f64; 2]>>();
        let (triangles, notes) = divided(&pentagram);
        assert!(notes[1].starts_with("1 faces cross themselves"), "{notes:?} {triangles:?}");
        let mut faces = Faces::default();
        faces.push(&[0, 1, 2, 3], Place::Line(7));
        let bent = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.5], [0.0, 1.0, 0.0]];
        let (_, notes) = faces.divide(|i| bent[i as usize]);
        assert_eq!(notes[1].place, Place::Line(7));
        assert!(notes[1].text.starts_with("1 faces are not planar, by up to 1"), "{notes:?}");
        // Nothing to divide.
        let (triangles, notes) = divided(&[[1.0, 1.0]; 5]);
        assert_eq!((triangles.len(), notes.len()), (3, 1));
    }
}
