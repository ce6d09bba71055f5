//! Tests of `koel match` and `koel models`: exit status, JSON, pictures, and sequences with
//! unreadable frames.
use koel_vision::Grey;
use koel_vision::synthetic::texture;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koel"));
    command
        .current_dir(folder)
        .args(["--device", "cpu"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}
fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(folder, &[arguments, &["--json", "-"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
/// Expects status 2 and one line on standard error. Returns the line.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert!(
        output.stdout.is_empty() && error.lines().count() == 1 && !error.contains("panicked"),
        "{error}"
    );
    error
}
fn save(image: &Grey, path: &Path) {
    let pixels = image.pixels.iter().map(|&v| v as u8).collect();
    image::GrayImage::from_raw(image.width as u32, image.height as u32, pixels)
        .unwrap()
        .save(path)
        .unwrap();
}
/// The part of an image from a position.
fn part(image: &Grey, x: usize, y: usize, width: usize, height: usize) -> Grey {
    let at = |i: usize| image.pixels[(y + i / width) * image.width + x + i % width];
    Grey { width, height, pixels: (0..width * height).map(at).collect() }
}
/// A model, a scene with it at (70, 40), a scene without it, an empty image, and a text file.
fn images() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_path_buf();
    let scene = texture(300, 220, 1);
    save(&scene, &path.join("scene.png"));
    save(&part(&scene, 70, 40, 160, 120), &path.join("model.png"));
    save(&texture(300, 220, 2), &path.join("other.png"));
    save(&Grey::filled(80, 60, 90.0), &path.join("flat.png"));
    save(&Grey::filled(1, 1, 90.0), &path.join("dot.png"));
    fs::write(path.join("text.png"), "no image").unwrap();
    (folder, path)
}

#[test]
fn a_model_is_found_where_it_is() {
    let (_keep, folder) = images();
    let pictures = ["--overlay", "overlay.png", "--votes", "votes.png"];
    let report = json(&folder, &[&["match", "model.png", "scene.png"], &pictures[..]].concat());
    assert_eq!(
        (&report["found"], &report["model"]),
        (&Value::from(true), &Value::from("model.png"))
    );
    let expected = [[1.0, 0.0, 70.0], [0.0, 1.0, 40.0]];
    for (row, expected) in expected.iter().enumerate() {
        for (column, expected) in expected.iter().enumerate() {
            let value = report["matrix"][row][column].as_f64().unwrap();
            let tolerance = if column == 2 { 0.5 } else { 0.005 };
            assert!((value - expected).abs() < tolerance, "{report:#}");
        }
    }
    assert!(report["votes"].as_u64().unwrap() > 50 && report["inliers"].as_u64().unwrap() > 50);
    assert!(
        report["rmse_px"].as_f64().unwrap() < 1.0
            && report["timings_ms"]["total"].as_f64().unwrap() > 0.0
    );
    for picture in ["overlay.png", "votes.png"] {
        let picture = image::open(folder.join(picture)).unwrap().to_rgb8();
        assert_eq!(picture.dimensions(), (300, 220));
    }
    let overlay = image::open(folder.join("overlay.png")).unwrap().to_rgb8();
    assert_eq!(overlay.get_pixel(150, 40).0, [255, 60, 60]);
    // The same seed gives the same answer, also as text.
    let again = json(&folder, &["match", "model.png", "scene.png", "--threads", "1"]);
    assert_eq!(report["matrix"], again["matrix"]);
    let output = run(&folder, &["match", "model.png", "scene.png"]);
    assert!(
        text(&output.stdout).starts_with("scene.png: model.png at [["),
        "{}",
        text(&output.stdout)
    );
}

/// Runs every example of `--help`.
#[test]
fn examples_run_as_written() {
    let (_keep, folder) = images();
    fs::create_dir(folder.join("frames")).unwrap();
    let copies = ["frames/f.png", "frame-0000.png", "frame-0001.png", "street.jpg"];
    for copy in copies {
        fs::copy(folder.join("scene.png"), folder.join(copy)).unwrap();
    }
    for name in ["box.png", "stop.png", "yield.png"] {
        fs::copy(folder.join("model.png"), folder.join(name)).unwrap();
    }
    // The file of models is made before it is searched.
    let helps = ["models", "match"].map(|command| text(&run(&folder, &[command, "--help"]).stdout));
    let of_all =
        helps.iter().flat_map(|help| help.lines().filter_map(|line| line.strip_prefix("  koel ")));
    let examples = of_all.map(|line| line.split("  ").next().unwrap()).collect::<Vec<_>>();
    assert!(examples.len() >= 9, "{examples:?}");
    for example in examples {
        let arguments = example.split_whitespace().collect::<Vec<_>>();
        let output = run(&folder, &arguments);
        assert_eq!(output.status.code(), Some(0), "{example}: {}", text(&output.stderr));
    }
}

#[test]
fn what_is_not_there_is_no_error() {
    let (_keep, folder) = images();
    for (model, scene, reason) in [
        // A chance pose; the most likely one has an impossible scale.
        ("model.png", "other.png", "its pose would be outside the range"),
        ("model.png", "flat.png", "the scene has no edges"),
        ("model.png", "dot.png", "the scene has no edges"),
        ("flat.png", "scene.png", "flat.png: 0 edge points are too few"),
        ("dot.png", "dot.png", "dot.png: 0 edge points are too few"),
    ] {
        let report = json(&folder, &["match", model, scene]);
        assert_eq!(report["found"], false, "{model} in {scene}");
        assert!(report.get("matrix").is_none());
        assert!(report["reason"].as_str().unwrap().starts_with(reason), "{report:#}");
    }
}

/// Looks other than the model's own are found by option, and their report says so.
#[test]
fn mirrored_and_negative_models_and_parts() {
    let (_keep, folder) = images();
    let model = part(&texture(300, 220, 1), 70, 40, 160, 120);
    let at = |i: usize| 255.0 - model.pixels[i / 160 * 160 + 159 - i % 160];
    let turned = Grey { pixels: (0..160 * 120).map(at).collect(), ..model };
    save(&turned, &folder.join("turned.png"));
    let quick = ["match", "turned.png", "scene.png", "--quick"];
    let looks = [&quick[..], &["--mirrored", "--negative"]].concat();
    assert_eq!(json(&folder, &quick)["found"], false);
    let report = json(&folder, &looks);
    assert_eq!((&report["found"], &report["negative"]), (&true.into(), &true.into()), "{report}");
    let line = text(&run(&folder, &looks).stdout);
    assert!(line.contains("]], mirrored, negative, "), "{line}");
    for (row, expected) in [[-1.0, 0.0, 229.0], [0.0, 1.0, 40.0]].iter().enumerate() {
        for (column, expected) in expected.iter().enumerate() {
            let value = report["matrix"][row][column].as_f64().unwrap();
            assert!((value - expected).abs() < 0.5, "{report:#}");
        }
    }
    // The scene shows a seventh of the model.
    let large = texture(640, 480, 41);
    save(&large, &folder.join("large.png"));
    save(&part(&large, 300, 200, 220, 180), &folder.join("small.png"));
    let report = json(&folder, &["match", "large.png", "small.png"]);
    assert_eq!(report["note"], "the scene is a part of the model", "{report:#}");
    let shift = report["matrix"][0][2].as_f64().unwrap();
    assert!((shift + 300.0).abs() < 1.0, "{report:#}");
}

/// A button in blue or red, on a page with some colour: the report has a figure, and `--colour
/// ignore` finds both. `--all` counts them.
#[test]
fn colours_count_and_instances_are_counted() {
    let (_keep, folder) = images();
    let button = |fill: [u8; 3]| {
        image::RgbImage::from_fn(160, 80, |x, y| {
            let letter =
                (x / 8 * 13 + y / 8 * 7) % 5 < 2 && (20..60).contains(&y) && x / 32 % 5 > 0;
            let inside = (4..156).contains(&x) && (4..76).contains(&y);
            image::Rgb(match (inside, letter) {
                (false, _) => [235; 3],
                (_, true) => [255; 3],
                _ => fill,
            })
        })
    };
    let (blue, red) = (button([40, 60, 150]), button([160, 37, 20]));
    let mut page = image::RgbImage::from_pixel(560, 300, image::Rgb([240; 3]));
    for (button, x, y) in [(&blue, 20, 30), (&blue, 300, 180), (&red, 330, 40)] {
        image::imageops::replace(&mut page, button, x, y);
    }
    page.save(folder.join("page.png")).unwrap();
    blue.save(folder.join("blue.png")).unwrap();
    let mut other = image::RgbImage::from_pixel(560, 300, image::Rgb([240; 3]));
    image::imageops::replace(&mut other, &red, 200, 100);
    other.save(folder.join("red.png")).unwrap();
    let report = json(&folder, &["match", "blue.png", "red.png"]);
    assert_eq!(report["found"], false, "{report:#}");
    assert!(report["colour_agreement"].as_f64().unwrap() < 0.3, "{report:#}");
    assert!(report["reason"].as_str().unwrap().contains("its colours differ"), "{report:#}");
    let ignored = json(&folder, &["match", "blue.png", "red.png", "--colour", "ignore"]);
    assert!(ignored["found"] == true && ignored["colour_agreement"].is_null(), "{ignored:#}");
    let all = ["match", "blue.png", "page.png", "--all", "--overlay", "out.png"];
    for (colour, count) in [("match", 2), ("ignore", 3)] {
        let report = json(&folder, &[&all[..], &["--colour", colour]].concat());
        assert_eq!(report["instances"], count, "{report:#}");
        assert_eq!(report["matches"].as_array().unwrap().len(), count, "{report:#}");
    }
    let lines = text(&run(&folder, &all).stdout);
    assert!(lines.contains(", the best of 2, ") && lines.lines().count() == 2, "{lines}");
    // A file of models keeps the colours.
    assert!(run(&folder, &["models", "add", "db", "blue.png"]).status.success());
    assert_eq!(json(&folder, &["match", "--models", "db", "red.png"])["found"], false);
}

/// Files that end early are said, on standard error for a model, in the report for a scene.
#[test]
fn truncated_files_are_noted() {
    let (_keep, folder) = images();
    for name in ["model", "scene"] {
        let image = image::open(folder.join(format!("{name}.png"))).unwrap();
        let path = folder.join(format!("{name}.jpg"));
        image.save(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 2]).unwrap();
    }
    let output = run(&folder, &["match", "model.jpg", "scene.jpg", "--json", "-"]);
    let said = text(&output.stderr);
    assert!(said.contains("note: model.jpg: the file ends before its image does"), "{said}");
    let report = serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let note = report["note"].as_str().unwrap();
    assert!(report["found"] == true && note.starts_with("the file ends before"), "{report:#}");
}

