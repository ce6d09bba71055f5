//! Neighbour search: points hashed into a voxel grid, on a device.
//!
//! A [`SpatialHash`] sorts points by cell and keeps a [`koel::Map`] from occupied cells to their
//! points. Queries come in bulk, from host slices or from device buffers: all points
//! [within](SpatialHash::within) a radius of each query, or the k [nearest](SpatialHash::nearest).
//! The cell size is the user's choice; answers do not depend on it, their speed does: for
//! queries within a radius, cells about as large as the radius are good; for k neighbours, cells of
//! about k / 4 points.
//!
//! ```
//! use koel_spatial::SpatialHash;
//!
//! let points = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [5.0, 0.0, 0.0], [1.5, 0.0, 0.0]];
//! let hash = SpatialHash::build(&koel::Device::cpu()?, &points, 1.0)?;
//! let near = hash.within(&points, 1.0)?;
//! assert_eq!(near.of(1), [0, 1, 3]);
//! let nearest = hash.nearest(&[[4.0, 0.0, 0.0]], 2)?;
//! assert_eq!((nearest.of(0), nearest.squared_distances_of(0)), (&[2, 3][..], &[1.0, 6.25][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is exact
//! Coordinates are `f32`. The squared distance of two points is computed in `f64`, x first, then y,
//! then z, and compared with the square of the radius: no neighbour is missed and none is added,
//! wherever points and queries lie, and every device gives the same answer in the same order. Any
//! finite coordinate works, negative or huge; cells may be so small that there are 2^63 of
//! them ([`SearchError::TooManyCells`] beyond).

mod answers;
mod build;
mod error;
mod spacing;

pub use answers::{Nearest, Neighbours};
pub use error::SearchError;

use koel::primitives::Scan;
use koel::{Buffer, Device, Map, Stream, View, ViewMut};
use koel_kernels::spatial_search::nearest::find_nearest;
use koel_kernels::spatial_search::table::{Cells, Grid};
use koel_kernels::spatial_search::within::{Lists, count_within, list_within};

/// Points sorted by the cells of a voxel grid, and a hash table of the occupied cells.
///
/// Memory: 16 bytes a point, and 16 and a pair of the map (about 10 bytes) for each occupied cell.
pub struct SpatialHash {
    device: Device,
    grid: Grid,
    points: usize,
    occupied: u32,
    /// Two words for each occupied cell and for the end; see
    /// `koel_kernels::spatial_search::table`.
    cells: Buffer<u64>,
    /// Four words a point: coordinates and index.
    sorted: Buffer<u32>,
    map: Map,
}

impl SpatialHash {
    /// Hashes host points into cells of the given side, in the units of the points.
    ///
    /// Cost: see [`build_on`](Self::build_on), and a copy to the device.
    ///
    /// # Errors
    /// [`SearchError`]: a coordinate that is not finite, a bad cell size, too many cells, out of
    /// memory, more points than 32-bit indices reach.
    pub fn build(
        device: &Device,
        points: &[[f32; 3]],
        cell_size: f64,
    ) -> Result<SpatialHash, SearchError> {
        let staged = device.stage(bytemuck::cast_slice::<[f32; 3], u32>(points))?;
        build::build(&device.stream()?, staged.view(), cell_size)
    }

    /// Hashes points in device memory: three coordinates a point, as the bits of `f32`.
    ///
    /// A pass for the bounds, one for the keys, a stable radix sort of (64-bit key, index) pairs
    /// over the bits that the grid needs, a compaction of the distinct keys, and a map build
    /// over them. Waits for the device three times, to learn the bounds, the number of occupied
    /// cells, and that the map is built. The scratch memory, about 40 bytes a point, is
    /// given back.
    ///
    /// # Errors
    /// As [`build`](Self::build); coordinates that are not a multiple of three.
    pub fn build_on(
        stream: &Stream,
        points: View<'_, u32>,
        cell_size: f64,
    ) -> Result<SpatialHash, SearchError> {
        build::build(stream, points, cell_size)
    }

