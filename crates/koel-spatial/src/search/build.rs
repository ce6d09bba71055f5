//! Construction of a [`SpatialHash`]: bounds, cell numbers, sort, occupied cells, map.

use koel::primitives::{Compact, SortPairs};
use koel::{Buffer, Device, Duplicates, MapBuilder, MapOptions, Stream, View};
use koel_spatial_kernels::search::cells::{
    BOUNDS, CellsIn, CellsOut, cell_keys, gather_points, link_cells, mark_cells, point_bounds,
    unordered, write_cells,
};
use koel_spatial_kernels::search::table::{Grid, MAX_CELLS};

use super::{SearchError, SpatialHash, check_finite, count32, triples};

pub(super) fn build(
    stream: &Stream,
    points: View<'_, u32>,
    cell_size: f64,
) -> Result<SpatialHash, SearchError> {
    if !(cell_size.is_finite() && cell_size > 0.0 && (1.0 / cell_size).is_finite()) {
        return Err(SearchError::CellSize { found: cell_size });
    }
    let count = triples("point", points.len())?;
    let n = count32("points", count)?;
    let device = stream.device();
    let grid = grid_around(bounds(stream, points, n)?, cell_size)?;
    let (keys, sorted) = sort(stream, points, n, grid)?;
    let (occupied, cells, names) = occupied_cells(stream, keys, n, grid)?;
    let numbers = names.numbers.view();
    // In a wide grid, names may collide: the map holds the first cell of each name, and the
    // others are linked to it.
    let duplicates = if grid.wide == 0 { Duplicates::Unchecked } else { Duplicates::KeepFirst };
    let mut builder = MapBuilder::new(device, MapOptions::default().with_duplicates(duplicates))?;
    let map = builder.build(stream, names.names.view(), numbers)?;
    Ok(SpatialHash { device: device.clone(), grid, points: count, occupied, cells, sorted, map })
}

/// Returns the least x, y, z followed by the greatest x, y, z; zeros if there are no points.
fn bounds(stream: &Stream, points: View<'_, u32>, n: u32) -> Result<[f32; BOUNDS], SearchError> {
    /// Points per block: few enough atomics on the six words, and enough blocks to fill the device.
    const TURN: u32 = 32 * 256;
    if n == 0 {
        return Ok([0.0; BOUNDS]);
    }
    let mut words = stream.device().upload(&[u32::MAX, u32::MAX, u32::MAX, 0, 0, 0])?;
    let bounds = words.view_mut().arg("bounds", stream)?;
    // SAFETY: `points` holds three coordinates for each of `n` points, `bounds` six words.
    unsafe {
        point_bounds::launch(stream, n.div_ceil(TURN), n, points.arg("points", stream)?, bounds)
    }?;
    let words = words.download()?;
    let bounds: [f32; BOUNDS] = std::array::from_fn(|i| f32::from_bits(unordered(words[i])));
    if bounds.iter().any(|c| !c.is_finite()) {
        check_finite("point", bytemuck::cast_slice(&points.download()?))?;
    }
    Ok(bounds)
}

fn grid_around(bounds: [f32; BOUNDS], size: f64) -> Result<Grid, SearchError> {
    let origin: [f64; 3] = std::array::from_fn(|a| bounds[a].into());
    let per_unit = 1.0 / size;
    // The cell of the greatest coordinate, computed with the arithmetic of the kernels, is the
    // last.
    let cells: [f64; 3] =
        std::array::from_fn(|a| ((f64::from(bounds[a + 3]) - origin[a]) * per_unit).floor() + 1.0);
    let all = cells.iter().product::<f64>();
    if cells.iter().any(|&c| c > f64::from(u32::MAX)) || all > MAX_CELLS as f64 {
        return Err(SearchError::TooManyCells { size, cells });
    }
    let wide = u32::from(all > f64::from(u32::MAX) + 1.0);
    Ok(Grid { origin, size, per_unit, cells: cells.map(|c| c as u32), wide })
}

