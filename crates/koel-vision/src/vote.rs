//! Votes: the best hypotheses of a search, with the kernel of [`koel_vision_kernels::vote`].
use crate::affine::Affine;
use crate::bases::{BINS, Bases, Pass};
use crate::device::in_kernels;
use crate::joint::{JointTable, PassTable, Prepared};
use crate::refine::Scored;
use crate::scene::Scene;
use crate::vote_on_cpu::{Words, best_hypotheses};
use koel::{Buffer, Device, Error, Stream};
use koel_vision_kernels::vote::{BasesIn, Search, unpack, vision_vote};
use rayon::prelude::*;

/// Minimum number of threads that share a scene point.
const STRIPS: usize = 32;
/// Threads per multiprocessor, if there are enough pairs: each waits for its reads most of the
/// time.
const RESIDENT: usize = 4096;

/// Side, in pixels, of the tiles in whose order the points vote.
const TILE: f32 = 64.0;

/// Points of a scene that a pass makes pairs of, in the order of the image's tiles: neighbours, one
/// after the other, read the same part of the maps, which stays in the cache.
struct InTiles {
    words: Vec<[u32; 4]>,
}
impl InTiles {
    /// Sorts the first `most` points of a scene.
    fn of(scene: &Scene, most: usize) -> InTiles {
        let (all, _) = scene.point_words.as_chunks::<4>();
        let mut words = all[..most.min(all.len())].to_vec();
        words.sort_by_key(|[x, y, ..]| {
            let [x, y] = [x, y].map(|v| (f32::from_bits(*v) / TILE) as i32);
            // To and fro.
            (y, if y % 2 == 0 { x } else { -x })
        });
        InTiles { words }
    }
    /// Returns the position of a point, in pixels.
    fn place(&self, i: usize) -> (f32, f32) {
        (f32::from_bits(self.words[i][0]), f32::from_bits(self.words[i][1]))
    }
}

/// Returns the best candidates of pass number `pass` for the models whose word of `alive` is not 0,
/// grouped by model, best first: maps from the
/// model's points to the scene's.
///
/// Takes an upload of the points, a fill, and a launch for each part of the table, in which each
/// pair of scene points looks up all models at once. Reads back 8 bytes per model, scene point and
/// kept hypothesis. The result is the same on every device, and for each model independent of the
/// others.
pub(crate) fn candidates(
    stream: &Stream,
    scene: &Scene,
    table: &JointTable,
    pass: usize,
    alive: &Buffer<u32>,
) -> koel::Result<Vec<Scored>> {
    let options = &table.passes()[pass];
    let Pass { scene_points, a_point, quota, .. } = options;
    let (points, models) = (scene.points().min(*scene_points), table.slots().len());
    if points < 2 || models == 0 || *a_point == 0 {
        return Ok(vec![]);
    }
    let slots = models as u64 * points as u64 * *a_point as u64;
    if slots >= 1 << 32 {
        let (n, max) = (slots as usize, u32::MAX as usize);
        return Err(Error::TooMany {
            what: "hypotheses: models x scene points x kept hypotheses",
            n,
            max,
        });
    }
    let in_tiles = InTiles::of(scene, points);
    let best = vote(stream, (scene, &in_tiles), table, pass, alive)?;
    let of_model = |(slot, kept): (usize, &[u64])| {
        let Some(Prepared { bases, .. }) = &table.slots()[slot] else { return vec![] };
        first_hypotheses(kept, *a_point, *quota)
            .into_iter()
            .filter_map(|(kept, i)| scored(&in_tiles, &bases[pass], slot, kept, i))
            .collect()
    };
    let all = best
        .par_chunks_exact(points * a_point)
        .enumerate()
        .map(of_model)
        .collect::<Vec<Vec<Scored>>>();
    Ok(all.into_iter().flatten().collect())
}

