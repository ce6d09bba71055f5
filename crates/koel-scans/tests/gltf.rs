//! glTF: deformed positions against closed forms, another crate as an oracle, and errors for every
//! fault. Files are made here.

use koel_scans::{DeformingMesh, Format, Scan, parse_gltf, read};
use koel_testing::gltf_scenes::{BEND, Builder, bar, bending_bar, bent};
use serde_json::{Value, json};
use std::fs;

fn close(found: &[[f32; 3]], expected: impl IntoIterator<Item = [f64; 3]>, origin: [f64; 3]) {
    let expected = expected.into_iter().collect::<Vec<_>>();
    assert_eq!(found.len(), expected.len());
    for (i, (p, e)) in found.iter().zip(&expected).enumerate() {
        for a in 0..3 {
            let off = (f64::from(p[a]) + origin[a] - e[a]).abs();
            assert!(off < 2e-6, "vertex {i}, axis {a}: {p:?}, expected {e:?}");
        }
    }
}
fn wide(p: &[f32; 3]) -> [f64; 3] {
    p.map(f64::from)
}
const TRIANGLE: [f32; 9] = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0];
/// A document with one triangle and no indices, shown by node 0.
fn triangle() -> Builder {
    let mut b = Builder::new();
    let place = b.floats("VEC3", &TRIANGLE);
    b.push("meshes", json!({"primitives": [{"attributes": {"POSITION": place}}]}));
    b.push("nodes", json!({"mesh": 0}));
    b
}
fn fault(bytes: &[u8]) -> String {
    parse_gltf(bytes).unwrap_err().to_string()
}
fn notes(scan: &Scan) -> String {
    scan.report.notes.iter().map(|note| format!("{note}\n")).collect()
}

#[test]
fn a_skinned_and_morphed_bar_is_where_its_closed_form_is() {
    for at in [[0.0; 3], [1.5, -2.0, 0.25], [3e6 + 0.1, 0.0, -5e6]] {
        let (corners, triangles) = bar(17);
        let mesh = DeformingMesh::parse(&bending_bar(17, at).glb()).unwrap();
        assert_eq!(mesh.triangles(), triangles);
        let origin = mesh.report().origin;
        assert_eq!(origin != [0.0; 3], at[0] > 1e6);
        close(&mesh.positions(), corners.iter().map(|p| bent(wide(p), at, 0.0)), origin);
        let animations = mesh.animations().collect::<Vec<_>>();
        assert_eq!((animations.len(), animations[0].name), (1, Some("bend")));
        assert_eq!(animations[0].seconds, BEND);
        for seconds in [-1.0, 0.0, 0.3, 1.0, 1.7, BEND, 100.0] {
            let expected = corners.iter().map(|p| bent(wide(p), at, seconds));
            close(&mesh.positions_at(0, seconds), expected, origin);
        }
        assert!(!mesh.turns_inside_out(0, 1.0));
    }
}

#[test]
fn all_three_forms_of_a_file_are_read_alike() {
    let folder = std::env::temp_dir().join(format!("koel-gltf-{}", std::process::id()));
    fs::create_dir_all(folder.join("data")).unwrap();
    let b = bending_bar(5, [0.0; 3]);
    fs::write(folder.join("data/a b.bin"), &b.binary).unwrap();
    let files =
        [("a.glb", b.glb()), ("b.gltf", b.embedded()), ("c.gltf", b.beside("data/a%20b.bin"))];
    let scans = files.map(|(name, bytes)| {
        fs::write(folder.join(name), bytes).unwrap();
        read(folder.join(name)).unwrap()
    });
    for scan in &scans {
        assert_eq!(scan.report.format, Format::Gltf);
        assert_eq!((&scan.points, &scan.triangles), (&scans[0].points, &scans[0].triangles));
    }
    assert_eq!(scans[2].report.files, [folder.join("data/a b.bin")]);
    assert!(scans[0].report.files.is_empty());
    for (uri, says) in [
        ("none.bin", "none.bin cannot be read"),
        ("../up.bin", "is not a file in the folder of the document"),
        ("/etc/passwd", "is not a file in the folder"),
        ("http://example.org/a.bin", "is not a file in the folder"),
        ("%FF.bin", "invalid utf-8"),
    ] {
        fs::write(folder.join("d.gltf"), b.beside(uri)).unwrap();
        let error = read(folder.join("d.gltf")).unwrap_err().to_string();
        assert!(error.contains("d.gltf: ") && error.contains("buffers[0]: "), "{error}");
        assert!(error.contains(says), "{uri}: {error}");
    }
    fs::write(folder.join("data/a b.bin"), &b.binary[1..]).unwrap();
    let error = read(folder.join("c.gltf")).unwrap_err().to_string();
    let n = b.binary.len();
    assert!(error.contains(&format!("has {} bytes, expected byteLength = {n}", n - 1)), "{error}");
    fs::remove_dir_all(&folder).unwrap();
    assert!(fault(&b.beside("a.bin")).contains("\"a.bin\" is another file, expected data in this"));
}

