//! Files made to exhaust memory or time: bombs, deep nesting, absurd counts. Each is refused with
//! status 2 and one line, by a process whose memory and processor time are limited.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Memory of a process, in KiB: what the program takes without any file, mostly for stacks of
/// threads, and a GiB.
const MEMORY: u32 = 3 << 20;
/// Processor time, in seconds.
const TIME: u32 = 120;

/// Expects status 2 and one line on standard error that contains a text.
#[track_caller]
fn refused(folder: &Path, arguments: &[&str], says: &str) {
    let limits = format!("ulimit -v {MEMORY}; ulimit -t {TIME}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limits, env!("CARGO_BIN_EXE_koel"), "--device", "cpu", "--threads", "2"]);
    let output = command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    assert!(error.contains(says), "{arguments:?}: {error}");
}

#[test]
fn hostile_scans_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("good.obj"), "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\n").unwrap();
    let try_file = |name: &str, bytes: &[u8], says: &str| {
        fs::write(folder.join(name), bytes).unwrap();
        refused(folder, &["intersect", name, "good.obj", "--out", "report.json"], says);
        assert!(!folder.join("report.json").exists());
    };
    let ply = |encoding: &str, vertices: &str, more: &str| {
        format!(
            "ply\nformat {encoding} 1.0\nelement vertex {vertices}\nproperty float x\nproperty \
             float y\nproperty float z\n{more}end_header\n"
        )
    };
    try_file("a.ply", ply("ascii", "4294967295", "").as_bytes(), "truncated");
    try_file("b.ply", ply("ascii", "18446744073709551615", "").as_bytes(), "expected at most");
    let list = "property list uint float w\n";
    let long = [ply("binary_little_endian", "1", list).as_bytes(), &[0; 12], &[0xFF; 4]].concat();
    try_file("c.ply", &long, "truncated");
    let nothing = "element nothing 18446744073709551615\nproperty list uchar int a\n";
    let text = ply("binary_little_endian", "1", nothing);
    try_file("d.ply", &[text.as_bytes(), &[0; 12]].concat(), "truncated");
    let off = "OFF\n3 4294967295 0\n0 0 0\n1 0 0\n0 1 0\n4294967295 0 1 2\n";
    try_file("a.off", off.as_bytes(), "values, expected 4294967296");
    try_file("a.xyz", b"4294967295\n1 2 3\n", "truncated");
    let pcd = "FIELDS x y z\nSIZE 8 8 8\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 4294967295\nHEIGHT 1\n";
    try_file("a.pcd", format!("{pcd}DATA binary_compressed\n").as_bytes(), "truncated");
    let packed = [&[8, 0, 0, 0, 0xE8, 0xFF, 0xFF, 0xFF][..], &[0xFF; 8]].concat();
    let pcd = [pcd.as_bytes(), b"DATA binary_compressed\n", &packed].concat();
    try_file("b.pcd", &pcd, "uncompressed size is");
    let mut stl = vec![0; 84];
    stl[80..].fill(0xFF);
    try_file("a.stl", &stl, "expected at most");
    let mut las = vec![0; 227];
    las[..4].copy_from_slice(b"LASF");
    las[24..26].copy_from_slice(&[1, 2]);
    las[94..98].copy_from_slice(&[227, 0, 227, 0]);
    las[105] = 20;
    las[107..111].fill(0xFF);
    las[131..155].copy_from_slice(&[1.0f64; 3].map(f64::to_le_bytes).concat());
    try_file("a.las", &las, "truncated");
    las[104] = 0x80;
    try_file("a.laz", &las, "number of points is 4294967295");
    try_file("a.e57", &[&b"ASTM-E57"[..], &[0xFF; 40]].concat(), "the XML: ");
}

#[test]
fn hostile_gltf_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("good.obj"), "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\n").unwrap();
    let try_text = |text: &str, says: &str| {
        fs::write(folder.join("a.gltf"), text).unwrap();
        refused(folder, &["intersect", "a.gltf", "good.obj", "--out", "report.json"], says);
    };
    let try_json = |json: Value, says: &str| try_text(&json.to_string(), says);
    try_text(&"[".repeat(1 << 20), "the JSON: ");
    let deep = format!("{{\"extras\":{}", "{\"a\":".repeat(1 << 18));
    try_text(&deep, "the JSON: ");
    let asset = json!({"version": "2.0"});
    let loops = json!([{"children": [1]}, {"children": [0]}]);
    try_json(json!({"asset": asset, "nodes": loops}), "is below itself");
    // Nodes in a chain, and a million nodes that show nothing.
    let chain = (0..100_000).map(|i| json!({"children": [i + 1]})).chain([json!({})]);
    let chain = chain.collect::<Vec<Value>>();
    try_json(json!({"asset": asset, "nodes": chain}), "no triangles");
    let zeros = |count: u64| {
        json!({
            "asset": asset,
            "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
            "accessors": [{
                "componentType": 5126, "count": count, "type": "VEC3",
                "sparse": {
                    "count": 1u64 << 60, "indices": {"bufferView": 0, "componentType": 5125},
                    "values": {"bufferView": 0},
                },
            }],
            "bufferViews": [{"buffer": 0, "byteLength": 4}],
            "buffers": [{"byteLength": 4, "uri": "data:;base64,AAAAAA=="}],
        })
    };
    try_json(zeros(1 << 50), "expected at most 67108864");
    try_json(zeros(1 << 20), "elements of 4 bytes");
    let mut huge = zeros(3);
    huge["buffers"][0]["byteLength"] = json!(u64::MAX);
    try_json(huge, "elements of 4 bytes");
}

