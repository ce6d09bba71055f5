//! Tests of `koel intersect` and `koel view`.
use koel_testing::gltf_scenes;

use koel_spatial::Grid;
use koel_spatial::intersect::{Intersector, Method, Pose, Side};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn koel(what: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_koel"));
    command.env_remove("RAYON_NUM_THREADS").stdin(Stdio::null());
    command.args([what, "--device", "cpu", "--threads", "2"]).args(arguments);
    command
}
fn run(arguments: &[&str]) -> Output {
    koel("intersect", arguments).output().unwrap()
}
fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
fn refused(arguments: &[&str]) -> String {
    refused_of(run(arguments), arguments)
}
fn refused_of(output: Output, arguments: &[&str]) -> String {
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!((out.as_str(), error.lines().count()), ("", 1), "{arguments:?}: {error}");
    assert!(error.starts_with("error: ") && !error.contains("panicked"), "{error}");
    error
}
fn names(folder: &Path) -> Vec<String> {
    let mut names = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    names.sort();
    names
}
fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// `n` evenly spread points on a part of a unit sphere (golden spiral), moved along x.
fn sphere(folder: &Path, name: &str, n: usize, from_z: f64, x: f64, normals: bool) -> PathBuf {
    let fields =
        if normals { "property float nx\nproperty float ny\nproperty float nz\n" } else { "" };
    let mut ply = format!(
        "ply\nformat ascii 1.0\nelement vertex {n}\n\
         property float x\nproperty float y\nproperty float z\n{fields}end_header\n"
    );
    for i in 0..n {
        let z = from_z + (1.0 - from_z) * (i as f64 + 0.5) / n as f64;
        let (r, a) = ((1.0 - z * z).sqrt(), i as f64 * 2.399_963_229_728_653);
        let p = [r * a.cos(), r * a.sin(), z];
        ply += &format!("{} {} {}", p[0] + x, p[1], p[2]);
        ply += &if normals { format!(" {} {} {}\n", p[0], p[1], p[2]) } else { "\n".into() };
    }
    let path = folder.join(name);
    fs::write(&path, ply).unwrap();
    path
}
/// A cube of triangles.
fn cube(folder: &Path, name: &str, x: f64) -> PathBuf {
    let mut obj = String::new();
    for corner in 0..8 {
        let bit = |b: u32| f64::from(corner >> b & 1);
        obj += &format!("v {} {} {}\n", bit(0) + x, bit(1), bit(2));
    }
    for face in ["1 3 4 2", "5 6 8 7", "1 2 6 5", "3 7 8 4", "1 5 7 3", "2 4 8 6"] {
        obj += &format!("f {face}\n");
    }
    let path = folder.join(name);
    fs::write(&path, obj).unwrap();
    path
}
/// Rows of a label file.
fn rows(path: &Path) -> Vec<[i32; 4]> {
    let bytes = fs::read(path).unwrap();
    let words = bytes
        .chunks_exact(4)
        .map(|b| i32::from_le_bytes(b.try_into().unwrap()))
        .collect::<Vec<_>>();
    assert_eq!(bytes.len() % 16, 0);
    words.chunks_exact(4).map(|r| r.try_into().unwrap()).collect()
}

#[test]
fn the_report_and_its_labels_are_as_agreed() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) =
        (sphere(f, "a.ply", 8000, -1.0, 0.0, true), sphere(f, "b.ply", 8000, -1.0, 0.8, true));
    let out = f.join("report.json");
    for method in ["robust", "paper"] {
        let plain = [word(&a), word(&b), "--grid", "32", "--out", word(&out), "--method", method];
        let asked = if method == "robust" { &["--volumes"][..] } else { &[] };
        let output = run(&[&plain[..], asked].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "no progress in a pipe");
        assert!(text(&output.stdout).contains("intersection"));
        let report: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
        assert_eq!((report["grid"].as_u64(), report["method"].as_str()), (Some(32), Some(method)));
        let h = report["voxel_size"].as_f64().unwrap();
        assert!(h <= 2.8 / (0.85 * 32.0) && h > 0.0);
        for field in ["upload", "voxelize", "build", "intersect", "seed", "fill", "total"] {
            assert!(report["timings_ms"][field].as_f64().unwrap() >= 0.0, "{field}");
        }
        assert!(report["device"].as_str().unwrap().contains("CPU"));
        let origin: Vec<f64> =
            report["origin"].as_array().unwrap().iter().map(|c| c.as_f64().unwrap()).collect();
        for (cloud, centre, other) in [("a", 0.0, 0.8), ("b", 0.8, 0.0)] {
            let labels = rows(&f.join(report[cloud]["labels_file"].as_str().unwrap()));
            let mut counts = [0u64; 4];
            let mut seen = std::collections::BTreeSet::new();
            for [i, j, k, label] in labels {
                assert!(seen.insert([i, j, k]), "each voxel once");
                counts[label as usize] += 1;
                let p = [i, j, k].map(f64::from);
                let at = |a: usize| origin[a] + h * (p[a] + 0.5);
                let from = |x: f64| (at(0) - x).hypot(at(1)).hypot(at(2)) - 1.0;
                assert!(from(centre).abs() < h, "on its own sphere");
                if from(other).abs() > 2.0 * h {
                    assert_eq!(label, if from(other) < 0.0 { 2 } else { 3 });
                }
            }
            for (field, count) in
                ["unknown", "intersection", "inside", "outside"].into_iter().zip(counts)
            {
                assert_eq!(report[cloud]["counts"][field], count);
            }
            assert!(counts[1] > 0 && counts[2] > 100 && counts[3] > counts[2]);
        }
        if method == "robust" {
            // Two unit spheres with centres 0.8 apart meet in a lens: two caps of height 0.6.
            let lens = 2.0 * std::f64::consts::PI * 0.36 * (3.0 - 0.6) / 3.0;
            let found = report["volumes"]["intersection"].as_f64().unwrap();
            let error = report["volume_errors"]["intersection"].as_f64().unwrap();
            assert!((found - lens).abs() < error && error < 0.05 * lens, "{found}, not {lens}");
            assert!(
                text(&output.stdout).contains(&format!("intersection {found:.6} ± {error:.6}"))
            );
        } else {
            assert!(report["volumes"].is_null() && report["volume_errors"].is_null());
        }
    }
    assert_eq!(names(f), ["a.ply", "b.ply", "report.a.bin", "report.b.bin", "report.json"]);
    let output = run(&[word(&a), word(&b), "--grid", "32", "--out", word(&out), "--json", "-"]);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, serde_json::from_slice::<Value>(&fs::read(&out).unwrap()).unwrap());
    // Volumes take time and are computed only when asked for.
    assert!(printed["volumes"].is_null() && printed["a"]["open"] == false);
    let output = run(&[word(&a), word(&b), "--grid", "32", "--out", word(&out)]);
    assert!(text(&output.stdout).contains("volumes: with --volumes"));
}