/// Walks the nodes with the crate `gltf`, whose matrices and readers are its own.
fn oracle(bytes: &[u8]) -> (Vec<[f64; 3]>, usize) {
    let gltf::Gltf { document, blob } = gltf::Gltf::from_slice(bytes).unwrap();
    let (mut positions, mut triangles) = (vec![], 0);
    let mut stack: Vec<(gltf::Node<'_>, [[f32; 4]; 4])> = vec![];
    let identity = std::array::from_fn(|i| std::array::from_fn(|j| f32::from(u8::from(i == j))));
    stack.extend(document.default_scene().unwrap().nodes().map(|node| (node, identity)));
    let mut found = vec![];
    while let Some((node, above)) = stack.pop() {
        let own = node.transform().matrix();
        // Columns.
        let world: [[f32; 4]; 4] = std::array::from_fn(|c| {
            std::array::from_fn(|r| (0..4).map(|k| above[k][r] * own[c][k]).sum())
        });
        stack.extend(node.children().map(|child| (child, world)));
        found.push((node.index(), node, world));
    }
    found.sort_by_key(|(index, ..)| *index);
    for (_, node, world) in found {
        for primitive in node.mesh().iter().flat_map(|mesh| mesh.primitives()) {
            let reader = primitive.reader(|_| blob.as_deref());
            let before = positions.len();
            positions.extend(reader.read_positions().unwrap().map(|p| {
                let p = [p[0], p[1], p[2], 1.0];
                [0, 1, 2].map(|r| (0..4).map(|c| f64::from(world[c][r] * p[c])).sum())
            }));
            let count = positions.len() - before;
            triangles += reader.read_indices().map_or(count, |all| all.into_u32().count()) / 3;
        }
    }
    (positions, triangles)
}

#[test]
fn nodes_and_sparse_positions_are_read_as_another_crate_does() {
    let mut b = triangle();
    // Two of three positions replaced.
    let indices = b.view(&[0, 2]);
    let values = b.view(bytemuck::cast_slice(&[5.0f32, 6.0, 7.0, -1.0, -2.0, -3.0]));
    let view = b.json["accessors"][0]["bufferView"].clone();
    let sparse = b.push(
        "accessors",
        json!({
            "bufferView": view, "componentType": 5126, "count": 3, "type": "VEC3",
            "min": [-1, -2, -3], "max": [5, 6, 7],
            "sparse": {"count": 2, "indices": {"bufferView": indices, "componentType": 5121},
                       "values": {"bufferView": values}}
        }),
    );
    let order = b.integers("SCALAR", 32, &[2, 1, 0]);
    b.push(
        "meshes",
        json!({"primitives": [
            {"attributes": {"POSITION": sparse}, "indices": order}, {"attributes": {"POSITION": 0}}
        ]}),
    );
    b.json["nodes"] = json!([
        {"children": [1, 3], "rotation": [0.5, -0.5, 0.5, 0.5], "scale": [1, 2, 3]},
        {"children": [2], "translation": [0.5, 10, -3], "mesh": 0},
        {"matrix": [0, 2, 0, 0, -1, 0, 0, 0, 0, 0, 3, 0, 4, 5, 6, 1], "mesh": 1},
        {"scale": [-1, 1, 1], "mesh": 1},
        {"mesh": 0, "translation": [99, 99, 99]}
    ]);
    let scan = parse_gltf(&b.glb()).unwrap();
    let (positions, triangles) = oracle(&b.glb());
    close(&scan.points.positions, positions, [0.0; 3]);
    assert_eq!(scan.triangles.len(), triangles);
    // A mirrored mesh is turned, others are not.
    assert_eq!(scan.triangles[..3], [[0, 1, 2], [5, 4, 3], [6, 7, 8]]);
    assert_eq!(scan.triangles[3..], [[11, 9, 10], [12, 14, 13]]);
    assert!(notes(&scan).contains("1 nodes with a mesh are not in the scene"), "{}", notes(&scan));
}

#[test]
fn strips_fans_and_small_integers_are_triangles() {
    let mut b = Builder::new();
    let corners = [0, 0, 0, 0, 127, 0, 0, 0, 0, 127, 0, 0, 127, 127, 0, 0, 0x81, 0, 0, 0];
    let view = b.view(&corners);
    b.json["bufferViews"][view]["byteStride"] = json!(4);
    b.push("accessors", json!({
        "bufferView": view, "componentType": 5120, "count": 5, "type": "VEC3", "normalized": true
    }));
    let order = b.integers("SCALAR", 8, &[0, 1, 2, 3, 3, 4]);
    for (mode, expected) in [
        (5, vec![[0, 1, 2], [2, 1, 3]]),
        (6, vec![[0, 1, 2], [0, 2, 3], [0, 3, 4]]),
        (4, vec![[0, 1, 2], [3, 3, 4]]),
    ] {
        b.json["meshes"] = json!([{"primitives": [
            {"attributes": {"POSITION": 0}, "indices": order, "mode": mode},
            {"attributes": {"POSITION": 0}, "mode": 0}, {"attributes": {"POSITION": 0}, "mode": 3}
        ]}]);
        b.json["nodes"] = json!([{"mesh": 0}]);
        let scan = parse_gltf(&b.glb()).unwrap();
        assert_eq!(scan.triangles, expected, "{mode}");
        // A vertex of no triangle is dropped.
        let used = expected.iter().flatten().max().map_or(0, |&last| last as usize + 1);
        assert_eq!(scan.points.positions[3..], [[1.0, 1.0, 0.0], [-1.0, 0.0, 0.0]][..used - 3]);
        assert!(notes(&scan).contains("2 primitives of points or lines were not read"));
    }
    b.json["meshes"][0]["primitives"][0]["mode"] = json!(1);
    assert!(fault(&b.glb()).contains("the scene: no triangles; 1 meshes, 1 nodes, 3 primitives"));
}

#[test]
fn keys_are_interpolated_in_every_way() {
    let mut b = triangle();
    let (times, x) = ([1.0f32, 2.0, 4.0], [1.0f32, 0.0, 0.0, 5.0, 0.0, 0.0, 3.0, 0.0, 0.0]);
    b.animation("step", &[(0, "translation", "STEP", &times, &x)]);
    b.animation("line", &[(0, "translation", "LINEAR", &times, &x)]);
    // Tangents in, values, tangents out of two keys, one apart.
    let spline = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 0.0, -4.0, 0.0, 0.0, 5.0, 0.0, 0.0];
    let spline = [&spline[..], &[0.0; 3]].concat();
    b.animation("spline", &[(0, "translation", "CUBICSPLINE", &[1.0, 3.0], &spline)]);
    // The second quaternion is negated: the short way is a third of a turn around x.
    let (sin, cos) = (60f32.to_radians().sin(), 60f32.to_radians().cos());
    b.animation(
        "turn",
        &[
            (0, "rotation", "LINEAR", &[0.0, 1.0], &[0.0, 0.0, 0.0, 2.0, -sin, 0.0, 0.0, -cos]),
            (0, "scale", "LINEAR", &[0.0, 1.0], &[1.0, 1.0, 1.0, 1.0, -1.0, 1.0]),
        ],
    );
    let mesh = DeformingMesh::parse(&b.embedded()).unwrap();
    let x_at = |clip: usize, seconds: f64| mesh.positions_at(clip, seconds)[0][0];
    for (clip, seconds, x) in [
        (0, 0.0, 1.0),
        (0, 1.9, 1.0),
        (0, 2.0, 5.0),
        (0, 3.9, 5.0),
        (0, 4.0, 3.0),
        (0, 9.0, 3.0),
        (1, 0.5, 1.0),
        (1, 1.25, 2.0),
        (1, 3.0, 4.0),
        (1, 7.0, 3.0),
    ] {
        assert!((x_at(clip, seconds) - x).abs() < 1e-6, "{clip} {seconds}");
    }
    // The same curve as a Bezier spline, whose inner points are a third of the tangents away.
    for u in [0.0, 0.25, 0.5, 0.9, 1.0] {
        let [p, q, r, s] = [1.0, 1.0 + 2.0 * 2.0 / 3.0, 5.0 + 4.0 * 2.0 / 3.0, 5.0];
        let v = 1.0 - u;
        let bezier = v * v * v * p + 3.0 * v * v * u * q + 3.0 * v * u * u * r + u * u * u * s;
        assert!((f64::from(x_at(2, 1.0 + 2.0 * u)) - bezier).abs() < 1e-6, "{u}");
    }
    // The third corner is at y = 2, times the scale, turned by 120 degrees u around x.
    for u in [0.0, 0.25, 0.75] {
        let y = 2.0 * (1.0 - 2.0 * u);
        let (sin, cos) = (u * 120f64.to_radians()).sin_cos();
        close(&mesh.positions_at(3, u)[2..], [[0.0, y * cos, y * sin]], [0.0; 3]);
        assert_eq!(mesh.turns_inside_out(3, u), u > 0.5);
    }
}

