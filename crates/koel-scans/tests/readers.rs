//! Readers: round trips in every encoding, and errors for every fault of a file.

use std::fmt::Write as _;

use koel_scans::{ParseErrorKind, Place, Scan, parse_obj, parse_ply, read, read_cloud, read_mesh};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Encoding {
    Ascii,
    Little,
    Big,
}

const ENCODINGS: [Encoding; 3] = [Encoding::Ascii, Encoding::Little, Encoding::Big];

/// Layout of a PLY file, independent of its content.
#[derive(Clone, Copy, Debug)]
struct Layout {
    encoding: Encoding,
    double: bool,
    wide_lists: bool,
    crlf: bool,
    decorated: bool,
}

fn layouts() -> impl Strategy<Value = Layout> {
    let encoding = prop_oneof![Just(Encoding::Ascii), Just(Encoding::Little), Just(Encoding::Big)];
    (encoding, any::<[bool; 4]>()).prop_map(|(encoding, [double, wide_lists, crlf, decorated])| {
        Layout { encoding, double, wide_lists, crlf, decorated }
    })
}

/// Writes consecutive numbers of a PLY body.
struct Writer {
    out: Vec<u8>,
    encoding: Encoding,
    newline: &'static str,
}

impl Writer {
    fn number<const N: usize>(&mut self, text: impl std::fmt::Display, mut little: [u8; N]) {
        match self.encoding {
            Encoding::Ascii => self.out.extend(format!("{text} ").bytes()),
            Encoding::Little => self.out.extend(little),
            Encoding::Big => {
                little.reverse();
                self.out.extend(little);
            }
        }
    }

    fn float(&mut self, value: f32, double: bool) {
        if double {
            self.number(value, f64::from(value).to_le_bytes());
        } else {
            self.number(value, value.to_le_bytes());
        }
    }

    fn end(&mut self) {
        if matches!(self.encoding, Encoding::Ascii) {
            self.out.extend(self.newline.bytes());
        }
    }
}

fn write_ply(
    layout: Layout,
    positions: &[[f32; 3]],
    normals: Option<&[[f32; 3]]>,
    faces: &[Vec<u32>],
) -> Vec<u8> {
    let Layout { encoding, double, wide_lists, crlf, decorated } = layout;
    let float = if double { "double" } else { "float32" };
    let mut header = String::new();
    let format = match encoding {
        Encoding::Ascii => "ascii",
        Encoding::Little => "binary_little_endian",
        Encoding::Big => "binary_big_endian",
    };
    writeln!(header, "ply\nformat {format} 1.0\ncomment made in a test\nobj_info none").unwrap();
    if decorated {
        writeln!(header, "element camera 2\nproperty list uchar double poses\nproperty short id")
            .unwrap();
    }
    writeln!(header, "element vertex {}", positions.len()).unwrap();
    if decorated {
        writeln!(header, "property uchar red\nproperty list ushort char tags").unwrap();
    }
    // Not in the order x, y, z.
    writeln!(header, "property {float} z\nproperty {float} x").unwrap();
    if normals.is_some() {
        writeln!(header, "property float nx\nproperty float ny\nproperty float nz").unwrap();
    }
    writeln!(header, "property {float} y").unwrap();
    if !faces.is_empty() || decorated {
        let (list, name) = if wide_lists {
            ("uint int", "vertex_index")
        } else {
            ("uchar uint", "vertex_indices")
        };
        writeln!(header, "element face {}\nproperty list {list} {name}", faces.len()).unwrap();
        if decorated {
            writeln!(header, "property float quality\nelement edge 1\nproperty int vertex1")
                .unwrap();
        }
    }
    header += "end_header\n";
    let newline = if crlf { "\r\n" } else { "\n" };
    let mut w = Writer { out: header.replace('\n', newline).into_bytes(), encoding, newline };
    if decorated {
        for id in 0..2i16 {
            w.number(1, [1]);
            w.number(0.5, 0.5f64.to_le_bytes());
            w.number(id, id.to_le_bytes());
            w.end();
        }
    }
    for (i, p) in positions.iter().enumerate() {
        if decorated {
            w.number(7, [7]);
            w.number(2, 2u16.to_le_bytes());
            w.number(-1, (-1i8).to_le_bytes());
            w.number(5, 5i8.to_le_bytes());
        }
        w.float(p[2], double);
        w.float(p[0], double);
        if let Some(normals) = normals {
            normals[i].iter().for_each(|&n| w.float(n, false));
        }
        w.float(p[1], double);
        w.end();
    }
    for face in faces {
        let length = face.len() as u32;
        if wide_lists {
            w.number(length, length.to_le_bytes())
        } else {
            w.number(length, [length as u8])
        }
        face.iter().for_each(|&i| w.number(i, i.to_le_bytes()));
        if decorated {
            w.float(0.25, false);
        }
        w.end();
    }
    if decorated {
        w.number(3, 3i32.to_le_bytes());
        w.end();
    }
    w.out
}