#[test]
fn booleans_of_meshes_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) = (cube(f, "a.obj", 0.0), cube(f, "b.obj", 0.5));
    let (out, mesh, cloud) = (f.join("r.json"), f.join("m.ply"), f.join("c.ply"));
    let volumes =
        [("union", 1.5), ("intersection", 0.5), ("difference", 0.5), ("reverse-difference", 0.5)];
    for (boolean, volume) in volumes {
        let arguments =
            ["--grid", "40", "--boolean", boolean, "--out", word(&out), "--out-mesh", word(&mesh)];
        let output =
            run(&[&[word(&a), word(&b)][..], &arguments, &["--out-cloud", word(&cloud)]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
        let found = report["volumes"][boolean.replace('-', "_")].as_f64().unwrap();
        assert!((found / volume - 1.0).abs() < 0.12, "{boolean}: {found}, not {volume}");
        let made = koel_spatial::read_mesh(&mesh).unwrap();
        assert_eq!(report["boolean"]["triangles"], made.triangles.len());
        // Boxes of 1 x 1 x 1.5 and 1 x 1 x 0.5.
        let area = if boolean == "union" { 8.0 } else { 4.0 };
        assert!((area_of(&made) / area - 1.0).abs() < 0.03, "{boolean}: {}", area_of(&made));
        let points = koel_spatial::read_cloud(&cloud).unwrap();
        assert_eq!(report["boolean"]["points"], points.positions.len());
        assert!(points.normals.is_some() && points.positions.len() > 1000);
    }
    // The faces of voxels have all the area of their steps, and no normals.
    let smooth = koel_spatial::read(&mesh).unwrap();
    let options = ["--grid", "40", "--boolean", "union", "--out-mesh", word(&mesh)];
    report_of(f, [&a, &b], &[&options[..], &["--pose-b", "0,0,0,0,20,20"]].concat());
    let turned = area_of(&koel_spatial::read_mesh(&mesh).unwrap());
    let faces = ["--pose-b", "0,0,0,0,20,20", "--mesh", "voxels"];
    report_of(f, [&a, &b], &[&options[..], &faces].concat());
    let voxels = koel_spatial::read(&mesh).unwrap();
    assert!(smooth.points.normals.is_some() && voxels.points.normals.is_none());
    assert!(area_of(&voxels.into_mesh().unwrap()) > 1.1 * turned);
    let out = ["--out", word(&out), "--mesh", "voxels"];
    assert!(refused(&[&[word(&a), word(&b)][..], &out].concat()).contains("--out-mesh"));
}
fn area_of(mesh: &koel_spatial::Mesh) -> f64 {
    let area = |t: &[u32; 3]| {
        let [a, b, c] = t.map(|v| mesh.positions[v as usize].map(f64::from));
        let [u, v] = [b, c].map(|p| [p[0] - a[0], p[1] - a[1], p[2] - a[2]]);
        let normal = [1, 2, 0].map(|i| u[i] * v[(i + 1) % 3] - u[(i + 1) % 3] * v[i]);
        0.5 * normal[0].hypot(normal[1]).hypot(normal[2])
    };
    mesh.triangles.iter().map(area).sum()
}

const PLY: &str = "ply\nformat ascii 1.0\n";
const XYZ: &str = "property float x\nproperty float y\nproperty float z\n";
/// Writes the files that the examples of `--help` name.
fn example_files(f: &Path) {
    // The format of a file is detected from its content.
    let still = [("bunny", 0.0), ("dragon", 0.5), ("a", 0.0), ("b", 0.5), ("room", 0.5)];
    for (name, x) in still.into_iter().chain([("walk-001", 0.0), ("walk-002", 0.2)]) {
        let made = koel_spatial::read_mesh(cube(f, "b.obj", x)).unwrap();
        let mut ply = format!("{PLY}element vertex {}\n{XYZ}", made.positions.len());
        ply += &format!(
            "element face {}\nproperty list uchar int vertex_indices\nend_header\n",
            made.triangles.len()
        );
        made.positions.iter().for_each(|[x, y, z]| ply += &format!("{x} {y} {z}\n"));
        made.triangles.iter().for_each(|[a, b, c]| ply += &format!("3 {a} {b} {c}\n"));
        fs::write(f.join(name).with_extension("ply"), ply).unwrap();
    }
    let pcd = (0..400).map(|i| format!("{} {} 0\n", i % 20, i / 20)).collect::<String>();
    let header = "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\n\
        WIDTH 400\nHEIGHT 1\nPOINTS 400\nDATA ascii\n";
    fs::write(f.join("scan1.pcd"), format!("{header}{pcd}")).unwrap();
    las(f, "scan2.laz", 0.0, &plate(0));
    fs::write(f.join("path.txt"), "0 0 0\n0.25 0 0 0 0 45\n").unwrap();
    let mut bar = gltf_scenes::bending_bar(5, [0.0; 3]);
    bar.json["animations"][0]["name"] = "Walk".into();
    fs::write(f.join("walk.glb"), bar.glb()).unwrap();
}

/// Runs every example of `--help`.
#[test]
fn examples_run_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    example_files(f);
    let help = text(&run(&["--help"]).stdout);
    let examples =
        help.lines().filter_map(|line| line.strip_prefix("  koel intersect ")).collect::<Vec<_>>();
    assert!(examples.len() >= 4, "{help}");
    for example in examples {
        let mut command = koel("intersect", &example.split_whitespace().collect::<Vec<_>>());
        let output = command.current_dir(f).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{example}: {}", text(&output.stderr));
    }
}

