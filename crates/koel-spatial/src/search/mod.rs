//! Neighbour search on a device, with points hashed into a voxel grid.

mod answers;
mod build;
mod error;
mod spacing;

pub use answers::{Nearest, Neighbours};
pub use error::SearchError;
pub(crate) use spacing::cell_size;

use koel::device::Apart;
use koel::primitives::Scan;
use koel::{Buffer, Device, Map, Stream, View, ViewMut};
use koel_spatial_kernels::search::nearest::find_nearest;
use koel_spatial_kernels::search::table::{Cells, Grid};
use koel_spatial_kernels::search::within::{Lists, count_within, list_within};

/// Neighbour search on a device, with points hashed into a voxel grid.
///
/// Points are sorted by cell, and a [`koel::Map`] leads from occupied cells to their points.
/// Queries are batched, from host slices or device buffers: all points
/// [within](SpatialHash::within) a radius of each query, or the k [nearest](SpatialHash::nearest).
/// The caller chooses the cell size; it affects only speed and the order of results. For radius
/// queries, choose cells about as large as the radius; for k neighbours, cells of about k / 4
/// points.
///
/// ```
/// use koel_spatial::SpatialHash;
///
/// let points = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [5.0, 0.0, 0.0], [1.5, 0.0, 0.0]];
/// let hash = SpatialHash::build(&koel::Device::cpu()?, &points, 1.0)?;
/// let near = hash.within(&points, 1.0)?;
/// assert_eq!(near.of(1), [0, 1, 3]);
/// let nearest = hash.nearest(&[[4.0, 0.0, 0.0]], 2)?;
/// assert_eq!((nearest.of(0), nearest.squared_distances_of(0)), (&[2, 3][..], &[1.0, 6.25][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Exactness
/// Coordinates are `f32`. The squared distance of two points is computed in `f64`, x first, then y,
/// then z, and compared with the square of the radius: no neighbour is missed and none is added,
/// wherever points and queries lie, and every device returns the same answer in the same order. Any
/// finite coordinate works, negative or huge. There may be up to 2^63 cells
/// ([`SearchError::TooManyCells`] beyond).
///
/// # Memory
/// 16 bytes per point; for each occupied cell 16 bytes and a pair of the map (about 10 bytes).
pub struct SpatialHash {
    device: Device,
    grid: Grid,
    points: usize,
    occupied: u32,
    /// Two words for each occupied cell and for the end; see `koel_spatial_kernels::search::table`.
    cells: Buffer<u64>,
    /// Four words per point: coordinates and index.
    sorted: Buffer<u32>,
    map: Map,
}

impl SpatialHash {
    /// Hashes host points into cells with the given side, in the units of the points.
    ///
    /// Cost: see [`build_on`](Self::build_on), plus a copy to the device.
    ///
    /// # Errors
    /// [`SearchError`]: a coordinate is not finite, the cell size is invalid, there are too many
    /// cells, memory runs out, or the points exceed 32-bit indices.
    pub fn build(
        device: &Device,
        points: &[[f32; 3]],
        cell_size: f64,
    ) -> Result<SpatialHash, SearchError> {
        let staged = device.stage(bytemuck::cast_slice::<[f32; 3], u32>(points))?;
        build::build(&device.stream()?, staged.view(), cell_size)
    }

    /// Hashes points in device memory: three coordinates per point, as the bits of `f32`.
    ///
    /// Runs a pass for the bounds, one for the keys, a stable radix sort of (64-bit key, index)
    /// pairs over the bits that the grid needs, a compaction of the distinct keys, and a map build
    /// over them. Synchronizes with the device three times: for the bounds, the number of occupied
    /// cells, and the completion of the map. Uses about 40 bytes of scratch memory per point, which
    /// it frees.
    ///
    /// # Errors
    /// As for [`build`](Self::build); also if the number of coordinates is not a multiple of three.
    pub fn build_on(
        stream: &Stream,
        points: View<'_, u32>,
        cell_size: f64,
    ) -> Result<SpatialHash, SearchError> {
        let _apart = Apart::begin();
        build::build(stream, points, cell_size)
    }

