//! Edges: local maxima of the luminance gradient, to a fraction of a pixel, with the direction of
//! the gradient.
//!
//! A GPU (and the test executor) finds them with kernels and keeps them on the device; the CPU
//! works row by row, which suits SIMD. The per-pixel code is shared:
//! [`koel_vision_kernels::edges`].
use crate::device::{ALL_ONES, Image, grid, in_kernels, upload};
use crate::picture::{Grey, size};
use koel::{Buffer, Stream, primitives};
use koel_kernels::compact::TILE;
use koel_vision_kernels::direction::direction;
use koel_vision_kernels::edges::{self as pixel, *};
use koel_vision_kernels::spread::*;
use koel_vision_kernels::{EdgesIn, Size};
use rayon::prelude::*;

/// Point of an edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    /// Horizontal position in pixels, from the centres of the leftmost pixels.
    pub x: f32,
    /// Vertical position in pixels, from the centres of the topmost pixels.
    pub y: f32,
    /// Unit vector from dark to bright.
    pub normal: (f32, f32),
    /// Direction of the normal, 2^32 per turn.
    pub direction: u32,
    /// Gradient in grey levels per pixel, times the contrast (capped at 3).
    pub strength: f32,
    /// Strength relative to the surroundings.
    pub contrast: f32,
}

/// Rows per task; enough work for a thread.
const ROWS: usize = 10;

/// Applies `f` to each row of a new image of the same size.
fn by_rows(width: usize, height: usize, f: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let mut out = vec![0.0; width * height];
    out.par_chunks_mut(width * ROWS).enumerate().for_each(|(block, rows)| {
        rows.chunks_mut(width).enumerate().for_each(|(y, row)| f(block * ROWS + y, row));
    });
    out
}

/// Returns the image convolved with a Gaussian of 1.8 pixels.
pub(crate) fn smoothed(image: &Grey) -> Grey {
    Grey { width: image.width, height: image.height, pixels: blurred(image) }
}
fn blurred(image: &Grey) -> Vec<f32> {
    let (w, h) = (image.width, image.height);
    let reach = REACH as isize;
    let inside = |i: isize, n: usize| mirrored(i as i32, n as u32) as usize;
    let columns = by_rows(w, h, |y, row| {
        for (k, &tap) in TAPS.iter().enumerate() {
            let from = inside(y as isize + k as isize - reach, h) * w;
            row.iter_mut().zip(&image.pixels[from..from + w]).for_each(|(o, &v)| *o += tap * v);
        }
    });
    by_rows(w, h, |y, row| {
        let from = &columns[y * w..][..w];
        let padded = (-reach..w as isize + reach).map(|x| from[inside(x, w)]).collect::<Vec<f32>>();
        for (k, &tap) in TAPS.iter().enumerate() {
            row.iter_mut().zip(&padded[k..]).for_each(|(o, &v)| *o += tap * v);
        }
    })
}

/// Returns the mean over a square window, clipped to the image.
fn local_mean(values: &[f32], w: usize, h: usize) -> Vec<f32> {
    let extent = |i: usize, n: usize| pixel::window(i as u32, WINDOW, n as u32);
    let columns = (0..w).map(|x| extent(x, w)).collect::<Vec<(u32, u32)>>();
    let mut sums = vec![0u32; w * h];
    sums.par_chunks_mut(w).zip(values.par_chunks(w)).for_each_init(
        || vec![0u32; w + 1],
        |prefix, (row, values)| {
            // Prefix sums per row turn a window into a difference.
            for (x, &v) in values.iter().enumerate() {
                prefix[x + 1] = prefix[x].wrapping_add(summand(v));
            }
            for (o, &(begin, end)) in row.iter_mut().zip(&columns) {
                *o = prefix[end as usize].wrapping_sub(prefix[begin as usize]);
            }
        },
    );
    let mut out = vec![0.0; w * h];
    out.par_chunks_mut(w * ROWS).enumerate().for_each(|(block, rows)| {
        // Down the rows: add rows that enter the window, subtract those that leave it.
        let (mut sum, mut inside) = (vec![0u32; w], (0, 0));
        for (y, row) in (block * ROWS..).zip(rows.chunks_mut(w)) {
            let (begin, end) = extent(y, h);
            if y == block * ROWS {
                inside = (begin, begin);
            }
            for entering in inside.1..end {
                sum.iter_mut().zip(&sums[entering as usize * w..]).for_each(|(s, v)| *s += v);
            }
            for leaving in inside.0..begin {
                sum.iter_mut().zip(&sums[leaving as usize * w..]).for_each(|(s, v)| *s -= v);
            }
            inside = (begin, end);
            for ((o, &sum), &(left, right)) in row.iter_mut().zip(&sum).zip(&columns) {
                *o = mean(sum, (end - begin) * (right - left));
            }
        }
    });
    out
}