#[test]
fn a_sequence_goes_on_over_a_frame_that_cannot_be_read() {
    let (_keep, folder) = images();
    fs::create_dir(folder.join("frames")).unwrap();
    for (i, name) in ["scene.png", "text.png", "other.png", "scene.png"].iter().enumerate() {
        fs::copy(folder.join(name), folder.join(format!("frames/f-{i:03}.png"))).unwrap();
    }
    for scene in ["frames", "frames/f-%03d.png"] {
        let output = run(
            &folder,
            &["match", "model.png", scene, "--json", "-", "--overlay", "out-%02d.png"],
        );
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let lines = text(&output.stdout);
        let found =
            lines.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["found"].clone());
        assert_eq!(found.collect::<Vec<_>>(), [true, false, false, true]);
        assert!(lines.lines().nth(1).unwrap().contains("not an image"));
        assert!(folder.join("out-00.png").exists() && !folder.join("out-01.png").exists());
    }
}

#[test]
fn many_models_are_kept_and_matched() {
    let (_keep, folder) = images();
    let done = |arguments: &[&str]| {
        let output = run(&folder, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    done(&["models", "add", "db", "other.png"]);
    done(&["models", "add", "db", "model.png"]);
    let list = done(&["models", "list", "db"]);
    assert_eq!(
        list.lines().map(|l| l.split('\t').next().unwrap()).collect::<Vec<_>>(),
        ["other.png", "model.png"]
    );
    let report = json(&folder, &["match", "--models", "db", "scene.png"]);
    assert_eq!(
        (&report["found"], &report["model"]),
        (&Value::from(true), &Value::from("model.png"))
    );
    assert_eq!(report["matches"].as_array().unwrap().len(), 1);
    done(&["models", "remove", "db", "model.png"]);
    assert_eq!(json(&folder, &["match", "--models", "db", "scene.png"])["found"], false);

    assert!(refused(&folder, &["models", "add", "db", "other.png"]).contains("already exists"));
    assert!(
        refused(&folder, &["models", "add", "db", "flat.png"])
            .contains("flat.png: 0 edge points are too few")
    );
    assert!(
        refused(&folder, &["models", "remove", "db", "model.png"])
            .contains("known models: other.png")
    );
    assert!(
        refused(&folder, &["models", "list", "scene.png"])
            .contains("scene.png: not a file of models")
    );
}

/// Returns the mean distance of the corners of a report's pose from those of the box in
/// `box_in_scene.jpg`, in pixels: the affine map closest to the homography of SIFT and MAGSAC++,
/// from which the best affine pose is 4.3 pixels off.
fn box_error(report: &Value) -> f64 {
    let truth = [[0.52998, -0.10474, 114.04], [0.06119, 0.52576, 156.43]];
    let found: [[f64; 3]; 2] = serde_json::from_value(report["matrix"].clone()).unwrap();
    let (right, bottom) = (323.0, 222.0);
    let corners = [(0.0, 0.0), (right, 0.0), (right, bottom), (0.0, bottom)];
    let off = |(x, y): (f64, f64)| {
        let [dx, dy] = [0, 1].map(|row| {
            let at = |m: &[[f64; 3]; 2]| m[row][0] * x + m[row][1] * y + m[row][2];
            at(&found) - at(&truth)
        });
        dx.hypot(dy)
    };
    corners.map(off).iter().sum::<f64>() / 4.0
}

/// The published method finds the box of the documentation at its place, with similarities and with
/// affine maps.
#[test]
fn the_published_method_finds_the_box() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets");
    let paper = ["match", "box.jpg", "box_in_scene.jpg", "--method", "paper"];
    for basis in ["similarity", "affine"] {
        let found = json(&assets, &[&paper[..], &["--sizes", "2:1", "--basis", basis]].concat());
        assert_eq!(found["found"], true, "{basis}: {found}");
        assert!(box_error(&found) <= 10.0, "{basis}: {} px, {found}", box_error(&found));
    }
}

/// Each option of the published method is accepted, and those that find the box find its place.
#[test]
fn every_option_of_the_published_method_is_accepted() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets");
    let paper = ["match", "box.jpg", "box_in_scene.jpg", "--method", "paper", "--basis", "affine"];
    let options = [
        "--sizes 2:1 --points 200:800 --bases 5000:1024 --lengths 20:50 --thinnest 0.4 --reach 2.5 \
         --lookup kd-tree",
        "--sizes 2:1 --cell 0.12 --candidates 40 --inlier 2.5 --false-alarm 0.01 --lookup search",
        "--sizes 2:1 --neighbour-votes --weights length,distance,density --chance 0.5",
        "--published --apart 6 --threshold --no-outlines --neighbour-entries --bases 300:100",
        "--published --features corners --partition transfer --bases 300:100 \
         --lookup brute",
    ];
    for options in options {
        let options = options.split(' ').collect::<Vec<&str>>();
        let report = json(&assets, &[&paper[..], &options].concat());
        assert_eq!(report["found"], !options.contains(&"--published"), "{options:?}: {report}");
        if report["found"] == true {
            assert!(box_error(&report) <= 10.0, "{options:?}: {} px", box_error(&report));
        }
    }
}