/// Writes a LAS file (version 1.2, format 0) of points in hundredths from an offset.
fn las(folder: &Path, name: &str, offset: f64, points: &[[i32; 3]]) -> PathBuf {
    let mut bytes = vec![0; 227];
    bytes[..4].copy_from_slice(b"LASF");
    bytes[24..26].copy_from_slice(&[1, 2]);
    bytes[94..96].copy_from_slice(&227u16.to_le_bytes());
    bytes[96..100].copy_from_slice(&227u32.to_le_bytes());
    bytes[105..107].copy_from_slice(&20u16.to_le_bytes());
    bytes[107..111].copy_from_slice(&(points.len() as u32).to_le_bytes());
    for axis in 0..3 {
        bytes[131 + 8 * axis..][..8].copy_from_slice(&0.01f64.to_le_bytes());
        bytes[155 + 8 * axis..][..8].copy_from_slice(&offset.to_le_bytes());
    }
    for point in points {
        bytes.extend(point.iter().flat_map(|c| c.to_le_bytes()));
        bytes.extend([0; 8]);
    }
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// Points of a 1 by 1 plate that begins at `x`.
fn plate(x: i32) -> Vec<[i32; 3]> {
    (0..400).map(|i| [x + 5 * (i % 20), 5 * (i / 20), 0]).collect()
}

/// Flat surfaces look alike from both sides; LAS files are from the air.
#[test]
fn open_surfaces_of_las_files_point_up_and_others_are_doubted() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) = (las(f, "a.las", 0.0, &plate(0)), f.join("b.ply"));
    let rows = plate(0).iter().map(|p| format!("{}e-2 {}e-2 1\n", p[0], p[1])).collect::<String>();
    let header = "ply\nformat ascii 1.0\nelement vertex 400\nproperty float x\n\
                  property float y\nproperty float z\nend_header\n";
    fs::write(&b, format!("{header}{rows}")).unwrap();
    let found = report_of(f, [&a, &b], &["--estimate-normals", "--grid", "16"]);
    let (notes, doubts) = (found["notes"].to_string(), found["doubts"].to_string());
    let up = "a.las: 400 of 400 points belong to parts that are not closed: their estimated \
              normals point up, as in scans from the air; --viewpoint-a states where";
    assert!(notes.contains(up), "{found:#}");
    assert_eq!(doubts.matches("look alike").count(), 1, "{found:#}");
    let guess = "b.ply: 400 of 400 points belong to parts that are not closed and look alike";
    assert!(doubts.contains(guess) && doubts.contains("--viewpoint-b states where"), "{found:#}");
}

#[test]
fn scans_with_origins_of_their_own_are_put_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    // The second plate is 2 to the right of the first.
    let (a, b) = (las(f, "a.las", 637e3, &plate(0)), las(f, "b.las", 637e3, &plate(200)));
    let out = f.join("r.json");
    let points = f.join("points.ply");
    let files = ["--out", word(&out), "--out-cloud", word(&points)];
    let output =
        run(&[&[word(&a), word(&b), "--estimate-normals", "--grid", "16"][..], &files].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    for cloud in ["a", "b"] {
        assert_eq!(report[cloud]["counts"]["intersection"], 0, "they do not meet: {report:#}");
    }
    // All results are in the files' coordinates: the plates span 3 by 1.
    let (origin, h) = (&report["origin"][0], report["voxel_size"].as_f64().unwrap());
    assert!((origin.as_f64().unwrap() - 637e3).abs() < 16.0 * h, "{report:#}");
    let [min, max] = box_of(&points);
    assert!((min[0] - 637_000.0).abs() < 1e-6 && (max[0] - 637_002.95).abs() < 1e-6);
    assert!((min[1] - 637_000.0).abs() < 1e-6 && (max[1] - 637_000.95).abs() < 1e-6);
}
/// Returns the corners of a file's points, in the coordinates of the file.
fn box_of(path: &Path) -> [[f64; 3]; 2] {
    let scan = koel_spatial::read(path).unwrap();
    let (bounds, origin) = (scan.bounds().unwrap(), scan.report.origin);
    [bounds.min(), bounds.max()].map(|c| [0, 1, 2].map(|a| origin[a] + f64::from(c[a])))
}
/// Intersects two files, and returns the report.
fn report_of(folder: &Path, files: [&Path; 2], options: &[&str]) -> Value {
    let out = folder.join("r.json");
    let arguments = [&[word(files[0]), word(files[1]), "--out", word(&out)][..], options].concat();
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&fs::read(&out).unwrap()).unwrap()
}

#[test]
fn solids_far_from_zero_are_as_those_at_zero() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let mesh = f.join("mesh.ply");
    let options = ["--grid", "32", "--boolean", "intersection", "--out-mesh", word(&mesh)];
    let mut reports = vec![];
    // A tenth has no exact form; 32 bits would move it by up to a half at 10^7.
    for offset in [0.1, 1e7 + 0.1] {
        let (a, b) = (cube(f, "a.obj", offset), cube(f, "b.obj", offset + 0.5));
        let report = report_of(f, [&a, &b], &options);
        let volume = report["volumes"]["intersection"].as_f64().unwrap();
        assert!((volume - 0.5).abs() < 0.1, "{report:#}");
        let [min, max] = box_of(&mesh);
        let h = report["voxel_size"].as_f64().unwrap();
        assert!((min[0] - offset - 0.5).abs() < h && (max[0] - offset - 1.0).abs() < h);
        reports.push([volume, h, min[0] - offset, min[1], max[0] - offset]);
    }
    // The last digits decide the voxels of some points; what 32 bits lose is a thousand times that.
    for (near, far) in reports[0].iter().zip(reports[1]) {
        assert!((near - far).abs() < 5e-4, "{reports:?}");
    }
}