/// Vertices, normals, polygons.
type Content = (Vec<[f32; 3]>, Option<Vec<[f32; 3]>>, Vec<Vec<u32>>);

fn finite() -> impl Strategy<Value = f32> {
    any::<f32>().prop_filter("finite", |f| f.is_finite())
}

fn contents() -> impl Strategy<Value = Content> {
    (1usize..20, any::<bool>()).prop_flat_map(|(count, with_normals)| {
        let vectors = || vec(proptest::array::uniform3(finite()), count);
        let normals =
            if with_normals { vectors().prop_map(Some).boxed() } else { Just(None).boxed() };
        // Vertices of no face would be dropped.
        let use_all = move |mut faces: Vec<Vec<u32>>| {
            if !faces.is_empty() {
                let unused = (0..count as u32).filter(|v| !faces.iter().flatten().any(|i| i == v));
                let more = unused.map(|v| vec![v; 3]).collect::<Vec<Vec<u32>>>();
                faces.extend(more);
            }
            faces
        };
        (vectors(), normals, vec(vec(0..count as u32, 3..7), 0..8).prop_map(use_all))
    })
}

/// Returns the positions in the coordinates of the file.
fn in_file(scan: &Scan) -> Vec<[f32; 3]> {
    let origin = scan.report.origin;
    let absolute = |p: &[f32; 3]| [0, 1, 2].map(|a| (origin[a] + f64::from(p[a])) as f32);
    scan.points.positions.iter().map(absolute).collect()
}

/// Returns whether triangles divide faces, in their order. What faces of more than three corners
/// become is tested where they are divided.
fn divide(triangles: &[[u32; 3]], faces: &[Vec<u32>]) -> bool {
    let mut rest = triangles;
    let whole = faces.iter().all(|face| {
        let Some((own, later)) = rest.split_at_checked(face.len() - 2) else { return false };
        rest = later;
        let of_face = own.iter().flatten().all(|corner| face.contains(corner));
        if face.len() == 3 { own[0] == face[..] } else { of_face }
    });
    whole && rest.is_empty()
}

/// Reads positions and faces with the crate `ply-rs-bw`.
fn oracle_ply(bytes: &[u8]) -> (Vec<[f64; 3]>, Vec<Vec<i64>>) {
    use ply_rs_bw::parser::Parser;
    use ply_rs_bw::ply::{DefaultElement, Property};
    let ply = Parser::<DefaultElement>::new().read_ply(&mut &bytes[..]).unwrap();
    let coordinate = |p: &Property| match *p {
        Property::Float(f) => f64::from(f),
        Property::Double(f) => f,
        ref other => panic!("{other:?}"),
    };
    let elements = |name: &str| ply.payload.get(name).map(|e| e.to_vec()).unwrap_or_default();
    let positions =
        elements("vertex").iter().map(|v| ["x", "y", "z"].map(|n| coordinate(&v[n]))).collect();
    let faces = elements("face").into_iter().map(|f| {
        match f.get("vertex_indices").or_else(|| f.get("vertex_index")).unwrap() {
            Property::ListUInt(list) => list.iter().map(|&i| i.into()).collect(),
            Property::ListInt(list) => list.iter().map(|&i| i.into()).collect(),
            other => panic!("{other:?}"),
        }
    });
    (positions, faces.collect())
}