/// Returns the bin of the median of an image's noise, computed by rows on the host.
pub(crate) fn noise_median(image: &Grey) -> u32 {
    let (w, h) = (image.width, image.height);
    let bins = NOISE_BINS as usize;
    let counts = (1..h - 1)
        .into_par_iter()
        .fold(
            || vec![0u32; bins],
            |mut counts, y| {
                let row = |dy: usize| &image.pixels[(y + dy - 1) * w..][..w];
                let rows = [row(0), row(1), row(2)];
                for x in 0..w - 2 {
                    counts[noise_bin(|dx, dy| rows[dy as usize][x + dx as usize]) as usize] += 1;
                }
                counts
            },
        )
        .reduce(
            || vec![0; bins],
            |mut a, b| {
                a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
                a
            },
        );
    let half = counts.iter().sum::<u32>() / 2;
    let mut below = 0;
    let bin = counts.iter().position(|&c| {
        below += c;
        below > half
    });
    bin.unwrap_or(0) as u32
}

/// Finds the edges of an image, in row-major order: Gaussian, Sobel, then the maxima of the
/// gradient along its own direction, above the noise and above the local mean.
///
/// Returns none for an image of fewer than 8 pixels per side. About 25 passes over the image, on
/// the host. The result does not depend on the number of threads and is bitwise identical to
/// [`DeviceEdges::find`] on any device.
pub(crate) fn edges(image: &Grey) -> Vec<Edge> {
    let (w, h) = (image.width, image.height);
    if w.min(h) < MIN_SIDE as usize {
        return vec![];
    }
    let least = threshold(noise_median(image));
    let smooth = blurred(image);
    let slope = |x: usize, y: usize| {
        gradient(|dx: u32, dy: u32| smooth[(y + dy as usize - 1) * w + x + dx as usize - 1])
    };
    let magnitudes = by_rows(w, h, |y, row| {
        if y > 0 && y + 1 < h {
            for (x, o) in row.iter_mut().enumerate().take(w - 1).skip(1) {
                *o = magnitude(slope(x, y));
            }
        }
    });
    let means = local_mean(&magnitudes, w, h);
    let edge = |x: usize, y: usize| {
        let strength = |x: u32, y: u32| magnitudes[y as usize * w + x as usize];
        let e =
            edge_at((x as u32, y as u32), least, strength, || slope(x, y), || means[y * w + x])?;
        let EdgePoint { x, y, normal, strength, contrast } = e;
        Some(Edge { x, y, normal, direction: direction(normal.0, normal.1), strength, contrast })
    };
    let (edge, margin) = (&edge, MARGIN as usize);
    let rows = (margin..h - margin).into_par_iter();
    rows.flat_map_iter(|y| (margin..w - margin).filter_map(move |x| edge(x, y))).collect()
}