#[test]
fn surfaces_that_are_inside_out_are_turned_and_noted() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) = (cube(f, "a.obj", 0.0), cube(f, "b.obj", 0.5));
    let right = report_of(f, [&a, &b], &["--grid", "32", "--volumes"]);
    let inside_out = f.join("inside-out.obj");
    let turned = fs::read_to_string(&a).unwrap();
    let turned = turned.lines().map(|line| match line.strip_prefix("f ") {
        Some(corners) => {
            format!("f {}\n", corners.split(' ').rev().collect::<Vec<_>>().join(" "))
        }
        None => format!("{line}\n"),
    });
    fs::write(&inside_out, turned.collect::<String>()).unwrap();
    let found = report_of(f, [&inside_out, &b], &["--grid", "32", "--volumes"]);
    assert_eq!(
        (&found["volumes"], &found["b"]["counts"]),
        (&right["volumes"], &right["b"]["counts"])
    );
    let notes = |report: &Value| report["notes"].to_string();
    assert!(notes(&found).contains("inside-out.obj: the faces point inward (signed volume -1.0"));
    assert_eq!(notes(&right).matches("inward").count(), 0);

    // One face that is turned leaves the outside uncertain.
    let odd = f.join("odd.obj");
    let text_of_a = fs::read_to_string(&a).unwrap();
    fs::write(&odd, text_of_a.replace("f 1 3 4 2", "f 2 4 3 1")).unwrap();
    let found = report_of(f, [&odd, &b], &["--grid", "32"]);
    assert!(
        found["doubts"].to_string().contains("disagree about the outside at 4 edges"),
        "{found:#}"
    );
    // Every face twice, once from each side.
    let both = f.join("both.obj");
    let faces = fs::read_to_string(&inside_out).unwrap();
    let faces = faces.lines().filter(|line| line.starts_with('f')).map(|line| format!("{line}\n"));
    fs::write(&both, text_of_a + &faces.collect::<String>()).unwrap();
    let found = report_of(f, [&both, &b], &["--grid", "32"]);
    assert!(
        found["doubts"].to_string().contains("edges belong to more than two faces"),
        "{found:#}"
    );
}

#[test]
fn normals_that_point_inward_or_nowhere_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) =
        (sphere(f, "a.ply", 4000, -1.0, 0.0, true), sphere(f, "b.ply", 4000, -1.0, 0.8, true));
    let with_normals = |name: &str, change: fn(&str) -> String| {
        let path = f.join(name);
        let lines = fs::read_to_string(&a).unwrap();
        let (header, points) = lines.split_once("end_header\n").unwrap();
        let points = points.lines().map(|line| {
            let words = line.split(' ').enumerate();
            let words = words.map(|(i, w)| if i < 3 { w.to_owned() } else { change(w) });
            words.collect::<Vec<_>>().join(" ") + "\n"
        });
        fs::write(&path, format!("{header}end_header\n{}", points.collect::<String>())).unwrap();
        path
    };
    let minus = |w: &str| w.strip_prefix('-').map_or(format!("-{w}"), str::to_owned);
    let inward = with_normals("inward.ply", minus);
    let right = report_of(f, [&a, &b], &["--grid", "32", "--volumes"]);
    let found = report_of(f, [&inward, &b], &["--grid", "32", "--volumes"]);
    assert!(found["volumes"] == right["volumes"] && found["volumes"].is_object());
    assert!(found["notes"].to_string().contains("inward.ply: the normals point inward"));
    let zero = with_normals("zero.ply", |_| "0".to_owned());
    let out = f.join("z.json");
    let files = [word(&zero), word(&b), "--out", word(&out)];
    let output = run(&files);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("zero.ply: all 4000 normals are zero"));
    assert!(!out.exists());
    let output = run(&[&files[..], &["--estimate-normals"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// One of two solids in a file is inside out, or one of two parts of a cloud.
#[test]
fn solids_of_one_file_are_judged_each_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) = (cube(f, "a.obj", 0.0), cube(f, "b.obj", 0.5));
    let both = |name: &str, second_is_turned: bool| {
        let (first, second) = (fs::read_to_string(&a).unwrap(), cube(f, "far.obj", 3.0));
        let second = fs::read_to_string(second).unwrap();
        let second = second.lines().map(|line| match line.strip_prefix("f ") {
            Some(corners) => {
                let mut corners: Vec<usize> =
                    corners.split(' ').map(|c| c.parse::<usize>().unwrap() + 8).collect();
                if second_is_turned {
                    corners.reverse();
                }
                let corners = corners.iter().map(usize::to_string).collect::<Vec<_>>();
                format!("f {}\n", corners.join(" "))
            }
            None => format!("{line}\n"),
        });
        let path = f.join(name);
        fs::write(&path, first + &second.collect::<String>()).unwrap();
        path
    };
    let right = report_of(f, [&both("right.obj", false), &b], &["--grid", "32"]);
    let found = report_of(f, [&both("half.obj", true), &b], &["--grid", "32"]);
    assert_eq!(
        (&found["volumes"], &found["b"]["counts"]),
        (&right["volumes"], &right["b"]["counts"])
    );
    let note = "half.obj: the faces of 1 of 2 solids point inward: 12 faces were turned";
    assert!(found["notes"].to_string().contains(note), "{found:#}");
    assert!(!right["notes"].to_string().contains("inward"), "{right:#}");
}

#[test]
fn estimated_normals_face_the_viewpoint() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) =
        (sphere(f, "a.ply", 2000, -1.0, 0.0, false), sphere(f, "b.ply", 2000, -1.0, 0.8, true));
    let estimate = ["--estimate-normals", "--grid", "32"];
    let outward = report_of(f, [&a, &b], &estimate);
    // From the middle, the sphere is a room.
    let room = report_of(f, [&a, &b], &[&estimate[..], &["--viewpoint-a", "0,0,0"]].concat());
    let inside = |report: &Value| report["b"]["counts"]["inside"].as_u64().unwrap();
    let outside = |report: &Value| report["b"]["counts"]["outside"].as_u64().unwrap();
    assert!(inside(&outward) > 100 && outside(&outward) > 100, "{outward:#}");
    assert_ne!(inside(&room), inside(&outward));
    // The same position in the header of a PCD file.
    let text_of_a = fs::read_to_string(&a).unwrap();
    let (_, points) = text_of_a.split_once("end_header\n").unwrap();
    let pcd = f.join("a.pcd");
    let header = "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 2000\n\
                  HEIGHT 1\nVIEWPOINT 0 0 0 0.5 0.5 0.5 0.5\nPOINTS 2000\nDATA ascii\n";
    fs::write(&pcd, format!("{header}{points}")).unwrap();
    let found = report_of(f, [&pcd, &b], &estimate);
    assert_eq!(found["b"]["counts"], room["b"]["counts"]);
    let note = "a.pcd: estimated normals face the file's VIEWPOINT, 0, 0, 0";
    assert!(found["notes"].to_string().contains(note), "{found:#}");

    let mesh = cube(f, "c.obj", 0.0);
    let out = f.join("none.json");
    let first = points.lines().next().unwrap().replace(' ', ",");
    for (a, viewpoint, says) in [
        (&a, "0,0", "2 numbers, expected 3: x, y, z"),
        (&a, first.as_str(), "a.ply: point 0 is at the viewpoint ["),
        (&b, "0,0,0", "b.ply: the points have normals, but --viewpoint-a is given"),
        (&mesh, "0,0,0", "c.obj: a mesh needs no viewpoint, but --viewpoint-a is given"),
    ] {
        let files = [word(a), word(&b), "--out", word(&out), "--viewpoint-a", viewpoint];
        let output = run(&[&files[..], &estimate].concat());
        assert_eq!(output.status.code(), Some(2), "{says}");
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
        assert!(!out.exists());
    }
    let files = [word(&a), word(&b), "--out", word(&out), "--viewpoint-a", "0,0,0"];
    let output = run(&files);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--estimate-normals"), "{}", text(&output.stderr));
}

