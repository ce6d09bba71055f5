//! Lists of the model's entries: a published multi-value table from cells to bases, built and
//! looked up on the device.
use crate::basis::{Point, PointBasis};
use crate::cells::DeviceCells;
use crate::options::{Lookup, PaperOptions};
use crate::searched::Searched;
use koel::primitives::{compact_pairs, sort_pairs};
use koel::{Buffer, Device, Error, Map, Stream, View};
use koel_classic::{ListKind, ListTable, Options, SingleLevelMulti, SortedMulti, TwoLevelMulti};
use koel_classic_kernels::matcher::{
    BASIS_WORDS, BasesIn, EntriesOut, matcher_cells, matcher_entries,
};
use koel_vision::{Affine, Freedom};

/// Returns the number of blocks of 256 threads for `n` threads.
pub(crate) fn grid(n: u32) -> u32 {
    n.div_ceil(256)
}

/// Points and bases of an image in device memory.
pub(crate) struct DeviceBases {
    points: Buffer<u32>,
    points_len: u32,
    bases: Buffer<u32>,
    bases_len: u32,
}
/// Cells of the points in the coordinates of the bases, in device memory.
pub(crate) struct DeviceKeys {
    /// For each basis and each point, one key or nine.
    pub keys: Buffer<u32>,
    /// Weight of the votes of each basis and point (floats).
    pub weights: Buffer<u32>,
    /// Keys of a basis.
    pub per_basis: u32,
    /// Keys of a point.
    pub fan: u32,
}
impl DeviceBases {
    /// Uploads points and bases: 8 bytes per point and 48 per basis.
    pub(crate) fn upload(
        device: &Device,
        points: &[Point],
        bases: &[PointBasis],
        options: &PaperOptions,
    ) -> koel::Result<DeviceBases> {
        let words = bases.iter().flat_map(|b| b.words(points, options)).collect::<Vec<u32>>();
        let places = points.iter().flat_map(|p| [p.0.to_bits(), p.1.to_bits()]);
        Ok(DeviceBases {
            points: device.upload(&places.collect::<Vec<u32>>())?,
            points_len: points.len() as u32,
            bases: device.upload(&words)?,
            bases_len: bases.len() as u32,
        })
    }
    /// Computes the keys of all points in the coordinates of all bases, one thread for each.
    /// `around` adds those of the eight neighbouring cells.
    ///
    /// Errors: more keys than 32-bit indices can address.
    pub(crate) fn keys(
        &self,
        stream: &Stream,
        cells: &DeviceCells,
        around: bool,
        by_distance: bool,
    ) -> koel::Result<DeviceKeys> {
        let (device, fan) = (stream.device(), if around { 9 } else { 1 });
        let n = self.points_len as usize * self.bases_len as usize;
        let max = u32::MAX as usize / 9;
        if n > max {
            return Err(Error::TooMany { what: "points times bases", n, max });
        }
        let mut keys = device.alloc::<u32>(n * fan)?;
        let mut weights = device.alloc::<u32>(n)?;
        let bases = BasesIn {
            points: self.points.view().arg("points", stream)?,
            points_len: self.points_len,
            bases: self.bases.view().arg("bases", stream)?,
            bases_len: self.bases_len,
        };
        // SAFETY: two words per point and `BASIS_WORDS` per basis, whose points are among the
        // points; a weight and `fan` keys for each basis and point; `cells` has as many words as it
        // says.
        unsafe {
            matcher_cells::launch(
                stream,
                grid(n as u32),
                bases,
                cells.arg(stream)?,
                fan as u32,
                by_distance as u32,
                keys.view_mut().arg("keys", stream)?,
                weights.view_mut().arg("weights", stream)?,
            )
        }?;
        let per_basis = self.points_len * fan as u32;
        Ok(DeviceKeys { keys, weights, per_basis, fan: fan as u32 })
    }
}
impl PointBasis {
    /// Returns the words of a basis in [`BasesIn::bases`].
    fn words(&self, points: &[Point], options: &PaperOptions) -> [u32; BASIS_WORDS] {
        let [a, b, c] = self.0;
        let length = self.length(points);
        let weight = if options.weights.by_length { (length / 100.0).min(2.0) } else { 1.0 };
        let unit = if options.freedom == Freedom::Rigid { length } else { 1.0 };
        let back = self.frame(points, options.freedom).and_then(|f| f.inverse());
        let reach = if back.is_some() { options.reach * unit } else { -1.0 };
        let back = back.unwrap_or(Affine::IDENTITY);
        let [[p, q], [r, s]] = back.linear;
        let [x, y] = back.shift;
        let [p, q, r, s, x, y, reach, weight] = [p, q, r, s, x, y, reach, weight].map(f32::to_bits);
        [p, q, r, s, x, y, reach, weight, a, b, c, 0]
    }
}

