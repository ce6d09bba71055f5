//! Both clouds on the device, concatenated, with a separate array for each coordinate.

use super::parts::{Parts, host, host_mut};
use super::{IntersectError, MAX_POINTS, Side};
use crate::grid::Grid;
use crate::key::Order;
use koel::{Buffer, Device, DeviceKind, Stream, View};
use koel_kernels::math::unit;
use koel_scans::PointCloud;
use koel_spatial_kernels::intersect::clouds::{Clouds, GROUP, Groups};
use koel_spatial_kernels::intersect::place::{Place, PointsIn, PointsOut, spatial_place_points};
use koel_spatial_kernels::intersect::voxelize::Frame;
use rayon::prelude::*;

/// Points of both clouds, A first, each padded to groups of four, and the per-point results of a
/// frame.
pub(super) struct Points {
    /// Coordinates x, y, z, then the normals, as `f32` bits.
    values: [Buffer<u32>; 6],
    /// Points given, and their places with padding.
    counts: [usize; 2],
    padded: [usize; 2],
    /// Index of the given point for each place.
    order: [Vec<u32>; 2],
    /// The same on the device, once points have been replaced.
    places: [Option<Buffer<u32>>; 2],
    /// Voxel keys.
    pub keys: Buffer<u32>,
    /// Positions in the voxel.
    pub local: Buffer<u32>,
    /// Voxel numbers.
    pub voxels: Buffer<u32>,
    /// Rank of each point in its voxel.
    pub ranks: Buffer<u32>,
    /// Points grouped by voxel.
    pub order_by_voxel: Buffer<u32>,
    /// Labels.
    pub labels: Buffer<u8>,
    /// Labels of one cloud in host memory.
    downloaded: Vec<u8>,
    /// The points as the CPU handles them. Then keys, positions, ranks and order are not used.
    pub parts: Option<Parts>,
}
impl Points {
    /// Checks both clouds, sorts each by voxel, and uploads them; with places for at least `room`
    /// points of each.
    pub(super) fn upload(
        device: &Device,
        a: &PointCloud,
        b: &PointCloud,
        grid: &Grid,
        room: [usize; 2],
        most_voxels: impl Fn(usize) -> usize,
    ) -> Result<Points, IntersectError> {
        let clouds = [(Side::A, a), (Side::B, b)];
        let (mut order, mut padded) = ([vec![], vec![]], [0; 2]);
        let mut values: [Vec<u32>; 6] = Default::default();
        for (side, cloud) in clouds {
            let normals = check(side, cloud)?;
            let places = cloud.positions.len().max(room[side.index()]);
            if places > MAX_POINTS {
                return Err(IntersectError::TooManyPoints { cloud: side, points: places });
            }
            let near = near_order(cloud, grid);
            padded[side.index()] = places.next_multiple_of(GROUP as usize);
            for &i in &near {
                let unit = unit(normals[i as usize]);
                for axis in 0..3 {
                    values[axis].push(cloud.positions[i as usize][axis].to_bits());
                    values[3 + axis].push(unit[axis].to_bits());
                }
            }
            for _ in near.len()..padded[side.index()] {
                (0..3).for_each(|axis| values[axis].push(f32::NAN.to_bits()));
                (3..6).for_each(|axis| values[axis].push(0));
            }
            order[side.index()] = near;
        }
        let n = padded[0] + padded[1];
        let [x, y, z, u, v, w] = values;
        let upload = |v: Vec<u32>| device.upload(&v);
        let on_cpu = device.kind() == DeviceKind::Cpu;
        let of_kernels = || device.alloc(if on_cpu { 0 } else { n });
        Ok(Points {
            values: [upload(x)?, upload(y)?, upload(z)?, upload(u)?, upload(v)?, upload(w)?],
            counts: [a.positions.len(), b.positions.len()],
            padded,
            order,
            places: [None, None],
            keys: of_kernels()?,
            local: of_kernels()?,
            voxels: device.alloc(n)?,
            ranks: of_kernels()?,
            order_by_voxel: of_kernels()?,
            labels: device.alloc(n)?,
            downloaded: vec![],
            parts: on_cpu.then(|| Parts::new(device, padded, most_voxels(n))).transpose()?,
        })
    }
    /// Replaces the points of a cloud. They keep the order of the points before, if there are as
    /// many: neighbours stay neighbours when a cloud deforms. Otherwise they take the order given.
    pub(super) fn replace(
        &mut self,
        s: &Stream,
        cloud: Side,
        positions: View<'_, u32>,
        normals: View<'_, u32>,
    ) -> Result<(), IntersectError> {
        let (side, n) = (cloud.index(), positions.len() / 3);
        if !positions.len().is_multiple_of(3) {
            return Err(IntersectError::NotTriples { cloud, words: positions.len() });
        }
        if normals.len() != positions.len() {
            let (words, points) = (normals.len(), n);
            return Err(match words.is_multiple_of(3) {
                true => IntersectError::NormalCount { cloud, points, normals: words / 3 },
                false => IntersectError::NotTriples { cloud, words },
            });
        }
        if n == 0 {
            return Err(IntersectError::Empty { cloud });
        }
        if n > self.padded[side] {
            return Err(IntersectError::NoRoom { cloud, points: n, room: self.padded[side] });
        }
        let place = Place {
            first: if side == 0 { 0 } else { self.padded[0] as u32 },
            padded: self.padded[side] as u32,
            points: n as u32,
        };
        let (positions, normals) = (positions.arg("positions", s)?, normals.arg("normals", s)?);
        let order = (n != self.counts[side]).then(|| (0..n as u32).collect::<Vec<u32>>());
        let places = match (&order, self.places[side].take()) {
            (None, Some(places)) => places,
            (order, _) => s.device().upload(order.as_ref().unwrap_or(&self.order[side]))?,
        };
        let [x, y, z, nx, ny, nz] = &mut self.values;
        // SAFETY: the order leads to `points` points with three words each; there are `padded`
        // places from `first` on.
        unsafe {
            spatial_place_points::launch(
                s,
                place.padded.div_ceil(128),
                place,
                PointsIn { positions, normals, order: places.view().arg("order", s)? },
                PointsOut {
                    x: x.view_mut().arg("x", s)?,
                    y: y.view_mut().arg("y", s)?,
                    z: z.view_mut().arg("z", s)?,
                    nx: nx.view_mut().arg("nx", s)?,
                    ny: ny.view_mut().arg("ny", s)?,
                    nz: nz.view_mut().arg("nz", s)?,
                },
            )?
        };
        self.counts[side] = n;
        self.places[side] = Some(places);
        if let Some(order) = order {
            self.order[side] = order;
        }
        Ok(())
    }
    /// Returns the number of points of both clouds, including padding.
    pub(super) fn padded(&self) -> usize {
        self.padded[0] + self.padded[1]
    }
    /// Returns the number of points of one cloud, including padding.
    pub(super) fn padded_of(&self, side: Side) -> usize {
        self.padded[side.index()]
    }
    /// Returns the number of points given for one cloud.
    pub(super) fn given(&self, side: Side) -> usize {
        self.counts[side.index()]
    }
    /// Copies the points of a cloud and their normals to the host, in the order in memory.
    pub(super) fn download(&self, side: Side) -> koel::Result<[Vec<u32>; 6]> {
        let first = if side == Side::A { 0 } else { self.padded[0] };
        let range = first..first + self.counts[side.index()];
        let mut all: [Vec<u32>; 6] = Default::default();
        for (to, values) in all.iter_mut().zip(&self.values) {
            *to = values.view().slice(range.clone())?.download()?;
        }
        Ok(all)
    }
    /// Returns the groups of points.
    pub(super) fn groups(&self) -> Groups {
        let groups = |points: usize| points as u32 / GROUP;
        Groups { all: groups(self.padded()), of_a: groups(self.padded[0]) }
    }
    /// Builds the argument for kernels; `motions` holds the poses of the clouds.
    pub(super) fn clouds(&self, s: &Stream, motions: &Buffer<u64>) -> koel::Result<Clouds> {
        let [x, y, z, nx, ny, nz] = &self.values;
        Ok(Clouds {
            x: x.view().arg("x", s)?,
            y: y.view().arg("y", s)?,
            z: z.view().arg("z", s)?,
            nx: nx.view().arg("nx", s)?,
            ny: ny.view().arg("ny", s)?,
            nz: nz.view().arg("nz", s)?,
            motions: motions.view().arg("motions", s)?,
            groups: self.groups(),
        })
    }
    /// Moves the points of the CPU's parts, and finds their cells.
    pub(super) fn voxelize_parts(
        &mut self,
        device: &Device,
        motions: &Buffer<u64>,
        grid: (Frame, u32),
        state: &mut Buffer<u32>,
    ) -> koel::Result<()> {
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let [x, y, z, ..] = &self.values;
        let positions = [host(x.view())?, host(y.view())?, host(z.view())?];
        let (mut cells, mut state) = (self.voxels.view_mut(), state.view_mut());
        let (cells, state) = (host_mut(&mut cells)?, host_mut(&mut state)?);
        parts.voxelize(device, positions, host(motions.view())?, grid, cells, state);
        Ok(())
    }
    /// Finds the voxels of the points of the CPU's parts and writes the sums of all voxels, or of
    /// those that `marks` marks as intersections.
    pub(super) fn sum_parts(
        &mut self,
        device: &Device,
        motions: &Buffer<u64>,
        bricks: &Buffer<u64>,
        marks: Option<&Buffer<u32>>,
        sums: &mut [u32],
    ) -> koel::Result<()> {
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let [.., nx, ny, nz] = &self.values;
        let normals = [host(nx.view())?, host(ny.view())?, host(nz.view())?];
        let marks = marks.map(|marks| host(marks.view())).transpose()?;
        let (motions, bricks) = (host(motions.view())?, host(bricks.view())?);
        let mut voxels = self.voxels.view_mut();
        parts.sum(device, (normals, motions), bricks, marks, host_mut(&mut voxels)?, sums);
        Ok(())
    }
    /// Appends the labels of a cloud's points, in input order. Synchronizes.
    pub(super) fn append_labels(&mut self, side: Side, to: &mut Vec<u8>) -> koel::Result<()> {
        let first = if side == Side::A { 0 } else { self.padded[0] };
        let labels = self.labels.view().slice(first..first + self.padded[side.index()])?;
        let labels = match labels.host() {
            Some(labels) => labels,
            None => {
                self.downloaded.resize(labels.len(), 0);
                labels.copy_to_host(&mut self.downloaded)?;
                &self.downloaded
            }
        };
        let begin = to.len();
        to.resize(begin + self.counts[side.index()], 0);
        for (&i, &label) in self.order[side.index()].iter().zip(labels) {
            to[begin + i as usize] = label;
        }
        Ok(())
    }
    /// Returns the bytes on the device.
    pub(super) fn bytes(&self) -> usize {
        let words = self.values.iter().map(Buffer::bytes).sum::<usize>();
        let of_frame = [&self.keys, &self.local, &self.voxels, &self.ranks, &self.order_by_voxel];
        let places = self.places.iter().flatten().map(Buffer::bytes).sum::<usize>();
        words
            + places
            + of_frame.iter().map(|b| b.bytes()).sum::<usize>()
            + self.labels.bytes()
            + self.parts.as_ref().map_or(0, Parts::bytes)
    }
}