#[test]
fn points_that_a_reader_drops_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) =
        (sphere(f, "a.ply", 2000, -1.0, 0.0, true), sphere(f, "b.ply", 2000, -1.0, 0.8, true));
    let text_of_a =
        fs::read_to_string(&a).unwrap().replace("element vertex 2000", "element vertex 2002");
    fs::write(&a, format!("{text_of_a}nan 0 0 1 0 0\n0 0 1 0 inf 0\n")).unwrap();
    let out = f.join("r.json");
    let output = run(&[word(&a), word(&b), "--grid", "16", "--out", word(&out)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    assert_eq!((&report["a"]["dropped"], &report["b"]["dropped"]), (&2.into(), &0.into()));
    assert!(
        report["notes"][0].as_str().unwrap().contains("2 points with non-finite coordinates"),
        "{report:#}"
    );
}

#[test]
fn open_surfaces_are_said_to_be_open() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) =
        (sphere(f, "a.ply", 4000, 0.0, 0.0, true), sphere(f, "b.ply", 8000, -1.0, 0.8, true));
    let out = f.join("r.json");
    let plain = ["--grid", "32", "--out", word(&out)];
    let output = run(&[&[word(&a), word(&b)][..], &plain].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stdout).contains("a.ply: the surface is open"),
        "{}",
        text(&output.stdout)
    );
    let report: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    assert!(
        report["volumes"].is_null() && report["a"]["open"] == true && report["b"]["open"] == false
    );
    let mesh = f.join("m.ply");
    let wanted = ["--boolean", "union", "--out-mesh", word(&mesh)];
    let error = refused(&[&[word(&a), word(&b)][..], &plain, &wanted].concat());
    assert!(error.contains("a.ply: the surface is open") && !mesh.exists(), "{error}");
}

#[test]
fn bad_usage_and_bad_input_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let good = sphere(f, "good.ply", 300, -1.0, 0.0, true);
    let bare = sphere(f, "bare.ply", 300, -1.0, 0.5, false);
    let (out, missing) = (f.join("r.json"), f.join("missing.ply"));
    let garbage = f.join("garbage.ply");
    fs::write(&garbage, [0xFF; 99]).unwrap();
    let (good, bare, out) = (word(&good), word(&bare), word(&out));
    for (arguments, says) in [
        (vec![good, "--out", out], "<B>"),
        (vec![good, good, "--out", out, "--grid", "7"], "8..=1024"),
        (vec![good, good, "--out", out, "--grid", "1025"], "8..=1024"),
        (vec![good, good], "--out"),
        (vec![good, good, "--out", word(f)], "is a folder"),
        (vec![good, good, "--out", "/nonexistent/r.json"], "/nonexistent/r.json"),
        (vec![good, good, "--out", out, "--out-mesh", "m.ply"], "--boolean"),
        (vec![good, good, "--out", out, "--boolean", "both"], "'both'"),
        (vec![good, good, "--out", out, "--method", "magic"], "'magic'"),
        (
            vec![good, good, "--out", out, "--pose-a", "1,2"],
            "'--pose-a <X,Y,Z[,...]>': 2 numbers, expected 3 (a translation), 6",
        ),
        (
            vec![good, good, "--out", out, "--pose-b", "-1,-2,z"],
            "number 3 is 'z', expected a finite",
        ),
        (
            vec![good, good, "--out", out, "--pose-b", "0 0 0 0 0 0 2"],
            "'--pose-b <X,Y,Z[,...]>': the length of the quaternion is 2, expected 1",
        ),
        (
            vec![good, good, "--out", out, "--pose-a", "1,0,0,0,0,2,0,0,0,0,1,0"],
            "row 2 times row 2 is 4, expected 1",
        ),
        (vec![good, good, "--out", out, "--pose-a", "1,0,0", "--poses-a", "p.txt"], "--poses-a"),
        (vec![good, good, "--out", out, "--poses-b", "no.txt"], "no.txt: cannot be read"),
        (
            vec![good, good, "--out", out, "--pose-a", "1e300,0,0"],
            "the box around both clouds in their poses: vertex 1: x is inf, expected a finite",
        ),
        (vec![good, good, "--out", out, "--method", "paper", "--inside-above", "20"], "degrees"),
        (vec![good, word(&missing), "--out", out], "missing.ply"),
        (vec![word(&garbage), good, "--out", out], "garbage.ply"),
        (vec![good, bare, "--out", out], "bare.ply: the points have no normals"),
    ] {
        let error = refused(&arguments);
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
    assert_eq!(names(f), ["bare.ply", "garbage.ply", "good.ply"], "nothing is left behind");
    let output = run(&[good, bare, "--out", out, "--estimate-normals", "--grid", "16"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let help = text(&run(&["--help"]).stdout);
    assert!(help.contains("Examples:") && help.contains("\n  koel intersect"));
}

#[cfg(unix)]
#[test]
fn view_serves_a_page_until_it_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) =
        (sphere(f, "a.ply", 2000, -1.0, 0.0, true), sphere(f, "b.ply", 2000, -1.0, 0.8, true));
    let arguments = [word(&a), word(&b), "--grid", "24", "--port", "0", "--json", "-"];
    let mut child =
        koel("view", &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let port = told["port"].to_string();
    assert_eq!(told["url"], format!("http://127.0.0.1:{port}/"));
    assert!(told["device"].as_str().unwrap().contains("CPU"));

    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<canvas"));
    // A second server on the same port.
    let second = koel("view", &[word(&a), word(&b), "--port", &port]).output().unwrap();
    let error = text(&second.stderr);
    assert_eq!((second.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains(&format!("port {port} of 127.0.0.1")), "{error}");

    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let (mut rest, mut errors) = (String::new(), String::new());
    out.read_to_string(&mut rest).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.as_str(), errors.as_str()), (Some(0), "", ""));
    assert!(TcpStream::connect(format!("127.0.0.1:{port}")).is_err());
}