proptest! {
    #[test]
    fn ply_round_trips(layout in layouts(), (positions, normals, faces) in contents()) {
        let bytes = write_ply(layout, &positions, normals.as_deref(), &faces);
        let scan = parse_ply(&bytes).unwrap();
        prop_assert_eq!(&in_file(&scan), &positions);
        prop_assert_eq!(&scan.points.normals, &normals);
        prop_assert!(divide(&scan.triangles, &faces));
    }

    #[test]
    fn ply_agrees_with_another_reader(
        layout in layouts(),
        (positions, normals, faces) in contents(),
    ) {
        let bytes =
            write_ply(Layout { crlf: false, ..layout }, &positions, normals.as_deref(), &faces);
        let (theirs, their_faces) = oracle_ply(&bytes);
        let ours = parse_ply(&bytes).unwrap();
        let as_f32: Vec<[f32; 3]> = theirs.iter().map(|p| p.map(|c| c as f32)).collect();
        prop_assert_eq!(in_file(&ours), as_f32);
        let their_faces: Vec<Vec<u32>> =
            their_faces.iter().map(|f| f.iter().map(|&i| i as u32).collect()).collect();
        prop_assert!(divide(&ours.triangles, &their_faces));
    }

    #[test]
    fn a_cut_ply_is_refused(
        layout in layouts(),
        (positions, normals, faces) in contents(),
        part in 0.0f64..1.0,
    ) {
        let bytes = write_ply(layout, &positions, normals.as_deref(), &faces);
        let mut end = (part * bytes.len() as f64) as usize;
        // In text, a cut in the last number leaves another number, and the last line end may be
        // missing.
        if matches!(layout.encoding, Encoding::Ascii) {
            end = bytes[..end].iter().rposition(|&b| b == b'\n').unwrap_or(0);
        }
        prop_assert!(parse_ply(&bytes[..end]).is_err());
    }

    #[test]
    fn obj_round_trips_and_agrees_with_another_reader(
        (positions, _, faces) in contents(), negative in any::<bool>(), slashes in 0usize..4,
    ) {
        let mut text = String::from("# made in a test\no thing\nvt 0 0\nvn 0 0 1\n");
        for [x, y, z] in &positions {
            writeln!(text, "v {x} {y} {z}").unwrap();
        }
        for face in &faces {
            text += "f";
            for &i in face {
                let index =
                    if negative { i64::from(i) - positions.len() as i64 } else { i64::from(i) + 1 };
                write!(text, " {index}{}", ["", "/1", "//1", "/1/1"][slashes]).unwrap();
            }
            text += "\n";
        }
        // Without faces, the single normal above must match a single point.
        let scan = match parse_obj(text.as_bytes()) {
            Ok(scan) => scan,
            Err(e) => {
                prop_assert!(faces.is_empty() && positions.len() != 1, "{}", e);
                return Ok(());
            }
        };
        prop_assert_eq!(&in_file(&scan), &positions);
        prop_assert!(divide(&scan.triangles, &faces));
        let options = tobj::LoadOptions { triangulate: true, ..Default::default() };
        let (models, _) =
            tobj::load_obj_buf(&mut text.as_bytes(), &options,
                |_| Err(tobj::LoadError::OpenFileFailed)).unwrap();
        let mut theirs = Vec::new();
        for mesh in models.iter().map(|m| &m.mesh) {
            theirs.extend(
                mesh.indices.iter().map(|&i| mesh.positions[3 * i as usize..][..3].to_vec())
            );
        }
        // The other reader may split quads along the other diagonal, so corners are compared only
        // if all faces are triangles.
        if faces.iter().all(|f| f.len() == 3) {
            let ours: Vec<Vec<f32>> =
                scan.triangles.iter().flatten().map(|&i| positions[i as usize].to_vec()).collect();
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn damaged_files_never_panic(
        layout in layouts(),
        (positions, normals, faces) in contents(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..6),
    ) {
        let mut bytes = write_ply(layout, &positions, normals.as_deref(), &faces);
        for (place, byte, how) in damage {
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        for parsed in [parse_ply(&bytes), parse_obj(&bytes)].into_iter().flatten() {
            assert_sound(&parsed);
        }
    }

    #[test]
    fn any_bytes_never_panic(body in vec(any::<u8>(), 0..300), start in 0usize..4) {
        let starts: [&[u8]; 4] = [
            b"",
            b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n\
                property float z\nend_header\n",
            b"ply\nformat binary_big_endian 1.0\nelement vertex 2\nproperty float x\nproperty \
                list int char y\nend_header\n",
            b"v 0 0 0\nf ",
        ];
        let bytes = [starts[start], &body].concat();
        for parsed in [parse_ply(&bytes), parse_obj(&bytes)].into_iter().flatten() {
            assert_sound(&parsed);
        }
    }
}

/// Asserts the guarantees that every reader gives.
fn assert_sound(scan: &Scan) {
    let points = scan.points.positions.len();
    assert!(points > 0);
    assert!(scan.points.positions.iter().flatten().all(|c| c.is_finite()));
    assert!(scan.triangles.iter().flatten().all(|&i| (i as usize) < points));
    if let Some(normals) = &scan.points.normals {
        assert_eq!(normals.len(), points);
        assert!(normals.iter().flatten().all(|c| c.is_finite()));
    }
}

const XYZ: &str = "property float x\nproperty float y\nproperty float z\n";

/// Builds an ASCII PLY file of `vertices` points with the given additions.
fn ascii(vertices: &str, more_header: &str, body: &str) -> Vec<u8> {
    format!(
        "ply\nformat ascii 1.0\nelement vertex {vertices}\n{XYZ}{more_header}end_header\n{body}"
    )
    .into_bytes()
}

fn binary(vertices: &str, more_header: &str, body: &[u8]) -> Vec<u8> {
    let header = format!(
        "ply\nformat binary_little_endian 1.0\nelement vertex {vertices}\n\
            {XYZ}{more_header}end_header\n"
    );
    [header.as_bytes(), body].concat()
}

#[test]
fn faults_of_ply_files_are_named() {
    let face = "element face 1\nproperty list uchar int vertex_indices\n";
    let three = "0 0 0\n1 0 0\n0 1 0\n";
    let points = |n: usize| [0u8; 12].repeat(n);
    let header = binary("3", "", b"").len();
    let cases: Vec<(Vec<u8>, String)> = vec![
        (b"".to_vec(), "is empty, expected a PLY, PCD, OBJ, STL, OFF, XYZ, LAS, LAZ, E57 or glTF file".into()),
        (
            b"ply".to_vec(),
            "line 1: found \"ply\", expected a complete header, up to end_header".into(),
        ),
        (
            b"ply\n".to_vec(),
            "line 2: found \"the end of the file\", expected a complete header, up to \
                end_header".into(),
        ),
        (b"plx\n".to_vec(), "line 1: found \"plx\", expected the line ply".into()),
        (
            b"ply\nformat ascii 2.0\n".to_vec(),
            "line 2: found \"format ascii 2.0\", expected format ascii".into(),
        ),
        (
            b"ply\nformat ebcdic 1.0\n".to_vec(),
            "line 2: found \"format ebcdic 1.0\", expected format ascii".into(),
        ),
        (
            b"ply\nend_header\n".to_vec(),
            "line 2: found \"end_header\", expected format ascii".into(),
        ),
        (
            b"ply\nvortex 3\n".to_vec(),
            "line 2: found \"vortex 3\", expected a PLY header line".into(),
        ),
        (
            b"ply\nelement vertex -1\n".to_vec(),
            "line 2: found \"element vertex -1\", expected element NAME COUNT".into(),
        ),
        (
            b"ply\nproperty float x\n".to_vec(),
            "line 2: found \"property float x\", expected property TYPE NAME".into(),
        ),
        (
            b"ply\nelement a 1\nproperty long x\n".to_vec(),
            "line 3: found \"property long x\", expected property".into(),
        ),
        (
            b"ply\nelement a 1\nproperty list float int x\n".to_vec(),
            "line 3: found \"property list float int x\"".into(),
        ),
        (
            b"ply\nelement a 1\nproperty int x\nproperty int x\n".to_vec(),
            "line 4: property \"x\" is declared twice".into(),
        ),
        (
            b"ply\nelement a 1\nelement a 1\n".to_vec(),
            "line 3: element \"a\" is declared twice".into(),
        ),
        (b"ply\nformat ascii 1.0\nend_header\n".to_vec(), "holds no vertices".into()),
        (ascii("0", "", ""), "holds no vertices".into()),
        (b"ply\nformat ascii 1.0\nelement vertex 1\nproperty int x\nproperty int z\nend_header\n0 \
            0\n".to_vec(),
            "line 3: element vertex has no y".into()),
        (b"ply\nformat ascii 1.0\nelement vertex 1\nproperty int x\nproperty int y\nproperty list \
            int int z\nend_header\n".to_vec(),
            "line 3: element vertex, property z: the type is a list, expected a number".into()),
        (
            ascii("3", "element face 1\nproperty int a\n", "0 0 0\n0 0 0\n0 0 0\n1\n"),
            "line 7: element face has no vertex_indices".into(),
        ),
        (ascii("3", "element face 1\nproperty list int float vertex_index\n", three),
            "line 7: element face, property vertex_index: the type is a list of float, expected a \
                list of integers".into()),
        (ascii("3", "element face 1\nproperty int vertex_index\n", three),
            "line 7: element face, property vertex_index: the type is int, expected a list of \
                integers".into()),
        (
            ascii("99999999999", "", "0 0 0\n"),
            "line 3: 99999999999 vertices, expected at most 4294967295".into(),
        ),
        (
            ascii("4000000000", "", "0 0 0\n"),
            "line 8: truncated: 4000000000 of element vertex declared, but the data end in number \
                1".into(),
        ),
        (binary("4000000000", "", &points(1)),
            format!("byte {}: truncated: 4000000000 of element vertex declared, but the data end \
                in number 1", header + 9 + 12)),
        (
            binary("3", "", &points(2)[..23]),
            format!("byte {}: truncated: 3 of element vertex declared, but the data end in number \
                1", header + 20),
        ),
        (
            binary("3", face, &points(3)),
            format!("byte {}: truncated: 1 of element face", header + face.len() + 36),
        ),
        (
            binary("3", face, &[points(3), vec![255]].concat()),
            format!("byte {}: truncated: 1 of element face", header + face.len() + 37),
        ),
        (
            binary("3", "", &[points(3), vec![1]].concat()),
            format!("byte {}: 1 bytes after the last element, expected none", header + 36),
        ),
        (ascii("2", "", three), "line 10: 5 bytes after the last element, expected none".into()),
        (ascii("3", "", "0 0 0\n1 0\n0 1 0\n"), "line 9: vertex 1: 2 values, expected 3".into()),
        (
            ascii("3", "", "0 0 0\n1 0 0 9\n0 1 0\n"),
            "line 9: vertex 1: 4 values, expected 3".into(),
        ),
        (
            ascii("3", face, &format!("{three}4 0 1\n")),
            "line 13: face 0: 3 values, expected 5".into(),
        ),
        (
            ascii("3", face, &format!("{three}3 0 1 2 2\n")),
            "line 13: face 0: 5 values, expected 4".into(),
        ),
        (
            ascii("1", "", "0 zero 0\n"),
            "line 8: vertex 0, y: found \"zero\", expected float".into(),
        ),
        (
            ascii("3", face, &format!("{three}300 0 1 2\n")),
            "line 13: face 0, vertex_indices: found \"300\", expected uchar".into(),
        ),
        (
            ascii("3", face, &format!("{three}3 0 1.5 2\n")),
            "line 13: face 0, vertex_indices: found \"1.5\", expected int".into(),
        ),
        (
            ascii("3", face, &format!("{three}2 0 1\n")),
            "line 13: face 0 has 2 corners, expected at least 3".into(),
        ),
        (
            ascii("3", face, &format!("{three}3 0 1 3\n")),
            "line 13: face 0, corner 2: index 3, but there are 3 vertices".into(),
        ),
        (
            ascii("3", face, &format!("{three}3 0 -1 2\n")),
            "line 13: face 0, corner 1: index -1, but there are 3 vertices".into(),
        ),
        (
            ascii("2", face, "0 0 0\n0 nan 0\n3 0 1 0\n"),
            "line 11: vertex 1: y is NaN, expected a finite 32-bit number".into(),
        ),
        (ascii("1", face, "0 0 -1e39\n3 0 0 0\n"), "line 10: vertex 0: z is -inf".into()),
        (
            ascii("1", "", "0 0 -1e39\n"),
            "line 8: all 1 points have coordinates or normals that are NaN, infinite or".into(),
        ),
        (binary("2", face, &[points(1), [0.0, 0.0, f32::INFINITY].map(f32::to_le_bytes).concat(),
            vec![3], vec![0; 4], vec![1, 0, 0, 0], vec![0; 4]].concat()),
            format!("byte {}: vertex 1: z is inf", header + face.len() + 20)),
        (
            ascii("1", "property float nx\nproperty float ny\nproperty float nz\n", "0 0 0 0 nan \
                1\n"),
            "line 11: all 1 points".into(),
        ),
        (ascii("1", "element odd 1\nproperty list char int l\n", "0 0 0\n-1\n"),
            "line 11: odd 0, l: found \"-1\", expected a list length of 0 or more".into()),
    ];
    for (bytes, expected) in cases {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let error = parse_ply(&bytes).expect_err(&text).to_string();
        assert!(error.starts_with(&expected), "{text}\ngot      {error}\nexpected {expected}");
    }
}

#[test]
fn faults_of_obj_files_are_named() {
    let cases: &[(&str, &str)] = &[
        ("", "is empty, expected a PLY, PCD, OBJ, STL, OFF, XYZ, LAS, LAZ, E57 or glTF file"),
        ("# nothing\n", "holds no vertices"),
        ("v 0 0\n", "line 1: vertex 0: 2 values, expected 3 to 7"),
        ("v 0 0 0\nv 0 0 0 1 1 1 1 1\n", "line 2: vertex 1: 8 values, expected 3 to 7"),
        ("v 0 0 zero\n", "line 1: vertex 0, z: found \"zero\", expected a number"),
        (
            "v 0 0 0\nv 0 inf 0\nf 1 2 1\n",
            "line 2: vertex 1: y is inf, expected a finite 32-bit number",
        ),
        ("f 1 1 1\nv 0 0 1e39\n", "line 2: vertex 0: z is 1e39"),
        (
            "v 0 0 1e39\n",
            "line 1: all 1 points have coordinates or normals that are NaN, infinite or beyond",
        ),
        ("v 0 0 0\nvn 0 0 NaN\n", "line 2: all 1 points"),
        ("v 0 0 0\nvn 0 0\n", "line 2: normal 0: 2 values, expected 3"),
        ("v 0 0 0\nvn 0 0 1\nvn 0 0 1\n", "2 normals for 1 points, expected one each or none"),
        ("v 0 0 0\nf 1 1\n", "line 2: face 0 has 2 corners, expected at least 3"),
        (
            "v 0 0 0\nf 1 1 1\nf 1 0 1\n",
            "line 3: face 1, corner 1: index 0, but there are 1 vertices",
        ),
        ("v 0 0 0\nf 1 1 -2\n", "line 2: face 0, corner 2: index -2, but there are 1 vertices"),
        (
            "v 0 0 0\nf 1 1 3\nv 1 1 1\n",
            "line 2: face 0, corner 2: index 3, but there are 2 vertices",
        ),
        (
            "v 0 0 0\nf 1 1 9223372036854775807\n",
            "line 2: face 0, corner 2: index 9223372036854775807",
        ),
        (
            "v 0 0 0\nf 1 1 -9223372036854775808\n",
            "line 2: face 0, corner 2: index -9223372036854775808",
        ),
        (
            "v 0 0 0\nf 1 1 one\n",
            "line 2: face 0, corner 2: found \"one\", expected a vertex index",
        ),
        ("v 0 0 0\nf 1 1 /1\n", "line 2: face 0, corner 2: found \"/1\", expected a vertex index"),
        ("v 0 0 0\nvertex 1 2 3\n", "line 2: found \"vertex 1 2 3\", expected an OBJ statement"),
        ("v 0 \\\n0 \\\n\nw\n", "line 1: vertex 0: 2 values"),
        ("v 0 \\\n0 \\\n0\nw\n", "line 4: found \"w\""),
        ("\u{0}\u{1}\u{2}", "line 1: found \"\\0\\u{1}\\u{2}\", expected an OBJ statement"),
    ];
    for (text, expected) in cases {
        let error = parse_obj(text.as_bytes()).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}\ngot      {error}\nexpected {expected}");
    }
}

#[test]
fn errors_carry_place_and_numbers() {
    let error = parse_obj(b"v 0 0 0\nf 1 1 7\n").unwrap_err();
    assert_eq!(error.place, Place::Line(2));
    assert_eq!(
        error.kind,
        ParseErrorKind::IndexOutOfRange { face: 0, corner: 2, index: 7, vertices: 1 }
    );
}

#[test]
fn obj_joins_lines_and_names_later_vertices() {
    let scan = parse_obj(b"f 1 2 \\\r\n 3\r\nv 0 0 0 # first\nv 1 0 \\\n0\nv 0 1 0 0.5 0.5 0.5\n")
        .unwrap();
    assert_eq!(scan.triangles, [[0, 1, 2]]);
    assert_eq!(scan.points.positions, [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
}

#[test]
fn obj_cloud_keeps_its_normals() {
    let scan = parse_obj(b"v 0 0 0\nvn 0 0 1\nv 1 0 0\nvn 0 1 0\n").unwrap();
    assert_eq!(scan.points.normals, Some(vec![[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]));
}

#[test]
fn points_of_clouds_that_are_not_finite_are_dropped() {
    let normals = "property float nx\nproperty float ny\nproperty float nz\n";
    let ply = ascii("4", normals, "0 0 0 0 0 1\nnan 0 0 0 0 1\n1 0 0 0 0 inf\n2 0 0 0 1 0\n");
    let obj = b"v 0 0 0\nv 0 nan 0\nv 1 0 0\nv 2 0 0\nvn 0 0 1\nvn 0 0 1\nvn 1e39 0 1\nvn 0 1 0\n"
        .to_vec();
    for scan in [parse_ply(&ply).unwrap(), parse_obj(&obj).unwrap()] {
        assert_eq!(scan.points.positions, [[0.0; 3], [2.0, 0.0, 0.0]]);
        assert_eq!(scan.points.normals, Some(vec![[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]));
        assert_eq!(scan.report.dropped, 2);
        assert!(
            scan.summary()
                .contains("2 points with normals, 0 triangles, 2 points dropped, unknown unit")
        );
        assert!(
            scan.summary().ends_with("from [0.0, 0.0, 0.0] to [2.0, 0.0, 0.0]"),
            "{}",
            scan.summary()
        );
    }
}

fn notes(scan: &Scan) -> Vec<String> {
    scan.report.notes.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_not_kept_is_noted() {
    let ply = "ply\nformat ascii 1.0\nelement vertex 5\nproperty double x\nproperty float y\n\
        property float z\n\
               property float nx\nproperty uchar red\nelement face 2\nproperty list uchar int \
               vertex_indices\n\
               property int flags\nelement edge 1\nproperty int vertex1\nend_header\n\
               0.1 0 0 1 9\n1 0 0 1 9\n1 1 0 1 9\n0 1 0 1 9\n0 2 0 1 9\n4 0 1 2 3 7\n5 0 1 2 3 4 \
               7\n3\n";
    let by = (f64::from(0.1f32) - 0.1).abs();
    assert_eq!(
        notes(&parse_ply(ply.as_bytes()).unwrap()),
        [
            "line 3: element vertex: properties not kept: nx, red".to_owned(),
            "line 9: element face: properties not kept: flags".to_owned(),
            "line 12: element edge: 1 instances not kept".to_owned(),
            "line 20: 2 faces of more than 3 corners were split into 5 triangles".to_owned(),
            "line 21: 1 faces cross themselves: each became a fan of triangles around its first \
             corner, and its area is too large"
                .to_owned(),
            format!("line 3: 1 64-bit coordinates were rounded to 32 bits, by at most {by:e}"),
        ]
    );
    let plain = ascii(
        "3",
        "element face 1\nproperty list uchar int vertex_indices\n",
        "0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
    );
    assert_eq!(notes(&parse_ply(&plain).unwrap()), [""; 0]);
    let obj = "o thing\nv 0 0 0 1\nv 1 0 0\nv 1 1 0 1 0 0\nv 0 1 0\nvn 0 0 1\nvt 0 0\nvt 1 1\nl 1 \
        2\nf 1 2 3 4\n";
    assert_eq!(
        notes(&parse_obj(obj.as_bytes()).unwrap()),
        [
            "line 1: statements not kept: 2 vt, 1 l, 1 o",
            "line 2: 2 vertices have a weight or a colour, which is not kept",
            "line 6: 1 normals are not kept because there are faces",
            "line 10: 1 faces of more than 3 corners were split into 2 triangles",
        ]
    );
    assert_eq!(notes(&parse_obj(b"v 0 0 0\nv 1 0 0\nvn 0 0 1\nvn 0 0 1\n").unwrap()), [""; 0]);
}

#[test]
fn counts_of_nothing_cost_nothing() {
    // An element without properties takes no bytes, whatever count is declared.
    let bytes = ascii("1", "element ghost 18446744073709551615\n", "0 0 0\n");
    assert_eq!(parse_ply(&bytes).unwrap().points.positions, [[0.0; 3]]);
    let bytes = binary("1", "element ghost 18446744073709551615\n", &[0; 12]);
    assert_eq!(parse_ply(&bytes).unwrap().points.positions, [[0.0; 3]]);
}

#[test]
fn one_triangle_in_every_encoding() {
    let positions = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.5, -2.0]];
    for encoding in ENCODINGS {
        let layout =
            Layout { encoding, double: false, wide_lists: false, crlf: false, decorated: false };
        let mesh = parse_ply(&write_ply(layout, &positions, None, &[vec![0, 1, 2]]))
            .unwrap()
            .into_mesh()
            .unwrap();
        assert_eq!(mesh.positions, positions);
        assert_eq!(mesh.triangles, [[0, 1, 2]]);
    }
}

#[test]
fn files_are_told_by_content_and_name() {
    let folder = std::env::temp_dir().join(format!("koel-scans-readers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let cloud = write("ply-inside.obj", &ascii("1", "", "1 2 3\n"));
    assert_eq!(read_cloud(&cloud).unwrap().positions, [[1.0, 2.0, 3.0]]);
    let message = read_mesh(&cloud).unwrap_err().to_string();
    assert_eq!(
        message,
        format!("{}: holds 1 points and no faces, expected a triangle mesh", cloud.display())
    );
    let mesh = write("upper.OBJ", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n");
    assert_eq!(read_mesh(&mesh).unwrap().triangles, [[0, 1, 2]]);
    let garbage = write("garbage.bin", &[0x7f, b'E', b'L', b'F', 0, 0xff]);
    assert!(matches!(read(&garbage).unwrap_err().error.kind, ParseErrorKind::UnknownFormat { .. }));
    assert_eq!(read(write("empty.ply", b"")).unwrap_err().error.kind, ParseErrorKind::Empty);
    let damaged = write("damaged.ply", &ascii("2", "", "1 2 3\n"));
    let message = read(&damaged).unwrap_err().to_string();
    assert_eq!(
        message,
        format!(
            "{}: line 8: truncated: 2 of element vertex declared, but the data end in number 1",
            damaged.display()
        )
    );
    let missing = folder.join("missing.ply");
    assert!(matches!(
        read(&missing).unwrap_err().error.kind,
        ParseErrorKind::Io(std::io::ErrorKind::NotFound, _)
    ));
    assert!(matches!(read(&folder).unwrap_err().error.kind, ParseErrorKind::Io(..)));
    std::fs::remove_dir_all(&folder).unwrap();
}