#[test]
fn bad_usage_and_bad_input_are_said_in_a_line() {
    let (_keep, folder) = images();
    for (arguments, said) in [
        (&["match", "model.png"][..], "expected a MODEL and a SCENE"),
        (&["match", "--models", "db", "model.png", "scene.png"], "expected a SCENE and no MODEL"),
        (&["match", "model.png", "missing.png"], "missing.png: "),
        (&["match", "text.png", "scene.png"], "text.png: not an image"),
        (&["match", "model.png", "text.png"], "text.png: not an image"),
        (
            &["match", "model.png", "scene.png", "--basis", "round"],
            "expected rigid, similarity, affine or auto",
        ),
        (&["match", "model.png", "no-%03d.png"], "no file matches this pattern"),
        (
            &["match", "model.png", ".", "--overlay", "out.png"],
            "expected a pattern such as out-%04d.png",
        ),
        (
            &["match", "model.png", "scene.png", "--overlay", "nowhere/out.png"],
            "nowhere/out.png: cannot be written",
        ),
        (&["match", "--models", "text.png", "scene.png"], "text.png: not a file of models"),
        (
            &["match", "model.png", "scene.png", "--features", "corners"],
            "--features: only for --method paper",
        ),
        (
            &["match", "model.png", "scene.png", "--method", "paper", "--mirrored"],
            "--mirrored: only for --method default",
        ),
        (
            &["match", "model.png", "scene.png", "--method", "paper", "--colour", "match"],
            "--colour: only for --method default",
        ),
        (
            &["match", "model.png", "scene.png", "--method", "paper", "--all"],
            "--all: only for --method default",
        ),
        (&["match", "--models", "db", "scene.png", "--all"], "--all: for one MODEL"),
        (
            &["match", "model.png", "scene.png", "--method", "paper", "--sizes", "0.5:1"],
            "expected two numbers of at least 1, such as 2:1",
        ),
        (
            &["match", "--models", "db", "scene.png", "--method", "paper", "--features", "corners"],
            "--features corners: a file of models holds only edges",
        ),
    ] {
        let error = refused(&folder, arguments);
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}
