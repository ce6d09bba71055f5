//! Tests of animated glTF files in `koel intersect`, and of still clouds beside sequences.

use koel_testing::gltf_scenes::{BEND, Builder, bar, bending_bar, bent};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn koel(what: &str, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koel"));
    command.env_remove("RAYON_NUM_THREADS").stdin(Stdio::null()).current_dir(folder);
    command.args([what, "--device", "cpu", "--threads", "2"]).args(arguments).output().unwrap()
}
fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
/// Runs `koel intersect`. Returns the reports and what was said.
fn reports(folder: &Path, arguments: &[&str]) -> (Vec<Value>, String) {
    let output = koel("intersect", folder, &[arguments, &["--json", "-"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    (lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect(), text(&output.stderr))
}
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = koel("intersect", folder, arguments);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(error.starts_with("error: ") && !error.contains("panicked"), "{error}");
    error
}
/// A cube with corners at `at` and `at` + `side`; its faces point inward.
fn cube(folder: &Path, name: &str, at: [f64; 3], side: f64) -> PathBuf {
    let corner = |i: u32| [0, 1, 2].map(|a| at[a] + side * f64::from(i >> a & 1));
    let mut obj =
        (0..8).map(corner).map(|[x, y, z]| format!("v {x} {y} {z}\n")).collect::<String>();
    for face in ["2 4 3 1", "7 8 6 5", "5 6 2 1", "4 8 7 3", "3 7 5 1", "6 8 4 2"] {
        obj += &format!("f {face}\n");
    }
    fs::write(folder.join(name), obj).unwrap();
    folder.join(name)
}
fn both(report: &Value) -> f64 {
    report["volumes"]["intersection"].as_f64().unwrap()
}

/// The frames of an animation are labelled like meshes of their positions in closed form.
#[test]
fn an_animation_is_labelled_like_files_of_its_frames() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let at = [10.0, -3.0, 0.5];
    fs::write(f.join("bar.glb"), bending_bar(33, at).glb()).unwrap();
    let (corners, triangles) = bar(33);
    for frame in 0..6 {
        let seconds = BEND * f64::from(frame) / 5.0;
        let place = |p: &[f32; 3]| bent(p.map(f64::from), at, seconds);
        let points = corners.iter().map(place).map(|[x, y, z]| format!("v {x} {y} {z}\n"));
        let faces =
            triangles.iter().map(|t| t.map(|c| c + 1)).map(|[a, b, c]| format!("f {a} {b} {c}\n"));
        let obj = points.chain(faces).collect::<String>();
        fs::write(f.join(format!("frame-{frame}.obj")), obj).unwrap();
    }
    cube(f, "cube.obj", [11.5, -2.6, 0.0], 1.1);
    let common = ["--grid", "64", "--volumes", "--out", "r-%02d.json"];
    let animated = ["bar.glb", "cube.obj", "--fps", "2.5"];
    let (animated, said) = reports(f, &[&animated[..], &common].concat());
    let (files, _) = reports(f, &[&["frame-%d.obj", "cube.obj"], &common[..]].concat());
    assert_eq!((animated.len(), files.len()), (6, 6));
    for (i, (found, expected)) in animated.iter().zip(&files).enumerate() {
        assert_eq!(found["a"]["seconds"], i as f64 / 2.5);
        assert!(found["b"].get("seconds").is_none() && expected["a"].get("seconds").is_none());
        assert_eq!(found["a"]["points"], animated[0]["a"]["points"], "as many points");
        let h = |report: &Value| report["voxel_size"].as_f64().unwrap();
        assert!((h(found) / h(expected) - 1.0).abs() < 1e-5);
        assert!((both(found) - both(expected)).abs() < 0.01, "{i}: {found} {expected}");
        assert_eq!(found["a"]["dropped"], 0);
    }
    assert!(both(&animated[5]) > both(&animated[0]) + 0.1, "the bar bends into the cube");
    let notes = animated[3]["notes"].to_string();
    assert!(notes.contains("animation \\\"bend\\\" of 2 s at 2.5 frames a second is 6 frames"));
    // Said once, although there are six frames: of the animation, and of the still cube.
    for once in ["bar.glb: animation \"bend\" of 2 s", "cube.obj: the faces point inward"] {
        assert_eq!(said.matches(once).count(), 1, "{said}");
        assert!(animated.iter().all(|r| r["notes"].to_string().contains(&once[..12])), "{once}");
    }

    // Recorded frames, with new points in each, find the same.
    let replayed = ["bar.glb", "cube.obj", "--fps", "2.5", "--recorded"];
    let (recorded, _) = reports(f, &[&replayed[..], &common].concat());
    assert_eq!(recorded.len(), 6);
    for (found, expected) in recorded.iter().zip(&animated) {
        assert_eq!(
            (&found["a"]["counts"], &found["b"]["counts"]),
            (&expected["a"]["counts"], &expected["b"]["counts"])
        );
        let times = &found["timings_ms"];
        assert!(times["build"].is_null() && times["total"].as_f64() > times["upload"].as_f64());
    }

    // Both animated, and moved by poses: one per frame.
    fs::write(f.join("path.txt"), "0 0 0\n".repeat(6)).unwrap();
    let pair = ["bar.glb", "bar.glb", "--fps", "2.5", "--poses-b", "path.txt"];
    let (pair, _) = reports(f, &[&pair[..], &common].concat());
    assert!(pair.iter().all(|r| r["b"]["seconds"] == r["a"]["seconds"] && both(r) > 0.5));
    // Without the animation it is a still cloud, and a mesh for other commands.
    let still = ["bar.glb", "cube.obj", "--animation-a", "none", "--grid", "16", "--out", "r.json"];
    let output = koel("intersect", f, &still);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("1 animations were not read"));
    let build = ["bar.glb", "--voxel-grid", "32", "--kind", "set", "-o", "t.koel"];
    let output = koel("build", f, &build);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn what_an_animation_lacks_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let mut two = bending_bar(3, [0.0; 3]);
    let again = two.json["animations"][0].clone();
    two.push("animations", again);
    two.json["animations"][1]["name"] = json!("nod");
    fs::write(f.join("two.glb"), two.glb()).unwrap();
    two.json["animations"][1]["name"] = json!("bend");
    fs::write(f.join("twice.glb"), two.glb()).unwrap();
    let one = bending_bar(3, [0.0; 3]);
    fs::write(f.join("one.gltf"), one.beside("data.bin")).unwrap();
    fs::write(f.join("data.bin"), &one.binary).unwrap();
    let mut still = Builder::new();
    still.json = json!({"asset": {"version": "2.0"}});
    fs::write(f.join("empty.gltf"), still.embedded()).unwrap();
    cube(f, "cube.obj", [0.0; 3], 1.0);
    let out = ["--grid", "16", "--out", "r-%d.json"];
    for (arguments, says) in [
        (
            &["two.glb", "cube.obj"][..],
            "two.glb: holds 2 animations (0 \"bend\", 1 \"nod\"), expected",
        ),
        (
            &["two.glb", "cube.obj", "--animation-a", "x"],
            "two.glb: has no animation \"x\", but 2: 0 ",
        ),
        (
            &["two.glb", "cube.obj", "--animation-a", "2"],
            "has no animation \"2\", but 2: 0 \"bend\"",
        ),
        (
            &["twice.glb", "cube.obj", "--animation-a", "bend"],
            "has 2 animations \"bend\": expected a number",
        ),
        (
            &["one.gltf", "cube.obj", "--animation-b", "0"],
            "cube.obj: there is no animation \"0\", expected",
        ),
        (&["one.gltf", "cube.obj", "--fps", "0"], "expected 0.001 to 1000"),
        (
            &["one.gltf", "two.glb", "--animation-b", "none", "--out-cloud", "data.bin"],
            "--out-cloud: expected a pattern",
        ),
        (&["one.gltf", "cube.obj", "--poses-b", "path.txt"], "path.txt has 1 poses for 61 frames"),
        (&["empty.gltf", "cube.obj"], "empty.gltf: the scene: no triangles; 0 meshes, 0 nodes"),
        (&["missing.glb", "cube.obj"], "missing.glb: cannot be read"),
    ] {
        fs::write(f.join("path.txt"), "0 0 0\n").unwrap();
        let error = refused(f, &[arguments, &out].concat());
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
    let plain = ["one.gltf", "cube.obj", "--grid", "16", "--out", "r.json"];
    assert!(refused(f, &plain).contains("--out: expected a pattern such as frame-%04d.json"));
    // The file of the buffer is an input.
    let over = ["--animation-a", "none", "--out-cloud", "data.bin"];
    let error = refused(f, &[&plain[..], &over].concat());
    assert!(
        error.contains("--out-cloud data.bin and the buffer data.bin are the same file"),
        "{error}"
    );
    assert_eq!(fs::read(f.join("data.bin")).unwrap(), one.binary);
    // By number and by name.
    for name in ["1", "nod"] {
        let chosen = ["two.glb", "cube.obj", "--animation-a", name, "--fps", "1"];
        assert_eq!(reports(f, &[&chosen[..], &out].concat()).0.len(), 3);
    }
    // A long animation at a high rate.
    let mut long = bending_bar(2, [0.0; 3]);
    long.animation("long", &[(1, "translation", "STEP", &[0.0, 1e6], &[0.0; 6])]);
    fs::write(f.join("long.glb"), long.glb()).unwrap();
    let long = ["long.glb", "cube.obj", "--animation-a", "long"];
    let error = refused(f, &[&long[..], &out].concat());
    assert!(error.contains("30000001 frames, expected at most 100000"), "{error}");
}
