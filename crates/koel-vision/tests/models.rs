//! Files of many models: round trips, and rejection of damaged files.
use koel_vision::synthetic::texture;
use koel_vision::{Model, Models, ModelsError};
use std::path::Path;

fn models(names: &[&str]) -> Models {
    let mut models = Models::default();
    for (seed, name) in names.iter().enumerate() {
        let image = texture(130 + 10 * seed, 110, seed as u64);
        models.add((*name).into(), Model::of(&image).unwrap()).unwrap();
    }
    models
}
fn load(bytes: &[u8]) -> Result<Models, ModelsError> {
    Models::from_bytes(bytes, Path::new("a.koelmodels"))
}

#[test]
fn saved_models_are_loaded() {
    for names in [&[][..], &["stop"], &["stop", "yield", "naïve name"]] {
        let models = models(names);
        assert_eq!(load(&models.to_bytes()).unwrap(), models);
    }
}

#[test]
fn adding_and_removing_leave_the_others() {
    let mut all = models(&["a", "b", "c"]);
    let (before, b) = (all.clone(), all.remove("b").unwrap());
    assert_eq!(all.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "c"]);
    assert!(all.iter().all(|model| before.iter().any(|other| other == model)));
    let error = all.add("c".into(), b.clone()).unwrap_err();
    assert_eq!(error.to_string(), "a model named \"c\" already exists");
    let error = all.remove("b").unwrap_err();
    assert_eq!(error.to_string(), "no model is named \"b\"; known models: a, c");
    all.add("b".into(), b).unwrap();
    assert_eq!(load(&all.to_bytes()).unwrap(), all);
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused() {
    let whole = models(&["a", "b"]).to_bytes();
    for length in (0..whole.len()).step_by(11).chain(whole.len() - 9..whole.len()) {
        assert!(load(&whole[..length]).is_err(), "cut at {length}");
    }
    for at in (0..whole.len()).step_by(5) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(load(&flipped).is_err(), "byte {at}");
    }
    assert!(matches!(load(&[&whole[..], b"x"].concat()), Err(ModelsError::Damaged { .. })));
    assert!(matches!(load(b"PK\x03\x04 something else"), Err(ModelsError::Foreign { .. })));
    let mut newer = whole;
    newer[8] = 4;
    assert!(matches!(load(&newer), Err(ModelsError::Version { found: 4, .. })));
}

/// The time per model grows with the square of its points: a file may not have more of them than a
/// model.
#[test]
fn more_points_than_a_model_has_are_refused() {
    let sealed = |content: &[u8]| {
        let hash = content
            .iter()
            .fold(0xCBF2_9CE4_8422_2325u64, |h, &b| (h ^ b as u64).wrapping_mul(0x100_0000_01B3));
        [content, &hash.to_le_bytes()].concat()
    };
    let all = models(&["a"]);
    let (_, model) = all.iter().next().unwrap();
    let edges = |out: &mut Vec<u8>, n: usize| {
        out.extend((n as u32).to_le_bytes());
        (0..n).for_each(|_| {
            [1f32, 1.0, 1.0, 0.0, 1.0, 1.0].iter().for_each(|v| out.extend(v.to_le_bytes()))
        });
    };
    let whole = all.to_bytes();
    // Magic, version, number of models, name, size and map.
    let start = 16 + 4 + 1 + 8 + 24;
    assert_eq!(whole[start..start + 4], (model.points() as u32).to_le_bytes());
    for (points, contour, is_model) in
        [(260, 1500, true), (261, 1500, false), (260, 1501, false), (65_536, 12, false)]
    {
        let mut content = whole[..start].to_vec();
        edges(&mut content, points);
        edges(&mut content, contour);
        // Luminance and colours of 0 x 0 pixels: unknown.
        content.extend([0; 16]);
        let loaded = load(&sealed(&content));
        assert_eq!(loaded.is_ok(), is_model, "{points} points, {contour} of the contour");
        let says = "a valid number of points before it";
        assert!(is_model || loaded.is_err_and(|e| e.to_string().ends_with(says)));
    }
    // Version 1 ends after the contour.
    let mut first = whole[..start].to_vec();
    first[8] = 1;
    edges(&mut first, 260);
    edges(&mut first, 12);
    assert_eq!(load(&sealed(&first)).unwrap().iter().len(), 1);
    for size in [[0, 5], [5, 0], [1025, 1], [u32::MAX, u32::MAX], [900, 900]] {
        let mut content = whole[..start].to_vec();
        edges(&mut content, 260);
        edges(&mut content, 12);
        size.iter().for_each(|n: &u32| content.extend(n.to_le_bytes()));
        assert!(load(&sealed(&content)).is_err(), "luminance of {size:?} pixels");
    }
    // Version 2 ends after the luminance.
    let mut second = whole[..start].to_vec();
    second[8] = 2;
    edges(&mut second, 260);
    edges(&mut second, 12);
    second.extend([0; 8]);
    assert_eq!(load(&sealed(&second)).unwrap().iter().len(), 1);
    for size in [[0, 5], [5, 0], [129, 1], [u32::MAX, u32::MAX], [100, 100]] {
        let mut content = [&second[..8], &3u32.to_le_bytes(), &second[12..]].concat();
        size.iter().for_each(|n: &u32| content.extend(n.to_le_bytes()));
        assert!(load(&sealed(&content)).is_err(), "colours of {size:?} pixels");
    }
}

/// Intact but malicious files: their checksum is correct.
#[test]
fn hostile_contents_are_refused() {
    let sealed = |content: &[u8]| {
        let hash = content
            .iter()
            .fold(0xCBF2_9CE4_8422_2325u64, |h, &b| (h ^ b as u64).wrapping_mul(0x100_0000_01B3));
        [content, &hash.to_le_bytes()].concat()
    };
    let whole = models(&["a"]).to_bytes();
    let content = &whole[..whole.len() - 8];
    assert!(load(&sealed(content)).is_ok());
    let mut refused = 0;
    // Each word in turn becomes a huge number, a negative float, or NaN.
    for at in (12..120).step_by(4) {
        for value in [
            u32::MAX,
            0x8000_0000,
            f32::NAN.to_bits(),
            f32::INFINITY.to_bits(),
            (-5.0f32).to_bits(),
        ] {
            let mut changed = content.to_vec();
            changed[at..at + 4].copy_from_slice(&value.to_le_bytes());
            // Whatever the value, loading neither panics nor allocates based on it.
            refused += load(&sealed(&changed)).is_err() as usize;
        }
    }
    assert!(refused > 60, "{refused}");
}