#[test]
fn faults_are_named() {
    let bar = || bending_bar(3, [0.0; 3]);
    let edit = |mut b: Builder, path: &str, value: Value| {
        let (parent, name) = path.rsplit_once('/').unwrap();
        match b.json.pointer_mut(parent).unwrap() {
            Value::Array(all) => all[name.parse::<usize>().unwrap()] = value,
            parent => parent[name] = value,
        }
        fault(&b.glb())
    };
    for (path, value, says) in [
        ("/asset/version", json!("1.0"), "asset: version \"1.0\", expected \"2.0\""),
        ("/scene", json!(3), "scene: scenes[3] does not exist, there are 1"),
        ("/scenes/0/nodes", json!([0, 17]), "scenes[0]: nodes[17] does not exist, there are 3"),
        ("/nodes/2", json!({"children": [1]}), "nodes[1]: is below itself"),
        ("/nodes/0/mesh", json!(9), "nodes[0]: meshes[9] does not exist"),
        ("/nodes/0/skin", json!(1), "nodes[0]: skins[1] does not exist, there are 1"),
        ("/nodes/1", json!({"rotation": [0, 0, 0, 0]}), "nodes[1]: rotation is a quaternion of"),
        (
            "/nodes/1",
            json!({"matrix": [1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]}),
            "nodes[1]: the last row of the matrix is [1.0, 0.0, 0.0, 1.0], expected",
        ),
        ("/skins/0/joints", json!([1]), "skins[0].inverseBindMatrices, accessors[5]: count is 2"),
        ("/skins/0/joints", json!([1, 9]), "skins[0]: nodes[9] does not exist"),
        ("/meshes/0/primitives/0/mode", json!(7), "primitives[0]: mode is 7, expected 0 to 6"),
        (
            "/meshes/0/primitives/0/attributes",
            json!({}),
            "0 primitives of points or lines, 1 primitives without POSITION",
        ),
        (
            "/meshes/0/primitives/0/attributes",
            json!({"POSITION": 4}),
            "nodes[0], meshes[0].primitives[0]: has a skin but no JOINTS_0",
        ),
        (
            "/meshes/0/primitives/0/attributes",
            json!({"POSITION": 4, "JOINTS_0": 2}),
            "expected both JOINTS_0 and WEIGHTS_0",
        ),
        (
            "/meshes/0/primitives/0/attributes/POSITION",
            json!(44),
            "attributes.POSITION: accessors[44] does not exist, there are 10",
        ),
        (
            "/meshes/0/primitives/0/attributes/POSITION",
            json!(3),
            "attributes.POSITION, accessors[3]: type is \"SCALAR\", expected \"VEC3\"",
        ),
        ("/meshes/0/primitives/0/indices", json!(0), "indices, accessors[0]: type is \"VEC3\""),
        ("/accessors/3/count", json!(59), "59 corners of triangles, expected a multiple of 3"),
        ("/accessors/3/componentType", json!(5126), "componentType is 5126, expected 5121, 5123"),
        ("/accessors/3/componentType", json!(77), "componentType is 77, expected 5120 to 5126"),
        (
            "/accessors/3/byteOffset",
            json!(2),
            "bufferViews[3]: has 120 bytes, but 60 elements of 2",
        ),
        (
            "/accessors/0/count",
            json!(11),
            "targets[0].POSITION, accessors[0]: count is 11, expected 12",
        ),
        ("/accessors/4/count", json!(u64::MAX), "expected at most 67108864"),
        ("/accessors/4/bufferView", Value::Null, "accessors[4]: has no bufferView"),
        ("/accessors/4/bufferView", json!(99), "bufferViews[99] does not exist"),
        ("/bufferViews/4/buffer", json!(1), "buffers[1]: does not exist, there are 1 buffers"),
        (
            "/bufferViews/4/byteLength",
            json!(9e15 as u64),
            "bufferViews[4]: has 9000000000000000 bytes",
        ),
        ("/animations/0/channels/0/target/node", json!(9), "channels[0]: nodes[9] does not exist"),
        ("/animations/0/channels/0/sampler", json!(9), "channels[0]: samplers[9] does not exist"),
        (
            "/animations/0/channels/0/target/path",
            json!("scale"),
            "channels[0], output, accessors[7]: type is \"VEC4\", expected \"VEC3\"",
        ),
        (
            "/animations/0/samplers/0/interpolation",
            json!("CUBIC"),
            "interpolation \"CUBIC\", expected",
        ),
        ("/animations/0/samplers/1/interpolation", json!("LINEAR"), "count is 6, expected 2"),
        ("/accessors/6/count", json!(0), "channels[0], input: no keys, expected at least one"),
    ] {
        let error = edit(bar(), path, value.clone());
        assert!(error.contains(says), "{path} = {value}: {error}");
    }
    let mut b = bar();
    b.json["extensionsRequired"] = json!(["KHR_materials_unlit", "KHR_draco_mesh_compression"]);
    let says = "extensionsRequired[1]: KHR_draco_mesh_compression is not supported";
    assert!(fault(&b.glb()).contains(says));
    let mut b = bar();
    let at = b.json["bufferViews"][4]["byteOffset"].as_u64().unwrap() as usize;
    b.binary[at + 12..at + 16].copy_from_slice(&f32::NAN.to_le_bytes());
    let says = "element 1, component 0 is NaN, expected a finite number";
    assert!(fault(&b.glb()).contains(says), "{}", fault(&b.glb()));
    let mut b = triangle();
    let order = b.integers("SCALAR", 8, &[0, 1, 3]);
    b.json["meshes"][0]["primitives"][0]["indices"] = json!(order);
    assert!(fault(&b.glb()).contains("corner 2: index 3, but there are 3 vertices"));
    // Few bytes that ask for billions of vertices.
    let mut b = bending_bar(3000, [0.0; 3]);
    let shows = json!({"mesh": 0, "skin": 0});
    b.json["nodes"].as_array_mut().unwrap().extend(std::iter::repeat_n(shows, 3000));
    b.json["scenes"][0]["nodes"] = (0..3003).filter(|&i| i != 2).collect();
    assert!(fault(&b.glb()).contains("expected at most 67108864"));
    let mut b = triangle();
    b.animation("back", &[(0, "translation", "LINEAR", &[1.0, 0.5], &[0.0; 6])]);
    assert!(fault(&b.glb()).contains("input: key 1: 0.5 s after 1 s, expected ascending"));
    let mut b = triangle();
    b.json["nodes"][0]["translation"] = json!([1e300, 0, 0]);
    assert!(fault(&b.glb()).contains("vertex 0: x is 1e300, expected a finite 32-bit number"));
}