    /// Hashes host points into cells that suit searches for the `k` points nearest to each of them:
    /// as large as the distance to the k-th neighbour is at most half of the time, by a sample
    /// of the points.
    ///
    /// Cost: as [`build`](Self::build), and 32 passes over the points on the host for the sample.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_for_nearest(
        device: &Device,
        points: &[[f32; 3]],
        k: usize,
    ) -> Result<SpatialHash, SearchError> {
        check_finite("point", points)?;
        SpatialHash::build(device, points, spacing::cell_size(points, k))
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }
    /// Points.
    pub fn len(&self) -> usize {
        self.points
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.points == 0
    }
    /// The side of a cell.
    pub fn cell_size(&self) -> f64 {
        self.grid.size
    }
    /// Cells along each axis of the box around the points.
    pub fn cells(&self) -> [u32; 3] {
        self.grid.cells
    }
    /// Cells that hold a point.
    pub fn occupied_cells(&self) -> usize {
        self.occupied as usize
    }
    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.cells.bytes() + self.sorted.bytes() + self.map.bytes()
    }

    /// For kernels.
    fn arg(&self, stream: &Stream) -> Result<Cells, SearchError> {
        Ok(Cells {
            grid: self.grid,
            occupied: self.occupied,
            cells: self.cells.view().arg("cells", stream)?,
            points: self.sorted.view().arg("points", stream)?,
            table: self.map.table(stream)?,
        })
    }

    /// The indices of all points within `radius` of each query, both ends included.
    ///
    /// The neighbours of a query stand in the order of their cells (by x, then y, then z) and
    /// inside a cell by index: the same on every device, but another one for other cell sizes.
    /// A point is a neighbour of itself. Memory: 4 bytes a neighbour and 16 a query; where that
    /// may be too much, [`count_within`](Self::count_within) tells first.
    ///
    /// # Errors
    /// [`SearchError`]: a query that is not finite, a bad radius, out of memory.
    pub fn within(&self, queries: &[[f32; 3]], radius: f64) -> Result<Neighbours, SearchError> {
        check_finite("query", queries)?;
        let stream = self.device.stream()?;
        let staged = self.device.stage(bytemuck::cast_slice::<[f32; 3], u32>(queries))?;
        let (offsets, indices) = self.within_on(&stream, staged.view(), radius)?;
        Ok(Neighbours::new(offsets.download()?, indices.download()?))
    }

    /// As [`within`](Self::within), from device memory to device memory: the indices of query i are
    /// at `offsets[i]..offsets[i + 1]`.
    ///
    /// Counts, sums up, reads the total back (the only time it waits), and lists: every cell is
    /// looked up twice. A query that is not finite has no neighbours.
    ///
    /// # Errors
    /// As [`within`](Self::within); coordinates that are not a multiple of three, buffers of
    /// another device.
    pub fn within_on(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        radius: f64,
    ) -> Result<(Buffer<u64>, Buffer<u32>), SearchError> {
        let n = triples("query", queries.len())?;
        let (mut counts, mut offsets) = (self.device.alloc(n + 1)?, self.device.alloc(n + 1)?);
        counts.view_mut().slice(n..)?.fill_bytes(0, stream)?;
        self.count_within(stream, queries, radius, counts.view_mut().slice(..n)?)?;
        let mut scan = Scan::new(&self.device, n + 1)?;
        scan.exclusive(stream, counts.view(), offsets.view_mut())?;
        let total = scan.total().download()?[0];
        let mut indices = self.device.alloc(usize::try_from(total).unwrap_or(usize::MAX))?;
        self.list_within(stream, queries, radius, offsets.view(), indices.view_mut())?;
        Ok((offsets, indices))
    }

    /// `counts[i]` = how many points lie within `radius` of query i (three coordinates, as the bits
    /// of `f32`).
    ///
    /// One launch; allocates nothing and does not wait. A query looks up the rows of cells that its
    /// ball touches, about one lookup a row where points are dense; where that would be more
    /// lookups than there are occupied cells, it goes through those in its box by bisection.
    ///
    /// # Errors
    /// A bad radius, lengths that do not fit, buffers of another device.
    pub fn count_within(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        radius: f64,
        mut counts: ViewMut<'_, u64>,
    ) -> Result<(), SearchError> {
        check_radius(radius)?;
        let n = count32("queries", triples("query", queries.len())?)?;
        check_length("counts", counts.len(), "the queries", n as usize)?;
        // SAFETY: `n` queries and counts; cells, points and table as built.
        unsafe {
            count_within::launch(
                stream,
                n.div_ceil(count_within::SPEC.threads),
                self.arg(stream)?,
                n,
                queries.arg("queries", stream)?,
                radius.to_bits(),
                counts.arg("counts", stream)?,
            )?;
        }
        Ok(())
    }

    /// `indices[offsets[i]..]` = the points within `radius` of query i, in the order of
    /// [`within`](Self::within). What does not fit before `offsets[i + 1]`, or in `indices`, is
    /// left out: offsets are the running sums of the counts.
    ///
    /// One launch; allocates nothing and does not wait.
    ///
    /// # Errors
    /// A bad radius, lengths that do not fit, buffers of another device.
    pub fn list_within(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        radius: f64,
        offsets: View<'_, u64>,
        mut indices: ViewMut<'_, u32>,
    ) -> Result<(), SearchError> {
        check_radius(radius)?;
        let n = count32("queries", triples("query", queries.len())?)?;
        check_length("offsets", offsets.len(), "the queries and one", n as usize + 1)?;
        // SAFETY: `n` queries, an offset more; nothing is written behind `room`; cells, points and
        // table as built.
        unsafe {
            list_within::launch(
                stream,
                n.div_ceil(list_within::SPEC.threads),
                self.arg(stream)?,
                n,
                queries.arg("queries", stream)?,
                radius.to_bits(),
                Lists {
                    offsets: offsets.arg("offsets", stream)?,
                    room: indices.len() as u64,
                    found: indices.arg("indices", stream)?,
                },
            )?;
        }
        Ok(())
    }

    /// The `k` points nearest to each query, or all points where there are fewer: ascending by
    /// distance, then by index. A point is its own nearest neighbour, unless another one with a
    /// lesser index lies at the same place.
    ///
    /// # Errors
    /// [`SearchError`]: a query that is not finite, out of memory.
    pub fn nearest(&self, queries: &[[f32; 3]], k: usize) -> Result<Nearest, SearchError> {
        check_finite("query", queries)?;
        let k = k.min(self.points);
        let places = queries.len().saturating_mul(k);
        let (mut indices, mut distances) = (self.device.alloc(places)?, self.device.alloc(places)?);
        let staged = self.device.stage(bytemuck::cast_slice::<[f32; 3], u32>(queries))?;
        self.nearest_into(
            &self.device.stream()?,
            staged.view(),
            k,
            indices.view_mut(),
            distances.view_mut(),
        )?;
        let distances: Vec<u64> = distances.download()?;
        Ok(Nearest::new(
            k,
            indices.download()?,
            distances.into_iter().map(f64::from_bits).collect(),
        ))
    }

    /// `indices[k i..]` = the k points nearest to query i, in the order of
    /// [`nearest`](Self::nearest), and `squared_distances[k i..]` the squares of their
    /// distances, as the bits of `f64`. Where there are fewer than k points, and for a
    /// query that is not finite, indices are 2^32 - 1 and distances infinite.
    ///
    /// One launch; allocates nothing and does not wait. A query looks up its cell, then the cells
    /// around it, up to two cells away; if points farther out may be nearer, it goes through
    /// the occupied cells from itself outwards, axis by axis, as far as the k-th best distance:
    /// far queries and gaps cost bisections, not empty cells. Cost grows with k times
    /// the points compared in the worst case: the best k are kept sorted.
    ///
    /// # Errors
    /// Lengths that do not fit, buffers of another device.
    pub fn nearest_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        k: usize,
        mut indices: ViewMut<'_, u32>,
        mut squared_distances: ViewMut<'_, u64>,
    ) -> Result<(), SearchError> {
        let n = count32("queries", triples("query", queries.len())?)?;
        let (k, places) = (count32("neighbours", k)?, (n as usize).saturating_mul(k));
        check_length("indices", indices.len(), "k times the queries", places)?;
        check_length("squared_distances", squared_distances.len(), "k times the queries", places)?;
        // SAFETY: `n` queries, `k n` places; cells, points and table as built.
        unsafe {
            find_nearest::launch(
                stream,
                n.div_ceil(find_nearest::SPEC.threads),
                self.arg(stream)?,
                n,
                queries.arg("queries", stream)?,
                k,
                indices.arg("indices", stream)?,
                squared_distances.arg("squared_distances", stream)?,
            )?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for SpatialHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.grid.cells;
        write!(
            f,
            "SpatialHash[{} points in {} of {x} x {y} x {z} cells]",
            self.points, self.occupied
        )
    }
}