    /// Hashes host points into cells that suit searches for the `k` nearest neighbours of the
    /// points themselves. The cell side is the median distance to the k-th neighbour, estimated
    /// from a sample of the points.
    ///
    /// Cost: as for [`build`](Self::build), plus 32 passes over the points on the host for the
    /// sample.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub fn build_for_nearest(
        device: &Device,
        points: &[[f32; 3]],
        k: usize,
    ) -> Result<SpatialHash, SearchError> {
        check_finite("point", points)?;
        SpatialHash::build(device, points, cell_size(points, k))
    }

    /// Returns the device of the hash.
    pub fn device(&self) -> &Device {
        &self.device
    }
    /// Returns the number of points.
    pub fn len(&self) -> usize {
        self.points
    }
    /// Returns whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.points == 0
    }
    /// Returns the side of a cell.
    pub fn cell_size(&self) -> f64 {
        self.grid.size
    }
    /// Returns the number of cells along each axis of the box around the points.
    pub fn cells(&self) -> [u32; 3] {
        self.grid.cells
    }
    /// Returns the number of cells that contain a point.
    pub fn occupied_cells(&self) -> usize {
        self.occupied as usize
    }
    /// Returns the bytes of device memory in use.
    pub fn bytes(&self) -> usize {
        self.cells.bytes() + self.sorted.bytes() + self.map.bytes()
    }

    /// Builds the argument for kernels.
    fn arg(&self, stream: &Stream) -> Result<Cells, SearchError> {
        Ok(Cells {
            grid: self.grid,
            occupied: self.occupied,
            cells: self.cells.view().arg("cells", stream)?,
            points: self.sorted.view().arg("points", stream)?,
            table: self.map.table(stream)?,
        })
    }

    /// Returns the indices of all points at distance `radius` or less from each query.
    ///
    /// The neighbours of a query are ordered by cell (x, then y, then z), and by index within a
    /// cell. The order is the same on every device, but depends on the cell size. A point is a
    /// neighbour of itself. Memory: 4 bytes per neighbour and 16 per query;
    /// [`count_within_into`](Self::count_within_into) returns the counts beforehand.
    ///
    /// # Errors
    /// [`SearchError`]: a query is not finite, the radius is invalid, or memory runs out.
    pub fn within(&self, queries: &[[f32; 3]], radius: f64) -> Result<Neighbours, SearchError> {
        check_finite("query", queries)?;
        let stream = self.device.stream()?;
        let staged = self.device.stage(bytemuck::cast_slice::<[f32; 3], u32>(queries))?;
        let (offsets, indices) = self.within_on(&stream, staged.view(), radius)?;
        Ok(Neighbours::new(offsets.download()?, indices.download()?))
    }

    /// Variant of [`within`](Self::within) from device memory to device memory: the indices of
    /// query i are at `offsets[i]..offsets[i + 1]`.
    ///
    /// Counts, computes offsets by a prefix sum, reads the total back (the only synchronization),
    /// and lists; every cell is looked up twice. A query that is not finite has no neighbours.
    ///
    /// # Errors
    /// As for [`within`](Self::within); also if the number of coordinates is not a multiple of
    /// three, or for buffers of another device.
    pub fn within_on(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        radius: f64,
    ) -> Result<(Buffer<u64>, Buffer<u32>), SearchError> {
        let n = triples("query", queries.len())?;
        let (mut counts, mut offsets) = (self.device.alloc(n + 1)?, self.device.alloc(n + 1)?);
        counts.view_mut().slice(n..)?.fill_bytes(0, stream)?;
        self.count_within_into(stream, queries, radius, counts.view_mut().slice(..n)?)?;
        let mut scan = Scan::new(&self.device, n + 1)?;
        scan.exclusive(stream, counts.view(), offsets.view_mut())?;
        let total = scan.total().download()?[0];
        let mut indices = self.device.alloc(usize::try_from(total).unwrap_or(usize::MAX))?;
        self.list_within_into(stream, queries, radius, offsets.view(), indices.view_mut())?;
        Ok((offsets, indices))
    }

    /// Sets `counts[i]` to the number of points within `radius` of query i (three coordinates, as
    /// the bits of `f32`).
    ///
    /// Launches one kernel; neither allocates nor synchronizes. A query looks up the rows of cells
    /// that its ball touches, about one lookup per row if points are dense. If that would take more
    /// lookups than there are occupied cells, it walks the occupied cells in its box by bisection.
    ///
    /// # Errors
    /// Invalid radius, mismatched lengths, or buffers of another device.
    pub fn count_within_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        radius: f64,
        mut counts: ViewMut<'_, u64>,
    ) -> Result<(), SearchError> {
        let _apart = Apart::begin();
        check_radius(radius)?;
        let n = count32("queries", triples("query", queries.len())?)?;
        check_length("counts", counts.len(), "the queries", n as usize)?;
        // SAFETY: there are `n` queries and counts; cells, points and table are as built.
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

    /// Writes the points within `radius` of query i to `indices[offsets[i]..]`, in the order of
    /// [`within`](Self::within). Offsets are the prefix sums of the counts. Points that do not fit
    /// before `offsets[i + 1]` or in `indices` are omitted.
    ///
    /// Launches one kernel; neither allocates nor synchronizes.
    ///
    /// # Errors
    /// Invalid radius, mismatched lengths, or buffers of another device.
    pub fn list_within_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        radius: f64,
        offsets: View<'_, u64>,
        mut indices: ViewMut<'_, u32>,
    ) -> Result<(), SearchError> {
        let _apart = Apart::begin();
        check_radius(radius)?;
        let n = count32("queries", triples("query", queries.len())?)?;
        check_length("offsets", offsets.len(), "the queries and one", n as usize + 1)?;
        // SAFETY: there are `n` queries and `n + 1` offsets; nothing is written beyond `room`;
        // cells, points and table are as built.
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

    /// Returns the `k` points nearest to each query, or all points if there are fewer, in ascending
    /// order of distance, then of index. A point is its own nearest neighbour unless a point with a
    /// lower index has the same position.
    ///
    /// # Errors
    /// [`SearchError`]: a query is not finite, or memory runs out.
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

    /// Writes the k points nearest to query i to `indices[k i..]`, in the order of
    /// [`nearest`](Self::nearest), and their squared distances to `squared_distances[k i..]`, as
    /// the bits of `f64`. If there are fewer than k points, or a query is not finite, the remaining
    /// indices are 2^32 - 1 and the distances infinite.
    ///
    /// Launches one kernel; neither allocates nor synchronizes. A query looks up its own cell, then
    /// the cells up to two away. If points farther out may be nearer, it walks the occupied cells
    /// outwards from itself, axis by axis, up to the k-th best distance: distant queries and gaps
    /// cost bisections, not visits to empty cells. The k best points are kept sorted; the
    /// worst-case cost is proportional to k times the number of points compared.
    ///
    /// # Errors
    /// Mismatched lengths, or buffers of another device.
    pub fn nearest_into(
        &self,
        stream: &Stream,
        queries: View<'_, u32>,
        k: usize,
        mut indices: ViewMut<'_, u32>,
        mut squared_distances: ViewMut<'_, u64>,
    ) -> Result<(), SearchError> {
        let _apart = Apart::begin();
        let n = count32("queries", triples("query", queries.len())?)?;
        let (k, places) = (count32("neighbours", k)?, (n as usize).saturating_mul(k));
        check_length("indices", indices.len(), "k times the queries", places)?;
        check_length("squared_distances", squared_distances.len(), "k times the queries", places)?;
        // SAFETY: there are `n` queries and `k n` results; cells, points and table are as built.
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

/// Converts a number of coordinates to a number of points.
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

/// Converts to a 32-bit count, capped slightly below 2^32 so that rounding up to whole blocks
/// cannot wrap.
fn count32(what: &'static str, n: usize) -> Result<u32, koel::Error> {
    const MAX: usize = u32::MAX as usize - (1 << 16);
    if n <= MAX { Ok(n as u32) } else { Err(koel::Error::TooMany { what, n, max: MAX }) }
}