fn check(cloud: Side, points: &PointCloud) -> Result<&[[f32; 3]], IntersectError> {
    let n = points.positions.len();
    let normals = points.normals.as_deref().ok_or(IntersectError::NoNormals { cloud })?;
    if n == 0 {
        return Err(IntersectError::Empty { cloud });
    }
    if normals.len() != n {
        return Err(IntersectError::NormalCount { cloud, points: n, normals: normals.len() });
    }
    Ok(normals)
}
/// Orders the points along a curve through fine cells, so that adjacent threads share voxels;
/// points outside the grid come last. Any rigid motion keeps neighbours together.
fn near_order(cloud: &PointCloud, grid: &Grid) -> Vec<u32> {
    const AXIS: f64 = (1 << 21) as f64;
    let finer = AXIS / f64::from(grid.resolution());
    let key = |i: u32| {
        let q = grid.to_voxel_units(cloud.positions[i as usize].map(f64::from)).map(|c| c * finer);
        let inside = q.iter().all(|c| (0.0..AXIS).contains(c));
        if inside { Order::Morton.pack(q.map(|c| c as u32)) } else { u64::MAX }
    };
    let mut keyed = (0..cloud.positions.len() as u32)
        .into_par_iter()
        .map(|i| (key(i), i))
        .collect::<Vec<(u64, u32)>>();
    keyed.par_sort_unstable();
    keyed.into_iter().map(|(_, i)| i).collect()
}