#[test]
fn containers_and_json_are_checked() {
    let glb = triangle().glb();
    let with = |at: usize, bytes: &[u8]| {
        let mut all = glb.clone();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        fault(&all)
    };
    assert!(with(4, &[1]).contains("byte 4: version is 1, expected 2"));
    assert!(with(8, &[0; 4]).contains(" bytes after the last element"));
    assert!(with(8, &[255; 4]).contains("truncated: 4294967295 of element byte declared"));
    assert!(with(12, &[255; 4]).contains("truncated: 4294967295 of element chunk byte"));
    assert!(with(16, b"TEXT").contains("byte 16: chunk type is 1415071060, expected 1313821514"));
    assert!(with(20, b"x").contains("byte 20: the JSON: expected value at line 1 column 1"));
    assert!(fault(b"{\n\"asset\": 3}").contains("line 2: the JSON: invalid type: integer `3`"));
    assert!(fault(b"").contains("is empty"));
    let mut b = triangle();
    b.binary.clear();
    assert!(fault(&b.glb()).contains("of a buffer of 0 bytes"), "{}", fault(&b.glb()));
    assert!(fault(&b.beside("data:text/plain,abc")).contains("expected base64"));
    assert!(fault(&b.beside("data:;base64,a%")).contains("the data URI: "));
    let mut more = glb.clone();
    more.extend([4, 0, 0, 0, b'M', b'O', b'R', b'E', 1, 2, 3, 4]);
    let length = more.len() as u32;
    more[8..12].copy_from_slice(&length.to_le_bytes());
    assert!(notes(&parse_gltf(&more).unwrap()).contains("1 chunks of other kinds were not read"));
}

