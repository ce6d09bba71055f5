//! Vectors of three numbers.

/// Returns the name of axis 0, 1 or 2.
pub(crate) fn axis_name(axis: usize) -> char {
    ['x', 'y', 'z'][axis]
}

/// Position, direction or difference of two positions.
pub(crate) type Vector = [f64; 3];

/// Reverses a vector.
#[inline]
pub(crate) fn flip(vector: &mut Vector) {
    *vector = vector.map(|c| -c);
}

/// Returns `a - b`.
#[inline]
pub(crate) fn sub(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] - b[i])
}

/// Returns the scalar product.
#[inline]
pub(crate) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Returns the vector product.
#[inline]
pub(crate) fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}