impl Edge {
    pub(crate) fn place(&self) -> [u32; 4] {
        [self.x, self.y, self.normal.0, self.normal.1].map(f32::to_bits)
    }
    fn of(place: &[u32], traits: &[u32]) -> Edge {
        let [x, y, nx, ny] = [place[0], place[1], place[2], place[3]].map(f32::from_bits);
        let (strength, contrast) = (f32::from_bits(traits[1]), f32::from_bits(traits[2]));
        Edge { x, y, normal: (nx, ny), direction: traits[0], strength, contrast }
    }
}

/// Noise of an image, measured by kernels.
pub(crate) struct Noise {
    /// Bin of the median.
    pub median: Buffer<u32>,
}
impl Noise {
    /// Measures an image of floats, at least 8 pixels per side. 2 launches and a fill.
    pub(crate) fn measure(
        stream: &Stream,
        image: &Buffer<u32>,
        width: usize,
        height: usize,
    ) -> koel::Result<Noise> {
        let device = stream.device();
        let (mut counts, mut median) =
            (device.alloc::<u32>(NOISE_BINS as usize)?, device.alloc::<u32>(1)?);
        counts.view_mut().fill_bytes(0, stream)?;
        let blocks = ((width * height) as u32).div_ceil(NOISE_BINS);
        // SAFETY: there are a word per pixel and 4096 counts.
        unsafe {
            let pixels = image.view().arg("image", stream)?;
            let counted = counts.view_mut().arg("counts", stream)?;
            vision_noise::launch(stream, blocks, size(width, height), pixels, counted)?;
            let counts = counts.view().arg("counts", stream)?;
            vision_median::launch(stream, 1, counts, median.view_mut().arg("out", stream)?)?;
        }
        Ok(Noise { median })
    }
}
/// Returns the indices of the flagged pixels, in order, and their number. One launch, 2 fills.
pub(crate) fn flagged_pixels(
    stream: &Stream,
    flags: &Buffer<u8>,
) -> koel::Result<(Buffer<u32>, Buffer<u32>)> {
    let (device, n) = (stream.device(), flags.len() as u32);
    let tiles = n.div_ceil(TILE);
    let (mut status, mut ticket) = (device.alloc::<u64>(tiles as usize)?, device.alloc::<u32>(1)?);
    let (mut pixels, mut count) = (device.alloc::<u32>(flags.len())?, device.alloc::<u32>(1)?);
    status.view_mut().fill_bytes(0, stream)?;
    ticket.view_mut().fill_bytes(0, stream)?;
    // SAFETY: there are a byte and a word per pixel, and a status word per tile.
    unsafe {
        vision_pixels::launch(
            stream,
            tiles,
            n,
            flags.view().arg("flags", stream)?,
            pixels.view_mut().arg("pixels", stream)?,
            count.view_mut().arg("count", stream)?,
            status.view_mut().arg("status", stream)?,
            ticket.view_mut().arg("ticket", stream)?,
        )?;
    }
    Ok((pixels, count))
}

/// Edges of an image in device memory.
pub(crate) struct DeviceEdges {
    /// Pixels per row of the image.
    pub width: usize,
    /// Rows of the image.
    pub height: usize,
    /// The image, if kernels have found the edges.
    pub image: Option<Image>,
    /// Number of edges.
    pub count: usize,
    /// x, y and the normal's x, y of each edge, as floats; capacity one edge per pixel.
    pub places: Buffer<u32>,
    /// Direction, strength and contrast (floats) of each edge, and the index of the pixel where it
    /// was found.
    pub traits: Buffer<u32>,
}