#[test]
fn what_is_not_kept_is_noted() {
    let mut b = triangle();
    let normals = b.floats("VEC3", &[0.0, 0.0, 1.0].repeat(3));
    b.json["meshes"][0]["primitives"][0]["attributes"]["NORMAL"] = json!(normals);
    b.json["meshes"][0]["primitives"][0]["attributes"]["_MINE"] = json!(normals);
    b.json["extensionsUsed"] = json!(["KHR_materials_unlit", "EXT_mesh_gpu_instancing"]);
    (b.json["materials"], b.json["cameras"]) = (json!([{}, {}]), json!([{}]));
    b.json.as_object_mut().unwrap().remove("scene");
    let scan = parse_gltf(&b.glb()).unwrap();
    for says in [
        "no default scene: the first of 1 was read",
        "attributes NORMAL, _MINE were not kept",
        "extensions EXT_mesh_gpu_instancing were ignored",
        "2 materials, 1 cameras were not read",
    ] {
        assert!(notes(&scan).contains(says), "{says}: {}", notes(&scan));
    }
    assert_eq!(scan.report.unit.as_deref(), Some("metre"));
    let mut b = bending_bar(3, [0.0; 3]);
    let weights = b.json["bufferViews"][1]["byteOffset"].as_u64().unwrap() as usize;
    b.binary[weights..weights + 16].fill(0);
    b.json["animations"][0]["channels"][0]["target"]["path"] = json!("pointer");
    let scan = parse_gltf(&b.glb()).unwrap();
    assert!(notes(&scan).contains("1 vertices of a skin have no weights"));
    assert!(notes(&scan).contains("1 channels of animations change no transform"));
}