fn check_finite(what: &'static str, points: &[[f32; 3]]) -> Result<(), SearchError> {
    for (index, p) in points.iter().enumerate() {
        if let Some(axis) = p.iter().position(|c| !c.is_finite()) {
            return Err(SearchError::NotFinite { what, index, axis, value: p[axis] });
        }
    }
    Ok(())
}

fn check_radius(radius: f64) -> Result<(), SearchError> {
    if radius.is_finite() && radius >= 0.0 {
        Ok(())
    } else {
        Err(SearchError::Radius { found: radius })
    }
}

/// How many points so many coordinates are.
fn triples(what: &'static str, coordinates: usize) -> Result<usize, SearchError> {
    if !coordinates.is_multiple_of(3) {
        return Err(SearchError::Coordinates { what, found: coordinates });
    }
    Ok(coordinates / 3)
}

fn check_length(
    name: &'static str,
    found: usize,
    other: &'static str,
    expected: usize,
) -> Result<(), koel::Error> {
    if found == expected {
        Ok(())
    } else {
        Err(koel::Error::Length { name, found, other, expected })
    }
}

/// As a 32-bit count, a little below 2^32, so that rounding up to whole blocks does not wrap.
fn count32(what: &'static str, n: usize) -> Result<u32, koel::Error> {
    const MAX: usize = u32::MAX as usize - (1 << 16);
    if n <= MAX { Ok(n as u32) } else { Err(koel::Error::TooMany { what, n, max: MAX }) }
}