impl DeviceEdges {
    /// Finds the [`edges`] of an image on the device of `stream`.
    ///
    /// With kernels: 7 launches and 2 fills. The image is copied to the device, and 4 bytes (the
    /// number of edges) are read back, which synchronizes. 60 bytes per pixel are allocated, of
    /// which 28 are freed at the end.
    pub(crate) fn find(stream: &Stream, image: &Grey) -> koel::Result<DeviceEdges> {
        let (width, height) = (image.width, image.height);
        let (pixels, device) = (width * height, stream.device());
        if !in_kernels(stream) {
            let edges = edges(image);
            let places = edges.iter().flat_map(Edge::place).collect::<Vec<u32>>();
            // Only the kernels use the pixel.
            let traits = |e: &Edge| [e.direction, e.strength.to_bits(), e.contrast.to_bits(), 0];
            let traits = edges.iter().flat_map(traits).collect::<Vec<u32>>();
            let (places, traits) = (device.upload(&places)?, device.upload(&traits)?);
            let count = edges.len();
            return Ok(DeviceEdges { width, height, image: None, count, places, traits });
        }
        let (mut places, mut traits) =
            (device.alloc::<u32>(4 * pixels)?, device.alloc::<u32>(4 * pixels)?);
        if width.min(height) < MIN_SIDE as usize {
            return Ok(DeviceEdges { width, height, image: None, count: 0, places, traits });
        }
        let (size, n) = (size(width, height), pixels as u32);
        let (image, mut smooth) = (upload(image, device)?, device.alloc::<u32>(pixels)?);
        let (mut magnitudes, mut row_sums) =
            (device.alloc::<u32>(pixels)?, device.alloc::<u32>(pixels)?);
        let mut flags = device.alloc::<u8>(pixels)?;
        let of_tiles = size.width.div_ceil(pixel::TILE.0) * size.height.div_ceil(pixel::TILE.1);
        let noise = Noise::measure(stream, &image, width, height)?;
        // SAFETY: arrays hold a word per pixel, four per edge, and a byte per flag. Sides are at
        // least 8 pixels.
        unsafe {
            vision_gradient::launch(
                stream,
                of_tiles,
                size,
                image.view().arg("image", stream)?,
                smooth.view_mut().arg("smooth", stream)?,
                magnitudes.view_mut().arg("magnitudes", stream)?,
            )?;
            let magnitudes = magnitudes.view().arg("magnitudes", stream)?;
            vision_row_sums::launch(
                stream,
                grid(n),
                size,
                magnitudes,
                row_sums.view_mut().arg("sums", stream)?,
            )?;
            let (smooth, row_sums) =
                (smooth.view().arg("smooth", stream)?, row_sums.view().arg("row_sums", stream)?);
            let slopes = SlopesIn { smooth, magnitudes, row_sums, size };
            let median = noise.median.view().arg("median", stream)?;
            let flagged = flags.view_mut().arg("flags", stream)?;
            vision_ridges::launch(stream, grid(n), slopes, median, flagged)?;
            let (found, count) = flagged_pixels(stream, &flags)?;
            let out = EdgesOut {
                places: places.view_mut().arg("places", stream)?,
                traits: traits.view_mut().arg("traits", stream)?,
            };
            vision_edges::launch(
                stream,
                grid(n),
                slopes,
                median,
                found.view().arg("pixels", stream)?,
                count.view().arg("count", stream)?,
                out,
            )?;
            let (image, count) = (Some(image), count.download()?[0] as usize);
            Ok(DeviceEdges { width, height, image, count, places, traits })
        }
    }
    /// Returns the size of the image as a kernel argument.
    pub(crate) fn size(&self) -> Size {
        size(self.width, self.height)
    }
    /// Returns the edges as a kernel argument.
    pub(crate) fn arg(&self, stream: &Stream) -> koel::Result<EdgesIn> {
        Ok(EdgesIn {
            places: self.places.view().arg("places", stream)?,
            traits: self.traits.view().arg("traits", stream)?,
            count: self.count as u32,
        })
    }
    /// Copies the edges to host memory: 32 bytes per edge. Synchronizes.
    pub(crate) fn download(&self) -> koel::Result<Vec<Edge>> {
        let words = |of: &Buffer<u32>| of.view().slice(..4 * self.count)?.download();
        let (places, traits) = (words(&self.places)?, words(&self.traits)?);
        Ok(places
            .chunks_exact(4)
            .zip(traits.chunks_exact(4))
            .map(|(p, t)| Edge::of(p, t))
            .collect())
    }
    /// Selects edges by [`spread`], those with the highest contrast first. Returns four words per
    /// point (x, y, direction and index) in host memory.
    ///
    /// With kernels: a radix sort, 4 launches, a compaction and 3 fills. Reads back the points,
    /// which synchronizes.
    pub(crate) fn spread(
        &self,
        stream: &Stream,
        apart: f32,
        most: usize,
    ) -> koel::Result<Vec<u32>> {
        if !in_kernels(stream) {
            return self.spread_on_host(apart, most);
        }
        let (device, n) = (stream.device(), self.count);
        let most = most.min(n);
        if n == 0 {
            return Ok(vec![]);
        }
        let mut points = device.alloc::<u32>(4 * most)?;
        let mut work = Spreading::new(stream, n, self.width * self.height)?;
        work.order(stream, self)?;
        work.choose(stream, self, apart)?;
        let kept = work.collect(stream, self, &mut points)?;
        points.view().slice(..4 * kept)?.download()
    }
    /// Variant of `spread` that runs the host's [`spread`].
    fn spread_on_host(&self, apart: f32, most: usize) -> koel::Result<Vec<u32>> {
        let edges = self.download()?;
        let kept = spread(&edges, strongest_first(&edges, |e| e.contrast).into_iter(), apart, most);
        let point =
            |i: usize| [edges[i].x.to_bits(), edges[i].y.to_bits(), edges[i].direction, i as u32];
        Ok(kept.into_iter().flat_map(point).collect())
    }
}