/// Every example of `koel view --help` that needs no GPU serves its page, on any port.
#[cfg(unix)]
#[test]
fn examples_of_view_serve_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    example_files(f);
    let help = text(&koel("view", &["--help"]).output().unwrap().stdout);
    let examples = help.lines().filter_map(|line| line.strip_prefix("  koel view "));
    let examples = examples.filter(|line| !line.contains("cuda")).collect::<Vec<_>>();
    assert!(examples.len() >= 4, "{help}");
    for example in examples {
        // Any port, and a small grid for quick answers.
        let example = example.replace(" --port 0", "").replace(" --grid 256", "");
        let mut words = example.split_whitespace().collect::<Vec<_>>();
        words.extend(["--port", "0", "--grid", "16"]);
        let mut command = koel("view", &words);
        command.current_dir(f).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let id = child.id().to_string();
        let _ = Command::new("kill").args(["-INT", &id]).status();
        let code = child.wait().unwrap().code();
        assert!(line.starts_with("http://127.0.0.1:") && code == Some(0), "{example}: {line}");
    }
}

#[test]
fn view_refuses_what_it_cannot_show() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, bare) =
        (sphere(f, "a.ply", 500, -1.0, 0.0, true), sphere(f, "bare.ply", 500, -1.0, 0.0, false));
    let (a, bare, missing) = (word(&a), word(&bare), word(&f.join("missing.ply")).to_owned());
    let (pattern, frame) = (f.join("w-%d.ply"), f.join("w-1.ply"));
    for name in ["w-1.ply", "w-2.ply"] {
        sphere(f, name, 300, -1.0, 0.0, true);
    }
    let (pattern, frame) = (word(&pattern), word(&frame));
    for (arguments, why) in [
        (vec![a, &missing, "--port", "0"], "missing.ply"),
        (vec![a, bare, "--port", "0"], "--estimate-normals"),
        (vec![a, a, "--port", "70000"], "70000"),
        (vec![pattern, a, "--port", "0", "--json", frame], "an output must not replace an input"),
        (
            vec![pattern, a, "--animation-a", "0"],
            "there is no animation \"0\", expected a glTF file",
        ),
        (vec![a, a, "--grid", "4"], "--grid"),
        (vec![a], "<B>"),
    ] {
        let error = refused_of(koel("view", &arguments).output().unwrap(), &arguments);
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
}

#[test]
fn what_questions_the_answer_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) =
        (sphere(f, "a.ply", 8000, -1.0, 0.0, true), sphere(f, "b.ply", 8000, -1.0, 0.8, true));
    let strict = ["--grid", "32", "--strict"];
    let doubts = |files: [&Path; 2], options: &[&str]| {
        let report = report_of(f, files, options);
        report["doubts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(doubts([&a, &b], &strict), [""; 0]);

    // An outlier a thousand radii away does not decide the grid.
    let far = f.join("far.ply");
    let with_outlier =
        fs::read_to_string(&a).unwrap().replace("element vertex 8000", "element vertex 8001");
    fs::write(&far, with_outlier + "1000 0 0 1 0 0\n").unwrap();
    let volumes = ["--grid", "32", "--volumes"];
    let (with, without) = (report_of(f, [&far, &b], &volumes), report_of(f, [&a, &b], &volumes));
    assert_eq!(with["voxel_size"], without["voxel_size"]);
    assert_eq!((&with["volumes"], &with["a"]["dropped"]), (&without["volumes"], &1.into()));
    assert!(
        with["doubts"][0].as_str().unwrap().contains("1 of 8001 points lie far from all others")
    );
    let out = f.join("r.json");
    let arguments = [&[word(&far), word(&b), "--out", word(&out)][..], &strict].concat();
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("doubtful: A, ") && out.exists());

    // Too sparse for the grid, and a cloud in metres beside one in millimetres.
    let sparse = doubts([&a, &b], &["--grid", "128"]);
    assert!(sparse.len() == 2 && sparse[0].contains("the surface may have holes"), "{sparse:?}");
    let small = f.join("small.obj");
    let scaled = fs::read_to_string(cube(f, "cube.obj", 0.0)).unwrap();
    let scaled = scaled.lines().map(|line| match line.strip_prefix("v ") {
        Some(c) => {
            format!("v {}\n", c.split(' ').map(|c| format!("{c}e-3")).collect::<Vec<_>>().join(" "))
        }
        None => format!("{line}\n"),
    });
    fs::write(&small, scaled.collect::<String>()).unwrap();
    let found = doubts([&a, &small], &["--grid", "32"]);
    assert!(
        found.iter().any(|d| d.contains("small.obj: its box is 0.01 voxels long")),
        "{found:?}"
    );
}

