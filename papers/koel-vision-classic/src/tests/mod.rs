//! Searches of points, against an exhaustive oracle.
mod naive;
mod points;