/// Working memory of [`DeviceEdges::spread`].
struct Spreading {
    /// Sort key and index of each edge; then both in sorted order.
    keys: Buffer<u32>,
    numbers: Buffer<u32>,
    sorted: Buffer<u32>,
    order: Buffer<u32>,
    /// Rank of each edge in the order.
    ranks: Buffer<u32>,
    /// Edge at each pixel.
    at: Buffer<u32>,
    states: Buffer<u32>,
    /// Whether an edge is kept, by its rank.
    flags: Buffer<u8>,
    ticket: Buffer<u32>,
    /// Kept edges and their number.
    chosen: Buffer<u32>,
    count: Buffer<u32>,
}
impl Spreading {
    /// Allocates memory for the given numbers of edges and pixels. 3 fills.
    fn new(stream: &Stream, edges: usize, pixels: usize) -> koel::Result<Spreading> {
        let device = stream.device();
        let words = |n: usize| device.alloc::<u32>(n);
        let mut work = Spreading {
            keys: words(edges)?,
            numbers: words(edges)?,
            sorted: words(edges)?,
            order: words(edges)?,
            ranks: words(edges)?,
            at: words(pixels)?,
            states: words(edges)?,
            flags: device.alloc::<u8>(edges)?,
            ticket: words(1)?,
            chosen: words(edges)?,
            count: words(1)?,
        };
        work.at.view_mut().fill_bytes(ALL_ONES, stream)?;
        work.states.view_mut().fill_bytes(0, stream)?;
        work.ticket.view_mut().fill_bytes(0, stream)?;
        Ok(work)
    }
    /// Sorts the edges by contrast. A launch and a radix sort.
    fn order(&mut self, stream: &Stream, edges: &DeviceEdges) -> koel::Result<()> {
        let n = edges.count as u32;
        // SAFETY: there are a word per edge and four words of traits.
        unsafe {
            vision_order::launch(
                stream,
                grid(n),
                edges.arg(stream)?,
                self.keys.view_mut().arg("keys", stream)?,
                self.numbers.view_mut().arg("numbers", stream)?,
            )?;
        }
        primitives::sort_pairs(
            stream,
            self.keys.view(),
            self.numbers.view(),
            self.sorted.view_mut(),
            self.order.view_mut(),
        )
    }
    /// Flags the edges that no earlier one in the order crowds out. 2 launches.
    fn choose(&mut self, stream: &Stream, edges: &DeviceEdges, apart: f32) -> koel::Result<()> {
        let (n, size, edges) = (edges.count as u32, edges.size(), edges.arg(stream)?);
        // SAFETY: there are a word per edge, four words of places and of traits, and a word per
        // pixel, which holds the index of an edge.
        unsafe {
            let order = self.order.view().arg("order", stream)?;
            vision_ranks::launch(
                stream,
                grid(n),
                edges,
                order,
                self.ranks.view_mut().arg("ranks", stream)?,
                self.at.view_mut().arg("at", stream)?,
            )?;
            let (ranks, at) =
                (self.ranks.view().arg("ranks", stream)?, self.at.view().arg("at", stream)?);
            vision_spread::launch(
                stream,
                grid(n),
                Spread { edges, order, ranks, at, size, apart },
                self.states.view_mut().arg("states", stream)?,
                self.flags.view_mut().arg("flags", stream)?,
                self.ticket.view_mut().arg("ticket", stream)?,
            )
        }
    }
    /// Writes the flagged edges to `points`, four words each, up to its capacity, and returns their
    /// number. A compaction and a launch; reads the number back, which synchronizes.
    fn collect(
        &mut self,
        stream: &Stream,
        edges: &DeviceEdges,
        points: &mut Buffer<u32>,
    ) -> koel::Result<usize> {
        let most = points.len() / 4;
        let mut compact = primitives::Compact::new(stream.device(), edges.count)?;
        compact.run(
            stream,
            self.flags.view(),
            self.order.view(),
            self.chosen.view_mut(),
            self.count.view_mut(),
        )?;
        // SAFETY: there is room for `most` points of four words; `count` edges are chosen.
        unsafe {
            vision_points::launch(
                stream,
                grid(most as u32),
                most as u32,
                self.count.view().arg("count", stream)?,
                self.chosen.view().arg("chosen", stream)?,
                edges.arg(stream)?,
                points.view_mut().arg("points", stream)?,
            )?;
        }
        Ok((self.count.download()?[0] as usize).min(most))
    }
}