/// A PNG with this header and image data.
fn png(width: u32, height: u32, chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let chunk = |kind: &[u8], content: &[u8]| {
        let all = [kind, content].concat();
        let crc =
            !all.iter().fold(!0u32, |crc, &b| {
                (0..8).fold(crc ^ u32::from(b), |c, _| {
                    if c & 1 == 1 { c >> 1 ^ 0xEDB8_8320 } else { c >> 1 }
                })
            });
        [&(content.len() as u32).to_be_bytes()[..], &all, &crc.to_be_bytes()].concat()
    };
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
    let rest = chunks.iter().flat_map(|(kind, content)| chunk(*kind, content));
    let start = [&b"\x89PNG\r\n\x1a\n"[..], &chunk(b"IHDR", &header)].concat();
    start.into_iter().chain(rest).chain(chunk(b"IEND", b"")).collect()
}

#[test]
fn hostile_pictures_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let grey = image::GrayImage::from_fn(64, 64, |x, y| image::Luma([((7 * x) ^ (5 * y)) as u8]));
    grey.save(folder.join("good.png")).unwrap();
    let try_file = |name: &str, bytes: &[u8], says: &str| {
        fs::write(folder.join(name), bytes).unwrap();
        refused(folder, &["match", name, "good.png"], says);
        refused(folder, &["match", "good.png", name], says);
    };
    try_file("a.png", &png(u32::MAX >> 1, u32::MAX >> 1, &[]), "a.png: ");
    try_file("b.png", &png(60_000, 60_000, &[(b"IDAT", &[0x78, 1])]), "declares 60000 x 60000");
    try_file("c.png", &png(16_000, 16_000, &[(b"IDAT", &[0x78, 1, 3, 0])]), "c.png: ");
    let gif = [&b"GIF89a\xFF\xFF\xFF\xFF\0\0\0"[..], b"\x2C\0\0\0\0\xFF\xFF\xFF\xFF\0\x08\0;"];
    try_file("a.gif", &gif.concat(), "declares 65535 x 65535");
    for (name, start, width) in [("a.tif", &b"II*\0"[..], 4), ("b.tif", b"II\x2b\0\x08\0\0\0", 8)] {
        let word = |n: u64| n.to_le_bytes()[..width].to_vec();
        let mut bytes = [start, &word(start.len() as u64 + width as u64)].concat();
        bytes.extend(if width == 4 { vec![1, 0] } else { word(1) });
        bytes.extend([0, 1, 3, 0]);
        bytes.extend([word(0x7FFF_FFFF), word(0), vec![0; 64]].concat());
        let says = if width == 4 { "tag 256 has 2147483647 values" } else { "not an image" };
        try_file(name, &bytes, says);
    }
    let uses = (0..30)
        .map(|i| format!("<g id=\"{}\"><use href=\"#{i}\"/><use href=\"#{i}\"/></g>", i + 1));
    let svg =
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\">{}</svg>", uses.collect::<String>());
    try_file("a.svg", svg.as_bytes(), "not an image");
    let entities =
        "<!DOCTYPE svg [<!ENTITY a \"aaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><svg>&b;</svg>";
    try_file("b.svg", entities.as_bytes(), "not an image");
    try_file("a.pgm", b"P5 4294967295 4294967295 255\n", "a.pgm: ");
    let mut bmp = b"BM".to_vec();
    bmp.extend([0, 54, 40u32].iter().flat_map(|n| n.to_le_bytes()).chain([0; 4]));
    bmp.extend([0x7FFF_FFFFu32, 0x7FFF_FFFF].iter().flat_map(|n| n.to_le_bytes()));
    bmp.extend([1, 0, 24, 0].iter().chain(&[0; 24]));
    try_file("a.bmp", &bmp, "a.bmp: ");
}