/// The labels are those of the library's frames in the same poses.
#[test]
fn poses_are_those_of_frames() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let (a, b) =
        (sphere(f, "a.ply", 3000, -1.0, 0.0, true), sphere(f, "b.ply", 3000, -1.0, 0.0, true));
    let points = f.join("points.ply");
    let options = ["--grid", "32", "--pose-a", "-0.25,0,1,0,0,90", "--out-cloud", word(&points)];
    let report = report_of(
        f,
        [&a, &b],
        &[&options[..], &["--pose-b", "0.5 0 1 0 0.6 0 0.8", "--volumes"]].concat(),
    );
    let turned = Pose::turned([0.0, 0.0, 1.0], 90f64.to_radians(), [0.0; 3], [-0.25, 0.0, 1.0]);
    // The quaternion turns by 2 acos(0.8) around y, from z to x.
    let (sin, cos) = (2.0 * 0.6 * 0.8, 0.8 * 0.8 - 0.6 * 0.6);
    let rotation = [[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]];
    let poses = [turned, Pose { rotation, translation: [0.5, 0.0, 1.0] }];
    for (cloud, pose) in ["a", "b"].into_iter().zip(&poses) {
        let told = &report[cloud]["pose"];
        for row in 0..3 {
            assert_eq!(told["translation"][row], pose.translation[row]);
            for column in 0..3 {
                let off =
                    told["rotation"][row][column].as_f64().unwrap() - pose.rotation[row][column];
                assert!(off.abs() < 1e-12, "{told}");
            }
        }
    }
    // Two unit spheres with centres 0.75 apart.
    let d = 0.75f64;
    let lens = std::f64::consts::PI * (2.0 - d).powi(2) * (d * d + 4.0 * d) / (12.0 * d);
    let found = report["volumes"]["intersection"].as_f64().unwrap();
    assert!((found / lens - 1.0).abs() < 0.05, "{found}, not {lens}");

    let number = |value: &Value| value.as_f64().unwrap();
    let origin = [0, 1, 2].map(|axis| number(&report["origin"][axis]));
    let grid = Grid::new(origin, number(&report["voxel_size"]), 32).unwrap();
    let clouds = [&a, &b].map(|path| koel_spatial::read_cloud(path).unwrap());
    let device = koel::Device::cpu_with_threads(2).unwrap();
    let [of_a, of_b] = &clouds;
    let mut frames = Intersector::new(&device, of_a, of_b, grid, Method::default()).unwrap();
    let told = |cloud: &str| -> Pose {
        let pose = &report[cloud]["pose"];
        let row = |of: &Value| [0, 1, 2].map(|i| number(&of[i]));
        Pose {
            rotation: [0, 1, 2].map(|i| row(&pose["rotation"][i])),
            translation: row(&pose["translation"]),
        }
    };
    frames.frame(&told("a"), &told("b")).unwrap();
    for (side, file) in [(Side::A, "r.a.bin"), (Side::B, "r.b.bin")] {
        let voxels = frames.voxels(side).unwrap();
        let expected = voxels.iter().map(|v| {
            let [i, j, k] = v.voxel.map(|c| c as i32);
            [i, j, k, v.label as i32]
        });
        assert!(rows(&f.join(file)).into_iter().eq(expected), "{file}");
    }
    // Points are written where the poses put them.
    let [min, max] = box_of(&points);
    for (found, expected) in min.iter().chain(&max).zip([-1.25, -1.0, 0.0, 1.5, 1.0, 2.0]) {
        assert!((found - expected).abs() < 0.05, "{min:?}, {max:?}");
    }
    // A pose that leaves all points in place changes nothing but names.
    let [plain, same] =
        [&[][..], &["--pose-a", "0,0,0", "--pose-b", "0,0,0,0,0,0,1"]].map(|pose| {
            let mut report = report_of(f, [&a, &b], &[&["--grid", "32"], pose].concat());
            report["timings_ms"] = Value::Null;
            report
        });
    assert_eq!(plain, same);
}

/// What a pose takes far away keeps its digits, as does what it brings back.
#[test]
fn poses_far_from_zero_keep_digits() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let mesh = f.join("mesh.ply");
    let plain = ["--grid", "32", "--boolean", "intersection", "--out-mesh", word(&mesh)];
    let (near, far) = (cube(f, "near.obj", 0.1), cube(f, "far.obj", 1e7 + 0.1));
    let away = ["--pose-a", "10000000,0,0", "--pose-b", "10000000.5,0,0"];
    let back = ["--pose-a", "-10000000,0,0", "--pose-b", "-9999999.5,0,0"];
    let mut found = vec![];
    for (file, poses, at) in
        [(&near, &["--pose-b", "0.5,0,0"][..], 0.1), (&near, &away, 1e7 + 0.1), (&far, &back, 0.1)]
    {
        let report = report_of(f, [file, file], &[&plain[..], poses].concat());
        let [min, max] = box_of(&mesh);
        let h = report["voxel_size"].as_f64().unwrap();
        assert!((min[0] - at - 0.5).abs() < h && (max[0] - at - 1.0).abs() < h, "{min:?}, {max:?}");
        found.push([report["volumes"]["intersection"].as_f64().unwrap(), h, min[0] - at]);
    }
    for other in &found[1..] {
        for (a, b) in found[0].iter().zip(other) {
            assert!((a - b).abs() < 5e-4, "{found:?}");
        }
    }
}

