//! Affine maps of the plane.

/// Affine map of the plane: `x' = a x + b y + tx`, `y' = c x + d y + ty`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// Linear part `[[a, b], [c, d]]`.
    pub linear: [[f32; 2]; 2],
    /// Translation `[tx, ty]`.
    pub shift: [f32; 2],
}

impl Affine {
    /// Identity map.
    pub const IDENTITY: Affine = Affine { linear: [[1.0, 0.0], [0.0, 1.0]], shift: [0.0, 0.0] };

    /// Returns the map from the pixels of an image to those of the same image with `x` and `y`
    /// times as many pixels along its axes. Pixel centres are at whole numbers.
    pub(crate) fn between_sizes(x: f32, y: f32) -> Affine {
        Affine { linear: [[x, 0.0], [0.0, y]], shift: [0.5 * x - 0.5, 0.5 * y - 0.5] }
    }
    /// Returns the similarity that rotates by `angle` radians (x towards y), scales, and maps the
    /// point `from` to `to`.
    pub fn similarity(angle: f32, scale: f32, from: (f32, f32), to: (f32, f32)) -> Affine {
        let (sin, cos) = angle.sin_cos();
        Affine {
            linear: [[scale * cos, -scale * sin], [scale * sin, scale * cos]],
            shift: [0.0; 2],
        }
        .moving(from, to)
    }
    /// Returns the map with the same linear part that maps `from` to `to`.
    pub fn moving(self, from: (f32, f32), to: (f32, f32)) -> Affine {
        let (x, y) = Affine { shift: [0.0; 2], ..self }.apply(from);
        Affine { shift: [to.0 - x, to.1 - y], ..self }
    }
    /// Maps a point.
    pub fn apply(&self, (x, y): (f32, f32)) -> (f32, f32) {
        let [[a, b], [c, d]] = self.linear;
        (a * x + b * y + self.shift[0], c * x + d * y + self.shift[1])
    }
    /// Composes two maps: `other` first, then `self`.
    pub fn after(&self, other: &Affine) -> Affine {
        let [[a, b], [c, d]] = self.linear;
        let [[e, f], [g, h]] = other.linear;
        let linear = [[a * e + b * g, a * f + b * h], [c * e + d * g, c * f + d * h]];
        let (x, y) = self.apply((other.shift[0], other.shift[1]));
        Affine { linear, shift: [x, y] }
    }
    /// Returns the factor of areas; negative for reflections.
    pub fn determinant(&self) -> f32 {
        self.linear[0][0] * self.linear[1][1] - self.linear[0][1] * self.linear[1][0]
    }
    /// Returns the factor of lengths, on average: the root of that of areas.
    pub fn scale(&self) -> f32 {
        self.determinant().abs().sqrt()
    }
    /// Returns whether the scales along the two principal axes have a ratio of at most `most`.
    /// False for reflections.
    pub fn is_tilted_at_most(&self, most: f32) -> bool {
        let [[a, b], [c, d]] = self.linear;
        // With singular values s and t: determinant = s t, squares = s^2 + t^2.
        let squares = a * a + b * b + c * c + d * d;
        squares <= (most + 1.0 / most) * self.determinant()
    }
    /// Returns the inverse; `None` if the map is singular.
    pub fn inverse(&self) -> Option<Affine> {
        let determinant = self.determinant();
        if determinant.abs() < 1e-12 || !determinant.is_finite() {
            return None;
        }
        let [[a, b], [c, d]] = self.linear;
        let linear = [[d / determinant, -b / determinant], [-c / determinant, a / determinant]];
        Some(Affine { linear, shift: [0.0; 2] }.moving((self.shift[0], self.shift[1]), (0.0, 0.0)))
    }
    /// Maps a normal. The result is not a unit vector.
    pub(crate) fn apply_normal(&self, (x, y): (f32, f32)) -> (f32, f32) {
        let [[a, b], [c, d]] = self.linear;
        let sign = self.determinant().signum();
        (sign * (d * x - c * y), sign * (a * y - b * x))
    }
    /// Maps the centres of the four corner pixels of an image, in cyclic order: its outline.
    pub fn outline(&self, width: usize, height: usize) -> [(f32, f32); 4] {
        corners(width, height).map(|p| self.apply(p))
    }
    /// Returns the mean distance between the images of an image's four corner pixel centres under
    /// two maps.
    pub fn corner_error(&self, other: &Affine, width: usize, height: usize) -> f32 {
        let corners = corners(width, height);
        let distance = |&p: &(f32, f32)| {
            let (a, b) = (self.apply(p), other.apply(p));
            (a.0 - b.0).hypot(a.1 - b.1)
        };
        corners.iter().map(distance).sum::<f32>() / 4.0
    }
}

/// Returns the centres of the four corner pixels of an image, in cyclic order.
pub(crate) fn corners(width: usize, height: usize) -> [(f32, f32); 4] {
    let (right, bottom) = (width as f32 - 1.0, height as f32 - 1.0);
    [(0.0, 0.0), (right, 0.0), (right, bottom), (0.0, bottom)]
}