/// Returns the hypotheses with the most votes for each model and scene point.
fn vote(
    stream: &Stream,
    (scene, in_tiles): (&Scene, &InTiles),
    table: &JointTable,
    pass: usize,
    alive: &Buffer<u32>,
) -> koel::Result<Vec<u64>> {
    let searches = table.parts().iter().map(|part| {
        let of_pass = &part.passes[pass];
        (search(stream, (scene, in_tiles), &table.passes()[pass], of_pass), of_pass)
    });
    let searches = searches.collect::<Vec<(Search, &PassTable)>>();
    let on_cpu = (!in_kernels(stream))
        .then(|| vote_on_cpu(stream.device(), (scene, in_tiles), &searches, alive));
    match on_cpu.flatten() {
        Some(best) => Ok(best),
        None => vote_in_kernels(stream, (scene, in_tiles), &searches, alive),
    }
}

/// Returns the parameters of a pass over a part of the table.
fn search(
    stream: &Stream,
    (scene, in_tiles): (&Scene, &InTiles),
    Pass { scales, a_point, .. }: &Pass,
    of_pass: &PassTable,
) -> Search {
    let points = in_tiles.words.len();
    let strips = (stream.device().parallelism() * RESIDENT / points)
        .clamp(STRIPS, points.max(STRIPS)) as u32;
    Search {
        points: points as u32,
        width: scene.maps.width as u32,
        height: scene.maps.height as u32,
        pixels: (scene.maps.width * scene.maps.height) as u32,
        bins: BINS,
        // Only saves lookups: the scale of each hypothesis decides.
        shortest2: (0.99 * scales.0 * of_pass.lengths.0).powi(2).max(1.0),
        longest2: (1.01 * scales.1 * of_pass.lengths.1).powi(2),
        smallest2: scales.0 * scales.0,
        largest2: scales.1 * scales.1,
        keep: *a_point as u32,
        strips,
    }
}

/// Returns `None` if a graph may write what is to be read.
fn vote_on_cpu(
    device: &Device,
    (scene, in_tiles): (&Scene, &InTiles),
    searches: &[(Search, &PassTable)],
    alive: &Buffer<u32>,
) -> Option<Vec<u64>> {
    let words = searches.iter().map(|&(search, of_pass)| {
        let words = Words {
            starts: of_pass.starts.view().host()?,
            entries: of_pass.entries.view().host()?,
            tests: of_pass.tests.view().host()?,
        };
        Some((search, words))
    });
    let words = words.collect::<Option<Vec<(Search, Words)>>>()?;
    let (alive, likelihood) = (alive.view().host()?, scene.maps.loose.view().host()?);
    Some(device.install(|| best_hypotheses(&in_tiles.words, &words, alive, likelihood)))
}

fn vote_in_kernels(
    stream: &Stream,
    (scene, in_tiles): (&Scene, &InTiles),
    searches: &[(Search, &PassTable)],
    alive: &Buffer<u32>,
) -> koel::Result<Vec<u64>> {
    let Some((Search { points, keep, .. }, _)) = searches.first() else { return Ok(vec![]) };
    let slots = alive.len() * *points as usize * *keep as usize;
    let mut best = stream.device().alloc::<u64>(slots)?;
    best.view_mut().fill_bytes(0, stream)?;
    let points = stream.device().upload(in_tiles.words.as_flattened())?;
    for &(search, of_pass) in searches {
        // SAFETY: there are 4 words per point and voting point, and 8 per entry; keys are below
        // BINS^2, one less than there are starts; the voting points cover all tilts of all models;
        // each model that entries name has a word of `alive` and a slot of all points; there is a
        // likelihood for each class and pixel, and one more.
        unsafe {
            let bases = BasesIn {
                starts: of_pass.starts.view().arg("starts", stream)?,
                entries: of_pass.entries.view().arg("entries", stream)?,
                tests: of_pass.tests.view().arg("tests", stream)?,
                alive: alive.view().arg("alive", stream)?,
            };
            vision_vote::launch(
                stream,
                (search.points * search.strips).div_ceil(256),
                search,
                points.view().arg("points", stream)?,
                bases,
                scene.maps.loose.view().arg("likelihood", stream)?,
                best.view_mut().arg("best", stream)?,
            )
        }?;
    }
    best.download()
}