/// Sorts the cell numbers of the points, and the points in that order; points of one cell stay
/// sorted by index.
fn sort(
    stream: &Stream,
    points: View<'_, u32>,
    n: u32,
    grid: Grid,
) -> Result<(Buffer<u64>, Buffer<u32>), SearchError> {
    let (device, count, blocks) =
        (stream.device(), n as usize, n.div_ceil(cell_keys::SPEC.threads));
    let points = points.arg("points", stream)?;
    let (mut keys, mut indices) = (device.alloc(count)?, device.alloc(count)?);
    // SAFETY: the buffers hold three coordinates, a key and an index for each of `n` points.
    unsafe {
        let (keys, indices) =
            (keys.view_mut().arg("keys", stream)?, indices.view_mut().arg("indices", stream)?);
        cell_keys::launch(stream, blocks, n, grid, points, keys, indices)?;
    }
    let last = grid.key(grid.cells.map(|c| c - 1));
    let (mut sorted_keys, mut sorted_indices) = (device.alloc(count)?, device.alloc(count)?);
    SortPairs::new(device, count)?.bits(0..(u64::BITS - last.leading_zeros()).max(1))?.run(
        stream,
        keys.view(),
        indices.view(),
        sorted_keys.view_mut(),
        sorted_indices.view_mut(),
    )?;
    let mut sorted = device.alloc(4 * count)?;
    // SAFETY: the buffers hold three coordinates, an index and four words for each of `n` points.
    unsafe {
        let (indices, sorted) =
            (sorted_indices.view().arg("indices", stream)?, sorted.view_mut().arg("out", stream)?);
        gather_points::launch(stream, blocks, n, points, indices, sorted)?;
    }
    Ok((sorted_keys, sorted))
}

/// Input of the map: the names of the occupied cells, and their positions.
struct Names {
    names: Buffer<u32>,
    numbers: Buffer<u32>,
}

fn occupied_cells(
    stream: &Stream,
    keys: Buffer<u64>,
    n: u32,
    grid: Grid,
) -> Result<(u32, Buffer<u64>, Names), SearchError> {
    let (device, count) = (stream.device(), n as usize);
    let (mut first, mut places) = (device.alloc(count)?, device.alloc(count)?);
    // SAFETY: the buffers hold a key, a flag and a position for each of `n` points.
    unsafe {
        let (first, places) =
            (first.view_mut().arg("first", stream)?, places.view_mut().arg("places", stream)?);
        let keys = keys.view().arg("keys", stream)?;
        mark_cells::launch(stream, n.div_ceil(mark_cells::SPEC.threads), n, keys, first, places)?;
    }
    let (mut cell_keys, mut starts, mut kept) =
        (device.alloc(count)?, device.alloc(count)?, device.alloc(1)?);
    if n > 0 {
        Compact::new(device, count)?.run_pairs(
            stream,
            first.view(),
            keys.view(),
            places.view(),
            cell_keys.view_mut(),
            starts.view_mut(),
            kept.view_mut(),
        )?;
    } else {
        kept.view_mut().fill_bytes(0, stream)?;
    }
    let occupied = kept.download()?[0];
    let in_all = occupied as usize;
    let mut cells = device.alloc(2 * in_all + 2)?;
    let (mut names, mut numbers) = (device.alloc(in_all)?, device.alloc(in_all)?);
    let blocks = (occupied + 1).div_ceil(write_cells::SPEC.threads);
    // SAFETY: the inputs hold a key and a start for each occupied cell; `cells` holds two words for
    // each occupied cell and for the end.
    unsafe {
        write_cells::launch(
            stream,
            blocks,
            grid,
            CellsIn {
                keys: cell_keys.view().arg("keys", stream)?,
                starts: starts.view().arg("starts", stream)?,
                n: occupied,
                points: n,
            },
            CellsOut {
                cells: cells.view_mut().arg("cells", stream)?,
                names: names.view_mut().arg("names", stream)?,
                numbers: numbers.view_mut().arg("numbers", stream)?,
            },
        )?;
    }
    if grid.wide != 0 {
        link(stream, device, &names, &numbers, &mut cells)?;
    }
    Ok((occupied, cells, Names { names, numbers }))
}

/// Chains the cells of equal name.
fn link(
    stream: &Stream,
    device: &Device,
    names: &Buffer<u32>,
    numbers: &Buffer<u32>,
    cells: &mut Buffer<u64>,
) -> Result<(), SearchError> {
    let count = names.len();
    let (mut by_name, mut of_name) = (device.alloc(count)?, device.alloc(count)?);
    SortPairs::new(device, count)?.run(
        stream,
        names.view(),
        numbers.view(),
        by_name.view_mut(),
        of_name.view_mut(),
    )?;
    let (by_name, of_name) =
        (by_name.view().arg("names", stream)?, of_name.view().arg("cells_of", stream)?);
    let blocks = (count as u32).div_ceil(link_cells::SPEC.threads);
    // SAFETY: the buffers hold `count` names and cells, and two words of `cells` for each.
    unsafe {
        link_cells::launch(
            stream,
            blocks,
            count as u32,
            by_name,
            of_name,
            cells.view_mut().arg("cells", stream)?,
        )
    }?;
    Ok(())
}
