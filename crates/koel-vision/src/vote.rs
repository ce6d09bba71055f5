//! Votes: the best hypotheses of a search, by the kernel of [`koel_kernels::vision::vote`].
use crate::affine::Affine;
use crate::bases::{BINS, Bases, Pass};
use crate::refine::Scored;
use crate::scene::StagedScene;
use koel::Stream;
use koel_kernels::vision::vote::{KEEP, STRIPS, Search, TESTS, unpack, vision_vote};

/// The best candidates of a pass, best first: maps from the model's points to the scene's.
///
/// One launch; reads back 32 bytes for each scene point and strip. The same answer on every device.
pub fn candidates(stream: &Stream, scene: &StagedScene, bases: &Bases, pass: &Pass) -> koel::Result<Vec<Scored>> {
    let points = &scene.scene.points[..scene.scene.points.len().min(pass.scene_points)];
    let entries = bases.table.values();
    if points.len() < 2 || entries.is_empty() {
        return Ok(vec![]);
    }
    let device = stream.device();
    let on_points = points.iter().flat_map(|p| [p.x.to_bits(), p.y.to_bits(), p.direction, 0]).collect::<Vec<u32>>();
    let on_entries = entries.iter().flat_map(|e| {
        let length2 = e.vector.0 * e.vector.0 + e.vector.1 * e.vector.1;
        let first = TESTS / 4 * e.tilt as u32;
        let inverse = (e.vector.0 / length2, e.vector.1 / length2);
        let [bx, by, ox, oy] = [inverse.0, inverse.1, e.origin.0, e.origin.1].map(f32::to_bits);
        [bx, by, ox, oy, e.direction, first, 0, 0]
    });
    let fours = |of: &[(f32, f32, u32)]| -> [u32; 12] {
        std::array::from_fn(|k| match (k / 4, of[k % 4]) {
            (0, (x, _, _)) => x.to_bits(),
            (1, (_, y, _)) => y.to_bits(),
            (_, (_, _, direction)) => direction,
        })
    };
    let tests = bases.tests.iter().flat_map(|tests| tests.chunks_exact(4).flat_map(fours));
    let (on_entries, tests) = (on_entries.collect::<Vec<u32>>(), tests.collect::<Vec<u32>>());
    let starts = device.upload(bases.table.starts())?;
    let (on_points, on_entries, tests) =
        (device.upload(&on_points)?, device.upload(&on_entries)?, device.upload(&tests)?);
    let threads = points.len() as u32 * STRIPS;
    let mut best = device.alloc::<u64>((threads * KEEP) as usize)?;
    let search = Search {
        points: points.len() as u32,
        width: scene.scene.maps.width as u32,
        height: scene.scene.maps.height as u32,
        pixels: (scene.scene.maps.width * scene.scene.maps.height) as u32,
        bins: BINS,
        shortest2: (pass.scales.0 * bases.lengths.0).powi(2).max(1.0),
        longest2: (pass.scales.1 * bases.lengths.1).powi(2),
        smallest2: pass.scales.0 * pass.scales.0,
        largest2: pass.scales.1 * pass.scales.1,
    };
    // SAFETY: 4 words a point and a test, 8 an entry; keys are below BINS^2, one less than there are starts; tests of all
    // tilts; a likelihood for each class and pixel; KEEP slots a thread.
    unsafe {
        vision_vote::launch(
            stream,
            threads.div_ceil(256),
            search,
            on_points.view().arg("points", stream)?,
            starts.view().arg("starts", stream)?,
            on_entries.view().arg("entries", stream)?,
            tests.view().arg("tests", stream)?,
            scene.loose.view().arg("likelihood", stream)?,
            best.view_mut().arg("best", stream)?,
        )
    }?;
    let best = best.download()?;

    // Of each point the best, then of all; equal scores by entry and point, so that the order is always the same.
    let mut kept = vec![];
    let mut of_point: Vec<u64> = vec![];
    for (i, slots) in best.chunks_exact((STRIPS * KEEP) as usize).enumerate() {
        of_point.clear();
        of_point.extend(slots.iter().filter(|&&slot| slot != 0));
        of_point.sort_unstable_by(|a, b| b.cmp(a));
        kept.extend(of_point.iter().take(pass.a_point).map(|&slot| (slot, i)));
    }
    kept.sort_unstable_by(|a, b| b.cmp(a));
    kept.truncate(pass.quota);
    let affine = |(slot, i): (u64, usize)| {
        let (score, entry, second) = unpack(slot)?;
        let (basis, from, to) = (&entries[entry as usize], &points[i], &points[second as usize]);
        let length2 = basis.vector.0 * basis.vector.0 + basis.vector.1 * basis.vector.1;
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let cos = (dx * basis.vector.0 + dy * basis.vector.1) / length2;
        let sin = (dy * basis.vector.0 - dx * basis.vector.1) / length2;
        let similarity = Affine { linear: [[cos, -sin], [sin, cos]], shift: [0.0; 2] };
        let map = similarity.moving(basis.origin, (from.x, from.y)).after(&bases.tilts[basis.tilt]);
        Some(Scored { map, score: score as f32 / 16.0 })
    };
    Ok(kept.into_iter().filter_map(affine).collect())
}
