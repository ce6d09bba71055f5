//! Neighbourhoods that grow with the noise of the points.
//!
//! A plane through few points of a noisy surface is a guess: its angle is off by about the noise
//! divided by the neighbourhood's radius and by the square root of its points. Larger
//! neighbourhoods help until they bend or reach an edge. Both show in the variance across the
//! plane: that of noise stays as the neighbourhood grows; that of a bend grows with the square of
//! the area, that of an edge with the area.
//!
//! Neighbourhoods grow along the graph of nearest neighbours: a step replaces the sums of each
//! point (number, positions, products of positions) by the mean of its neighbours' sums. After m
//! steps, points around count with a bell-shaped weight, m times as wide in area as the k nearest
//! points. A step costs k reads per point however many points count, and does not cross a gap that
//! is wider than the distance to the k-th neighbour, so that opposite walls stay apart.

use super::median;
use super::plane::{self, Fit};
use nalgebra::{Matrix3, Vector3};
use rayon::prelude::*;

/// Maximum number of steps: the neighbourhood then counts as 64 k points.
const MAX_STEPS: usize = 64;
/// Standard error of a normal, in radians, that needs no larger neighbourhood.
const ENOUGH: f64 = 0.03;
/// Growth of the variance across the plane, when the neighbourhood doubles, up to which it is
/// noise. That of an edge doubles, that of a bend grows fourfold.
const NOISE: f64 = 1.3;
/// Median of the variance across planes, divided by that along them, above which noise hides the
/// surface at this size.
const HIDDEN: f64 = 0.15;
/// Ratio of the squared radii of two neighbourhoods beyond which the larger is that of an outlier,
/// which does not contribute.
const OUTLYING: f64 = 9.0;

/// Sums over a neighbourhood, divided by its number of points; positions are relative to the point.
#[derive(Clone, Copy, Default)]
struct Sums {
    mean: [f64; 3],
    /// Products xx, yy, zz, xy, xz, yz.
    products: [f64; 6],
}
impl Sums {
    fn add(&mut self, other: &Sums, from: [f64; 3], weight: f64) {
        let Sums { mean: m, products: p } = other;
        let d = from;
        for a in 0..3 {
            self.mean[a] += weight * (m[a] + d[a]);
            self.products[a] += weight * (p[a] + d[a] * (2.0 * m[a] + d[a]));
        }
        for (i, (a, b)) in [(0, 1), (0, 2), (1, 2)].into_iter().enumerate() {
            self.products[3 + i] += weight * (p[3 + i] + d[a] * m[b] + d[b] * m[a] + d[a] * d[b]);
        }
    }
    fn fit(&self) -> Fit {
        let mean = Vector3::from(self.mean);
        let [xx, yy, zz, xy, xz, yz] = self.products;
        let products = Matrix3::new(xx, xy, xz, xy, yy, yz, xz, yz, zz);
        plane::of_covariance(mean, products - mean * mean.transpose())
    }
}

/// The neighbour graph: `k` neighbours of each point.
#[derive(Clone, Copy)]
pub(super) struct Graph<'a> {
    pub positions: &'a [[f32; 3]],
    pub indices: &'a [u32],
    pub k: usize,
}
impl Graph<'_> {
    fn of(&self, i: usize) -> &[u32] {
        &self.indices[i * self.k..][..self.k]
    }
    fn step(&self, from: usize, to: u32) -> [f64; 3] {
        let (a, b) = (self.positions[from], self.positions[to as usize]);
        std::array::from_fn(|i| f64::from(b[i]) - f64::from(a[i]))
    }
    /// Returns whether the neighbours of a point are much closer to theirs.
    fn is_outlier(&self, i: usize, fits: &[Fit]) -> bool {
        let is_near = |&&j: &&u32| fits[i].along > OUTLYING * fits[j as usize].along;
        2 * self.of(i).iter().filter(is_near).count() > self.k
    }
    /// Returns the sums over the nearest points of each point.
    fn sums(&self) -> Vec<Sums> {
        let at_point = Sums::default();
        let of = |i: usize| {
            let mut sums = Sums::default();
            let each = 1.0 / self.k as f64;
            self.of(i).iter().for_each(|&j| sums.add(&at_point, self.step(i, j), each));
            sums
        };
        (0..self.positions.len()).into_par_iter().map(of).collect()
    }
    /// Returns the mean of the sums of each point's neighbours, without outliers.
    fn spread(&self, sums: &[Sums], reach: &[f64]) -> Vec<Sums> {
        let of = |i: usize| {
            let near = |&&j: &&u32| reach[j as usize] <= OUTLYING * reach[i];
            let count = self.of(i).iter().filter(near).count();
            if count == 0 {
                return sums[i];
            }
            let (mut all, each) = (Sums::default(), 1.0 / count as f64);
            for &j in self.of(i).iter().filter(near) {
                all.add(&sums[j as usize], self.step(i, j), each);
            }
            all
        };
        (0..self.positions.len()).into_par_iter().map(of).collect()
    }
    /// Returns the variance across the planes of each point's neighbours, on average.
    fn noise(&self, fits: &[Fit]) -> Vec<f64> {
        let of = |i: usize| {
            let of_near = self.of(i).iter().map(|&j| fits[j as usize].across);
            of_near.sum::<f64>() / self.k as f64
        };
        (0..fits.len()).into_par_iter().map(of).collect()
    }
}

/// Replaces fits of the `k` nearest points by those of larger neighbourhoods where noise requires
/// them.
pub(super) fn grow(graph: Graph<'_>, fits: &mut [Fit]) {
    let k = graph.k as f64;
    let is_enough = |fit: &Fit, points: f64| fit.across <= ENOUGH * ENOUGH * points * fit.along;
    let may_grow = |(i, fit): (usize, &Fit)| {
        fit.determined && !is_enough(fit, k) && !graph.is_outlier(i, fits)
    };
    let mut grows: Vec<bool> = fits.iter().enumerate().map(may_grow).collect();
    let few = fits.len() / 1000;
    let is_rare = |grows: &[bool]| grows.iter().filter(|&&g| g).count() <= few;
    if is_rare(&grows) {
        return;
    }
    let reach: Vec<f64> = fits.iter().map(|fit| fit.along).collect();
    let (mut sums, mut noise) = (graph.sums(), graph.noise(fits));
    let mut hidden = is_hidden(fits);
    let (mut steps, mut next) = (1, 2);
    while next <= MAX_STEPS && !is_rare(&grows) {
        while steps < next {
            sums = graph.spread(&sums, &reach);
            steps += 1;
        }
        let larger: Vec<Fit> = sums.par_iter().map(Sums::fit).collect();
        let larger_noise = graph.noise(&larger);
        for i in 0..fits.len() {
            if !grows[i] {
                continue;
            }
            grows[i] = hidden || larger_noise[i] <= NOISE * noise[i];
            if grows[i] {
                fits[i] = larger[i];
                grows[i] = !is_enough(&fits[i], 2.0 * k * next as f64);
            }
        }
        hidden = hidden && is_hidden(&larger);
        (noise, next) = (larger_noise, 2 * next);
    }
}

/// Returns whether most neighbourhoods are no flatter than noise makes them.
fn is_hidden(fits: &[Fit]) -> bool {
    median(fits.iter().map(Fit::thickness)) > HIDDEN
}