#[test]
fn cut_and_damaged_files_never_panic() {
    let b = bending_bar(2, [0.0; 3]);
    for bytes in [b.glb(), b.embedded()] {
        (0..bytes.len()).for_each(|n| assert!(parse_gltf(&bytes[..n]).is_err(), "{n}"));
        for i in 0..bytes.len() {
            for change in [1, 0x10, 0x80] {
                let mut damaged = bytes.clone();
                damaged[i] ^= change;
                let _ = parse_gltf(&damaged);
            }
        }
    }
}

/// Accessors that are sparse and have no bufferView begin as zeros (3.6.2.3 of the specification).
#[test]
fn sparse_accessors_need_no_buffer_view() {
    let mut b = triangle();
    let indices = b.integers("SCALAR", 32, &[1, 2]);
    let values = b.floats("VEC3", &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let view = |b: &Builder, accessor: usize| b.json["accessors"][accessor]["bufferView"].clone();
    let sparse = json!({
        "count": 2,
        "indices": {"bufferView": view(&b, indices), "componentType": 5125},
        "values": {"bufferView": view(&b, values)},
    });
    let position = b.json["meshes"][0]["primitives"][0]["attributes"]["POSITION"].as_u64().unwrap();
    b.json["accessors"][position as usize] =
        json!({"componentType": 5126, "count": 3, "type": "VEC3", "sparse": sparse});
    let scan = parse_gltf(&b.glb()).unwrap();
    assert_eq!(scan.points.positions, [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
    // Any number of zeros takes a few words of a file.
    b.json["accessors"][position as usize]["count"] = json!(1u64 << 40);
    assert!(fault(&b.glb()).contains("expected at most 67108864"));
    b.json["accessors"][position as usize]["count"] = json!(3);
    b.json["accessors"][position as usize]["sparse"]["count"] = json!(u64::MAX);
    assert!(fault(&b.glb()).contains("elements of 4 bytes"));
}

#[test]
fn primitives_without_positions_and_vertices_of_no_triangle_are_noted() {
    let mut b = triangle();
    let far = b.floats("VEC3", &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1e6, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let order = b.integers("SCALAR", 8, &[0, 1, 3]);
    let primitives = json!([
        {"attributes": {"POSITION": far}, "indices": order},
        {"attributes": {"NORMAL": far}},
    ]);
    b.json["meshes"][0]["primitives"] = primitives;
    let scan = parse_gltf(&b.glb()).unwrap();
    assert_eq!(scan.points.positions.len(), 3);
    assert_eq!(scan.triangles, [[0, 1, 2]]);
    let notes = notes(&scan);
    assert!(notes.contains("1 primitives have no POSITION"), "{notes}");
    assert!(notes.contains("1 of 4 vertices belong to no triangle"), "{notes}");
}