/// Returns the `quota` best hypotheses of those kept for a model, `a_point` per scene point, best
/// first, each with the index of its point.
fn first_hypotheses(kept: &[u64], a_point: usize, quota: usize) -> Vec<(u64, usize)> {
    let hypotheses = kept.iter().enumerate().filter(|(_, kept)| **kept != 0);
    let mut hypotheses =
        hypotheses.map(|(k, &kept)| (kept, k / a_point)).collect::<Vec<(u64, usize)>>();
    // Ties are broken by basis and points, so that the order is deterministic.
    hypotheses.sort_unstable_by(|a, b| b.cmp(a));
    hypotheses.truncate(quota);
    hypotheses
}

/// Decodes a hypothesis of scene point `i` for the model in `slot`, which has the given bases.
#[inline]
fn scored(points: &InTiles, bases: &Bases, slot: usize, kept: u64, i: usize) -> Option<Scored> {
    let (score, number, second) = unpack(kept)?;
    let (basis, from, to) =
        (&bases.table.values()[number as usize], points.place(i), points.place(second as usize));
    let length2 = basis.vector.0 * basis.vector.0 + basis.vector.1 * basis.vector.1;
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let cos = (dx * basis.vector.0 + dy * basis.vector.1) / length2;
    let sin = (dy * basis.vector.0 - dx * basis.vector.1) / length2;
    let similarity = Affine { linear: [[cos, -sin], [sin, cos]], shift: [0.0; 2] };
    let map = similarity.moving(basis.origin, from).after(&bases.tilts[basis.tilt]);
    Some(Scored { model: slot, map, score: score as f32 / 16.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::synthetic::texture;

    /// Votes on a CPU are those of the kernel: of several models, in two parts of a table, one of
    /// them not searched for, with points outside the scene and tilts.
    #[test]
    fn a_cpu_keeps_what_the_kernel_keeps() {
        let device = Device::cpu().unwrap();
        let stream = device.stream().unwrap();
        let tilted = Pass { tilts: vec![(1.4, 2)], bases: 12, ..Pass::default() };
        let far = Pass { lengths: (0.3, 0.8), around: 1.0, a_point: 1, ..tilted.clone() };
        let passes = [tilted, far];
        let models = (0..6).map(|seed| Model::of(&texture(90, 70, seed)).unwrap());
        let models = models.collect::<Vec<Model>>();
        let mut table = JointTable::new(&device, &passes, 3).unwrap();
        table.add(&models[..5]).unwrap();
        table.add(&models[5..]).unwrap();
        assert_eq!(table.parts().len(), 2);
        let alive = device.upload(&[1, 1, 0, 1, 1, 1u32]).unwrap();
        for (width, height, most) in [(150, 110, usize::MAX), (90, 70, 37), (40, 300, 2)] {
            let scene = Scene::of(&stream, &texture(width, height, 2)).unwrap();
            let in_tiles = InTiles::of(&scene, scene.points().min(most));
            for (pass, options) in passes.iter().enumerate() {
                let searches = table.parts().iter().map(|part| {
                    let of_pass = &part.passes[pass];
                    (search(&stream, (&scene, &in_tiles), options, of_pass), of_pass)
                });
                let searches = searches.collect::<Vec<(Search, &PassTable)>>();
                let given = (&scene, &in_tiles);
                let on_cpu = vote_on_cpu(&device, given, &searches, &alive).unwrap();
                let in_kernels = vote_in_kernels(&stream, given, &searches, &alive).unwrap();
                let slots = options.a_point;
                assert_eq!(on_cpu.len(), in_tiles.words.len() * slots * 6);
                assert!(most < 40 || on_cpu.iter().filter(|&&kept| kept != 0).count() > 100);
                for (own, other) in on_cpu.chunks(slots).zip(in_kernels.chunks(slots)) {
                    let sorted = |kept: &[u64]| {
                        let mut kept = kept.to_vec();
                        kept.sort_unstable();
                        kept
                    };
                    assert_eq!(sorted(own), sorted(other), "{width} x {height}, pass {pass}");
                }
            }
        }
    }
}