#[test]
fn a_file_of_poses_is_a_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let still = sphere(f, "still.ply", 3000, -1.0, 0.0, true);
    let path = f.join("path.csv");
    fs::write(&path, "# x, y, z\n1.5,0,0\n1.1,0,0\n0.7,0,0, 0,0,30\n").unwrap();
    let out = f.join("report-%02d.json");
    let files = [word(&still), word(&still), "--out", word(&out), "--poses-a", word(&path)];
    let output = run(&[&files[..], &["--grid", "48", "--volumes", "--json", "-"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let reports = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect::<Vec<Value>>();
    assert_eq!(reports.len(), 3);
    for (i, (report, d)) in reports.iter().zip([1.5f64, 1.1, 0.7]).enumerate() {
        let file = fs::read(f.join(format!("report-{i:02}.json"))).unwrap();
        assert_eq!(&serde_json::from_slice::<Value>(&file).unwrap(), report);
        assert_eq!(report["voxel_size"], reports[0]["voxel_size"], "one grid");
        assert_eq!(report["a"]["pose"]["translation"][0], d);
        assert_eq!(report["a"]["dropped"], 0);
        let lens = std::f64::consts::PI * (2.0 - d).powi(2) * (d * d + 4.0 * d) / (12.0 * d);
        let found = report["volumes"]["intersection"].as_f64().unwrap();
        assert!((found - lens).abs() < 0.05, "frame {i}: {found}, not {lens}");
    }
    // What a frame finds does not depend on those before, whose clouds it uses again.
    let labels = |i: usize| rows(&f.join(format!("report-{i:02}.a.bin")));
    let forward = [0, 1, 2].map(labels);
    fs::write(&path, "0.7,0,0, 0,0,30\n1.1,0,0\n1.5,0,0\n").unwrap();
    let output = run(&[&files[..], &["--grid", "48"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!([2, 1, 0].map(labels) == forward);

    // Poses beside files: as many of both; one pose is one frame.
    for i in 1..3 {
        sphere(f, &format!("walk-{i}.ply"), 500, -1.0, 0.0, true);
    }
    let walk = f.join("walk-%d.ply");
    let says = refused(&[word(&walk), word(&still), "--out", word(&out), "--poses-b", word(&path)]);
    assert!(says.contains("path.csv has 3 poses for 2 frames: expected as many"), "{says}");
    let plain = f.join("plain.json");
    let to_plain = [word(&still), word(&still), "--out", word(&plain), "--poses-b", word(&path)];
    let says = refused(&to_plain);
    assert!(says.contains("--out: expected a pattern such as frame-%04d.json"), "{says}");
    let over = [word(&still), word(&still), "--out", word(&out), "--poses-b", word(&path)];
    let says = refused(&[&over[..], &["--json", word(&path)]].concat());
    assert!(says.contains("an output must not replace an input"), "{says}");
    fs::write(&path, "0 0 0\n0 0\n").unwrap();
    let says = refused(&over);
    assert!(says.contains("path.csv: line 2: 2 numbers, expected 3 (a translation)"), "{says}");
    fs::write(&path, "0 0 0.5\n").unwrap();
    let output = run(&[&to_plain[..], &["--grid", "16"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("B: turned by 0.000 degrees, moved by 0, 0, 0.5\n"));
}

/// A sequence is labelled in one grid, and a frame of it like the files alone.
#[test]
fn sequences_are_labelled_frame_by_frame() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    let still = sphere(f, "still.ply", 3000, -1.0, 0.0, true);
    fs::create_dir(f.join("walk")).unwrap();
    // More and fewer points from frame to frame.
    for (i, n) in [3000, 3000, 2500, 4500].into_iter().enumerate() {
        let name = format!("walk/frame-{:03}.ply", i + 7);
        sphere(f, &name, n, -1.0, 1.5 - 0.4 * i as f64, true);
    }
    let pattern = f.join("walk/frame-%03d.ply");
    let out = f.join("report-%03d.json");
    let cloud = f.join("labels-%03d.ply");
    let output = run(&[
        word(&pattern),
        word(&still),
        "--grid",
        "48",
        "--out",
        word(&out),
        "--out-cloud",
        word(&cloud),
        "--volumes",
        "--json",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let reports = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect::<Vec<Value>>();
    assert_eq!(reports.len(), 4);
    let mut both = vec![];
    for (i, report) in reports.iter().enumerate() {
        let number = i + 7;
        assert_eq!(report["voxel_size"], reports[0]["voxel_size"], "one grid");
        let file = fs::read(f.join(format!("report-{number:03}.json"))).unwrap();
        assert_eq!(&serde_json::from_slice::<Value>(&file).unwrap(), report);
        let labels = rows(&f.join(format!("report-{number:03}.a.bin")));
        let counts = &report["a"]["counts"];
        let inside = labels.iter().filter(|row| row[3] == 2).count();
        assert_eq!(counts["inside"], inside);
        assert!(f.join(format!("labels-{number:03}.ply")).exists());
        both.push(report["volumes"]["intersection"].as_f64().unwrap());
        // A lens of two unit spheres at this distance.
        let d = 1.5 - 0.4 * i as f64;
        let lens = std::f64::consts::PI * (2.0 - d).powi(2) * (d * d + 4.0 * d) / (12.0 * d);
        assert!((both[i] - lens).abs() < 0.05, "frame {number}: {}, not {lens}", both[i]);
    }
    assert!(both.is_sorted());

    // Two sequences, one of them a folder; lines for people; a file for the lines of JSON.
    let folder_of_frames = f.join("walk");
    let json = f.join("lines.json");
    let output = run(&[
        word(&folder_of_frames),
        word(&pattern),
        "--grid",
        "16",
        "--out",
        word(&out),
        "--json",
        word(&json),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 4, "{}", text(&output.stdout));
    assert_eq!(text(&fs::read(&json).unwrap()).lines().count(), 4);
}
#[test]
fn sequences_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let f = folder.path();
    for name in ["a-1.ply", "a-2.ply", "b-1.ply"] {
        sphere(f, name, 500, -1.0, 0.0, true);
    }
    let [a, b, none] = ["a-%d.ply", "b-%d.ply", "c-%d.ply"].map(|name| f.join(name));
    let (one, out) = (f.join("b-1.ply"), f.join("r-%d.json"));
    let (plain, over) = (f.join("r.json"), f.join("a-%d.ply"));
    let says = refused(&[word(&a), word(&b), "--out", word(&out)]);
    assert!(says.contains("for 2 frames") && says.contains("for 1: expected as many"), "{says}");
    let says = refused(&[word(&none), word(&one), "--out", word(&out)]);
    assert!(says.contains("no file matches this pattern"), "{says}");
    let says = refused(&[word(&a), word(&one), "--out", word(&plain)]);
    assert!(says.contains("--out: expected a pattern such as frame-%04d.json"), "{says}");
    let says = refused(&[word(&a), word(&one), "--out", word(&out), "--out-cloud", word(&plain)]);
    assert!(says.contains("--out-cloud: expected a pattern such as frame-%04d.ply"), "{says}");
    let says = refused(&[word(&a), word(&one), "--out", word(&out), "--out-cloud", word(&over)]);
    assert!(says.contains("an output must not replace an input"), "{says}");
    assert_eq!(names(f), ["a-1.ply", "a-2.ply", "b-1.ply"]);
}
