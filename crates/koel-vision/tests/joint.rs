//! Many models in one table: each is found as if it were alone, regardless of earlier additions and
//! removals.
use koel::Device;
use koel_vision::synthetic::texture;
use koel_vision::{Grey, JointTable, MatchOutcome, Matcher, Model, Options, Pass, Scene};

fn options(bases: usize, points: usize, quota: usize) -> Options {
    let level = Pass::default().with_bases(bases).with_scene_points(points).with_quota(quota);
    let tilted = level
        .clone()
        .with_tilts(vec![(1.4, 2)])
        .with_bases(bases / 2)
        .with_a_point(2)
        .with_around(1.0);
    // A table is searched only at the scales of its passes.
    Options::default().with_passes(vec![level, tilted]).with_wide(false)
}
fn part(image: &Grey, x: usize, y: usize, width: usize, height: usize) -> Grey {
    let at = |i: usize| image.pixels[(y + i / width) * image.width + x + i % width];
    Grey { width, height, pixels: (0..width * height).map(at).collect() }
}
/// Parts of the scene and of other images.
fn models(scene: &Grey, n: usize, size: (usize, usize)) -> Vec<Model> {
    let image = |k: usize| match k % 3 {
        0 => part(scene, 5 * k, 3 * k, size.0, size.1),
        _ => texture(size.0, size.1, 100 + k as u64),
    };
    (0..n).map(|k| Model::of(&image(k)).unwrap()).collect()
}
fn timeless(mut outcome: MatchOutcome) -> MatchOutcome {
    outcome.seconds = [0.0; 3];
    outcome
}
/// Checks that every model of the table has the same outcome as alone. Returns the numbers of the
/// models found.
fn check(matcher: &Matcher, table: &JointTable, scene: &Scene, what: &str) -> Vec<usize> {
    let all = matcher.find_all(table, scene).unwrap();
    assert_eq!(
        all.iter().map(|a| a.0).collect::<Vec<_>>(),
        table.models().map(|m| m.0).collect::<Vec<_>>(),
        "{what}"
    );
    let mut found = vec![];
    for ((number, outcome), (_, model)) in all.into_iter().zip(table.models()) {
        found.extend(outcome.found.is_some().then_some(number));
        let alone = matcher.find(model, scene).unwrap();
        assert_eq!(timeless(outcome), timeless(alone), "{what}, model {number}");
    }
    found
}

#[test]
fn models_are_found_as_if_they_were_alone() {
    let device = Device::cpu().unwrap();
    let matcher = Matcher::new(&device, options(40, 700, 600)).unwrap();
    let image = texture(260, 200, 1);
    let scene = matcher.scene(&image).unwrap();
    let models = models(&image, 12, (110, 90));
    let mut table = matcher.table(&models[..6]).unwrap();
    let found = check(&matcher, &table, &scene, "six");
    assert!([0, 3].iter().all(|k| found.contains(k)), "{found:?}");
    let of_six = table.entries();
    assert_eq!(of_six.len(), 1);
    // Another model goes into the second table; the first is unchanged.
    assert_eq!(table.add([&models[6]]).unwrap(), [6]);
    assert_eq!((table.entries().len(), table.entries()[0]), (2, of_six[0]));
    assert!(check(&matcher, &table, &scene, "seven").contains(&6));
    // Only one of six and one of seven are marked.
    assert!(table.remove(0).unwrap());
    assert!(!table.remove(0).unwrap() && !table.remove(99).unwrap());
    assert_eq!((table.entries().len(), table.entries()[0]), (2, of_six[0]));
    assert!(!check(&matcher, &table, &scene, "without the first").contains(&0));
    // Then all tables merge, and the free number is reused.
    assert_eq!(table.add(&models[7..9]).unwrap(), [7, 8]);
    assert_eq!(table.entries(), [table.living_entries()]);
    assert_eq!(table.add([&models[9]]).unwrap(), [0]);
    assert!(check(&matcher, &table, &scene, "merged").contains(&0));
    for number in [3, 6, 0, 1, 2, 4, 5, 7, 8] {
        assert!(table.remove(number).unwrap(), "{number}");
    }
    assert_eq!(check(&matcher, &table, &scene, "empty"), []);
    assert_eq!(table.living_entries(), 0);
    table.add(&models[9..]).unwrap();
    assert!(!check(&matcher, &table, &scene, "filled again").is_empty());
}

/// The same table on the executor (and a GPU), with a newer part and a marked model.
#[test]
fn the_executor_finds_the_same() {
    let image = texture(130, 100, 2);
    let models = models(&image, 7, (70, 60));
    let devices =
        [Device::cpu().unwrap(), Device::executor(5)].into_iter().chain(Device::cuda(0).ok());
    let outcomes = devices.map(|device| {
        let matcher = Matcher::new(&device, options(16, 60, 12).with_evidence(-1e9)).unwrap();
        let mut table = matcher.table(&models[..5]).unwrap();
        table.add([&models[6]]).unwrap();
        assert!(table.remove(1).unwrap());
        assert_eq!(table.entries().len(), 2);
        let outcomes = matcher.find_all(&table, &matcher.scene(&image).unwrap()).unwrap();
        outcomes
            .into_iter()
            .map(|(number, outcome)| (number, timeless(outcome)))
            .collect::<Vec<_>>()
    });
    let outcomes = outcomes.collect::<Vec<_>>();
    assert!(outcomes[0].iter().any(|(_, o)| o.found.is_some()));
    assert!(outcomes[1..].iter().all(|other| *other == outcomes[0]));
}