/// Entries of a model.
pub(crate) struct Lists {
    /// Table from cells to ranges of the names.
    pub table: Box<dyn ListTable>,
    /// Numbers of the names, if names are not numbers.
    pub numbers: Option<Numbers>,
    /// Share of all entries that each basis has.
    pub shares: Vec<f32>,
    /// Number of entries.
    pub entries: usize,
}
/// Index from names of bases to their numbers: one direction of the paper's two-way index. The
/// other is the host's list of bases.
pub(crate) enum Numbers {
    /// Hash table.
    Hashed(Box<Map>),
    /// Names in ascending order, and their numbers.
    Sorted(Buffer<u32>, Buffer<u32>),
}
impl Numbers {
    fn build(stream: &Stream, names: &[u32], lookup: Lookup) -> koel::Result<Numbers> {
        let (device, n) = (stream.device(), names.len());
        let numbers = (0..n as u32).collect::<Vec<u32>>();
        if lookup != Lookup::BinarySearch {
            return Ok(Numbers::Hashed(Box::new(Map::build(device, names, &numbers)?)));
        }
        let (mut sorted, mut order) = (device.alloc::<u32>(n)?, device.alloc::<u32>(n)?);
        let (names, numbers) = (device.upload(names)?, device.upload(&numbers)?);
        sort_pairs(stream, names.view(), numbers.view(), sorted.view_mut(), order.view_mut())?;
        Ok(Numbers::Sorted(sorted, order))
    }
}

impl Lists {
    /// Enters a model's bases into a table: the cells of the other points as keys, the name of the
    /// basis as value. Reads back 4 bytes per basis.
    ///
    /// Errors: names of three points each that do not fit into 32 bits.
    pub(crate) fn build(
        stream: &Stream,
        points: &[Point],
        bases: &[PointBasis],
        cells: &DeviceCells,
        options: &PaperOptions,
    ) -> koel::Result<Lists> {
        let device = stream.device();
        let names = match options.two_way_index {
            true => names(points.len(), bases, options)?,
            false => (0..bases.len() as u32).collect(),
        };
        let keys = DeviceBases::upload(device, points, bases, options)?.keys(
            stream,
            cells,
            options.neighbour_entries,
            false,
        )?;
        let n = keys.keys.len();
        let (mut present, mut values) = (device.alloc::<u8>(n)?, device.alloc::<u32>(n)?);
        let mut sizes = zeros(stream, bases.len())?;
        let on_device = device.upload(&names)?;
        let out = EntriesOut {
            present: present.view_mut().arg("present", stream)?,
            values: values.view_mut().arg("values", stream)?,
            sizes: sizes.view_mut().arg("sizes", stream)?,
        };
        // SAFETY: `n` keys, marks and values; `per_basis` keys for each of the names and sizes.
        unsafe {
            matcher_entries::launch(
                stream,
                grid(n as u32),
                n as u32,
                keys.per_basis,
                keys.keys.view().arg("keys", stream)?,
                on_device.view().arg("names", stream)?,
                out,
            )
        }?;
        let (mut kept, mut kept_names) = (device.alloc::<u32>(n)?, device.alloc::<u32>(n)?);
        let entries = compact_pairs(
            stream,
            present.view(),
            keys.keys.view(),
            values.view(),
            kept.view_mut(),
            kept_names.view_mut(),
        )?;
        let kept = (kept.view().slice(..entries)?, kept_names.view().slice(..entries)?);
        let table = table(stream, kept, options.lookup)?;
        let share = |size: u32| size as f32 / entries.max(1) as f32;
        Ok(Lists {
            table,
            numbers: match options.two_way_index {
                true => Some(Numbers::build(stream, &names, options.lookup)?),
                false => None,
            },
            shares: sizes.download()?.into_iter().map(share).collect(),
            entries,
        })
    }
    /// Returns the names of the bases, list after list.
    pub(crate) fn names(&self) -> View<'_, u32> {
        self.table.list()
    }
}
/// Builds the table from cells to names.
fn table(
    stream: &Stream,
    (cells, names): (View<'_, u32>, View<'_, u32>),
    lookup: Lookup,
) -> koel::Result<Box<dyn ListTable>> {
    let kind: &dyn ListKind = match lookup {
        Lookup::Hash => &SingleLevelMulti,
        Lookup::TwoLevel => &TwoLevelMulti,
        Lookup::BinarySearch => &SortedMulti,
        Lookup::KdTree | Lookup::BruteForce => {
            let is_brute = lookup == Lookup::BruteForce;
            return Ok(Box::new(Searched::build(stream, cells, names, is_brute)?));
        }
    };
    kind.build(stream, cells, names, &Options::default())
}
/// Returns the names of bases: their points as digits of one number.
fn names(points: usize, bases: &[PointBasis], options: &PaperOptions) -> koel::Result<Vec<u32>> {
    let most = if options.freedom == Freedom::Affine { 1625 } else { 65_535 };
    if points > most {
        return Err(Error::TooMany { what: "points of a two-way index", n: points, max: most });
    }
    let n = points as u32;
    let name = |&PointBasis([a, b, c]): &PointBasis| match options.freedom {
        Freedom::Affine => (a * n + b) * n + c,
        _ => a * n + b,
    };
    Ok(bases.iter().map(name).collect())
}

/// Allocates words that are 0.
pub(crate) fn zeros(stream: &Stream, n: usize) -> koel::Result<Buffer<u32>> {
    let mut words = stream.device().alloc(n)?;
    words.view_mut().fill_bytes(0, stream)?;
    Ok(words)
}