/// Selects up to `most` edges in the given order such that no two of similar direction (within 60
/// degrees) are closer than `apart` pixels.
pub(crate) fn spread(
    edges: &[Edge],
    order: impl Iterator<Item = usize>,
    apart: f32,
    most: usize,
) -> Vec<usize> {
    let cell = apart.max(1.0);
    let of = |e: &Edge| ((e.x / cell) as usize + 1, (e.y / cell) as usize + 1);
    let (columns, rows) = edges
        .iter()
        .map(of)
        .fold((0, 0), |(c, r), (x, y)| (usize::max(c, x + 2), usize::max(r, y + 2)));
    const NONE: u32 = u32::MAX;
    let mut heads = vec![NONE; columns * rows];
    let mut next = vec![NONE; edges.len()];
    let mut kept = vec![];
    for i in order {
        let (e, (cx, cy)) = (&edges[i], of(&edges[i]));
        let crowded = (cy - 1..=cy + 1).any(|y| {
            (cx - 1..=cx + 1).any(|x| {
                let mut j = heads[y * columns + x];
                while j != NONE {
                    let o = &edges[j as usize];
                    let four = |e: &Edge| [e.x, e.y, e.normal.0, e.normal.1];
                    if crowd(four(e), four(o), apart * apart) {
                        return true;
                    }
                    j = next[j as usize];
                }
                false
            })
        });
        if crowded {
            continue;
        }
        next[i] = heads[cy * columns + cx];
        heads[cy * columns + cx] = i as u32;
        kept.push(i);
        if kept.len() == most {
            break;
        }
    }
    kept
}

/// Returns indices in descending order of a value. Ties keep their order.
pub(crate) fn strongest_first(edges: &[Edge], value: impl Fn(&Edge) -> f32) -> Vec<usize> {
    let mut order = (0..edges.len()).collect::<Vec<usize>>();
    order.sort_by(|&a, &b| value(&edges[b]).total_cmp(&value(&edges[a])));
    order
}
