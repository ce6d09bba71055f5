//! PCD, STL, LAS and LAZ: round trips, other crates as oracles, and errors for every fault. Files
//! are truncated at each byte, damaged at each byte, and given headers with false claims.

use std::io::Cursor;

use koel_scans::{
    Format, ParseErrorKind, Scan, parse, parse_las, parse_obj, parse_pcd, parse_ply, parse_stl,
    read, read_oriented_cloud,
};
use proptest::collection::vec;
use proptest::prelude::*;

type Vector = [f32; 3];

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

/// Truncates the file at each byte and changes each byte in the first `ways` ways: no panic, and
/// accepted files are sound. Returns the rejected share of truncations.
fn torment(
    bytes: &[u8],
    ways: usize,
    parse: impl Fn(&[u8]) -> Result<Scan, koel_scans::ParseError>,
) -> f64 {
    let refused =
        (0..bytes.len()).filter(|&end| parse(&bytes[..end]).inspect(assert_sound).is_err()).count();
    let mut damaged = bytes.to_vec();
    for at in 0..bytes.len() {
        for byte in [bytes[at] ^ 0x81, 0, 255, bytes[at] ^ 1, b'9', b'\n'].into_iter().take(ways) {
            damaged[at] = byte;
            if let Ok(scan) = parse(&damaged) {
                assert_sound(&scan);
            }
        }
        damaged[at] = bytes[at];
    }
    refused as f64 / bytes.len() as f64
}

mod pcd {
    use super::*;
    use pcd_rs::{DataKind, DynReader, DynRecord, DynWriter, Field, Schema, ValueKind, WriterInit};

    const KINDS: [DataKind; 3] = [DataKind::Ascii, DataKind::Binary, DataKind::BinaryCompressed];

    /// Writes with the crate `pcd-rs`: extra fields in between, z first, in 32 or 64 bits.
    fn write(
        kind: DataKind,
        positions: &[Vector],
        normals: Option<&[Vector]>,
        double: bool,
    ) -> Vec<u8> {
        let float = if double { ValueKind::F64 } else { ValueKind::F32 };
        let value = |c: f32| if double { Field::F64(vec![c.into()]) } else { Field::F32(vec![c]) };
        let mut schema = vec![("z", float, 1), ("rgb", ValueKind::U8, 3), ("x", float, 1)];
        if normals.is_some() {
            schema.extend([
                ("normal_y", ValueKind::F32, 1),
                ("normal_x", ValueKind::F32, 1),
                ("normal_z", float, 1),
            ]);
        }
        schema.extend([("label", ValueKind::I16, 1), ("y", float, 1)]);
        let mut out = Cursor::new(Vec::new());
        let mut writer: DynWriter<_> = WriterInit {
            width: positions.len() as u64,
            height: 1,
            viewpoint: Default::default(),
            data_kind: kind,
            schema: Some(Schema::from_iter(schema)),
            version: None,
        }
        .build_from_writer(&mut out)
        .unwrap();
        for (i, p) in positions.iter().enumerate() {
            let mut fields = vec![value(p[2]), Field::U8(vec![1, 2, i as u8]), value(p[0])];
            if let Some(n) = normals.map(|n| n[i]) {
                fields.extend([Field::F32(vec![n[1]]), Field::F32(vec![n[0]]), value(n[2])]);
            }
            fields.extend([Field::I16(vec![-3]), value(p[1])]);
            writer.push(&DynRecord(fields)).unwrap();
        }
        writer.finish().unwrap();
        out.into_inner()
    }

    fn finite() -> impl Strategy<Value = f32> {
        any::<f32>().prop_filter("finite", |f| f.is_finite())
    }

    proptest! {
        #[test]
        fn what_another_crate_writes_is_read(
            points in vec(
                (proptest::array::uniform3(finite()), proptest::array::uniform3(finite())),
                1..40
            ),
            with_normals in any::<bool>(),
            double in any::<bool>(),
            repeats in 1usize..4,
        ) {
            let (positions, normals): (Vec<Vector>, Vec<Vector>) =
                points.iter().cycle().take(points.len() * repeats).copied().unzip();
            let normals = with_normals.then_some(normals);
            for kind in KINDS {
                let scan = parse_pcd(&write(kind, &positions, normals.as_deref(), double)).unwrap();
                prop_assert_eq!(&scan.points.positions, &positions);
                prop_assert_eq!(&scan.points.normals, &normals);
                prop_assert_eq!((scan.report.dropped, scan.report.format), (0, Format::Pcd));
            }
        }

        #[test]
        fn any_body_never_panics(body in vec(any::<u8>(), 0..200), kind in 0usize..3) {
            let data = ["ascii", "binary", "binary_compressed"][kind];
            let header = format!("FIELDS x y z\nSIZE 4 2 8\nTYPE F I F\nWIDTH 3\nHEIGHT 1\nDATA \
                {data}\n");
            if let Ok(scan) = parse_pcd(&[header.as_bytes(), &body].concat()) {
                assert_sound(&scan);
            }
        }
    }

    #[test]
    fn reads_as_another_crate_does() {
        let header = "# .PCD v.7\r\nVERSION .7\nFIELDS x y z _ normal_x normal_y normal_z _\nSIZE \
            4 8 2 1 4 4 4 4\n\
            TYPE F F I U F F F F\nCOUNT 1 1 1 4 1 1 1 1\nWIDTH 2\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 \
            0\nPOINTS 2\nDATA ascii\n";
        let text =
            format!("{header}0.1 1e-3 -7 1 2 3 4 0 0 1 9\n\n  1e5 0.3 32767 0 0 0 0 0 1 0 9 \n");
        let scan = parse_pcd(text.as_bytes()).unwrap();
        assert_eq!(scan.points.positions, [[0.1, 1e-3, -7.0], [1e5, 0.3, 32767.0]]);
        assert_eq!(scan.points.normals, Some(vec![[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]));
        let theirs =
            DynReader::from_bytes(text.replace("\n\n", "\n").replace("\r\n", "\n").as_bytes())
                .unwrap()
                .map(|record| match &record.unwrap().0[..3] {
                    [Field::F32(x), Field::F64(y), Field::I16(z)] => {
                        [x[0], y[0] as f32, z[0].into()]
                    }
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>();
        assert_eq!(scan.points.positions, theirs);
    }

    #[test]
    fn cut_and_damaged_files() {
        let positions: Vec<Vector> = (0..6).map(|i| [i as f32, 0.5, -1.0]).collect();
        for kind in KINDS {
            let bytes = write(kind, &positions, Some(&positions), false);
            let refused = torment(&bytes, 6, parse_pcd);
            // In text, a truncated last line may still end in a number, and trailing white space
            // may be missing.
            assert!(
                refused > if kind == DataKind::Ascii { 0.95 } else { 0.999 },
                "{kind:?}: {refused}"
            );
        }
    }

    #[test]
    fn zeros_pad_compressed_files() {
        let positions = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
        for kind in [DataKind::BinaryCompressed, DataKind::Binary] {
            let mut bytes = write(kind, &positions, None, false);
            let end = bytes.len();
            bytes.resize(end + 3901, 0);
            let padded = parse_pcd(&bytes);
            // Zeros after uncompressed points may be points that the header does not count.
            if kind == DataKind::Binary {
                let error = padded.unwrap_err().to_string();
                assert!(error.starts_with(&format!("byte {end}: ")), "{error}");
                continue;
            }
            assert_eq!(padded.unwrap().points.positions, positions);
            bytes[end + 100] = 1;
            let error = parse_pcd(&bytes).unwrap_err().to_string();
            assert!(error.starts_with(&format!("byte {end}: 101 ")), "{error}");
        }
    }

    #[test]
    fn points_that_are_not_finite_are_dropped() {
        let positions = [[0.0; 3], [f32::NAN, 0.0, 0.0], [1.0; 3], [0.0, 0.0, f32::INFINITY]];
        for kind in KINDS {
            let scan = parse_pcd(&write(kind, &positions, None, false)).unwrap();
            assert_eq!(scan.points.positions, [[0.0; 3], [1.0; 3]]);
            assert_eq!(scan.report.dropped, 2);
        }
        let error = parse_pcd(&write(DataKind::Ascii, &positions[1..2], None, false)).unwrap_err();
        assert!(error.to_string().starts_with("line 12: all 1 points have coordinates"), "{error}");
    }

    fn with(header: &str, body: &[u8]) -> Vec<u8> {
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn faults_are_named() {
        const XYZ: &str = "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\n";
        let ascii = |points: &str, body: &str| {
            with(&format!("{XYZ}WIDTH {points}\nDATA ascii\n"), body.as_bytes())
        };
        let packed = |points: u32, sizes: [u32; 2], body: &[u8]| {
            let sizes = sizes.map(u32::to_le_bytes).concat();
            with(
                &format!("{XYZ}WIDTH {points}\nDATA binary_compressed\n"),
                &[&sizes, body].concat(),
            )
        };
        let start = format!("{XYZ}WIDTH 1\nDATA binary_compressed\n").len();
        let cases: Vec<(Vec<u8>, String)> =
            vec![
            (vec![], "is empty, expected".into()),
            (
                with("VERSION 0.7\n", b""),
                "line 2: found \"the end of the file\", expected a complete header, up to \
                    DATA".into(),
            ),
            (
                with("VERSION 0.7\nCOLOUR 1\n", b""),
                "line 2: found \"COLOUR 1\", expected a PCD header line: VERSION, FIELDS".into(),
            ),
            (with("FIELDS x x\n", b""), "line 1: field \"x\" is declared twice".into()),
            (
                with("WIDTH 1\nWIDTH 1\n", b""),
                "line 2: header line \"WIDTH\" is declared twice".into(),
            ),
            (
                with("FIELDS x\nSIZE 3\n", b""),
                "line 2: found \"SIZE 3\", expected SIZE with 1, 2, 4 or 8 for each of \
                    FIELDS".into(),
            ),
            (
                with("FIELDS x\nTYPE D\n", b""),
                "line 2: found \"TYPE D\", expected TYPE with I, U or F".into(),
            ),
            (
                with("WIDTH -1\n", b""),
                "line 1: found \"WIDTH -1\", expected WIDTH and a number".into(),
            ),
            (
                with("VIEWPOINT 0 0 0\n", b""),
                "line 1: found \"VIEWPOINT 0 0 0\", expected VIEWPOINT and seven numbers".into(),
            ),
            (
                with("DATA zip\n", b""),
                "line 1: found \"DATA zip\", expected DATA ascii, binary or \
                    binary_compressed".into(),
            ),
            (
                with("FIELDS x y z\nSIZE 4 4\nTYPE F F F\nWIDTH 1\nDATA ascii\n", b""),
                "line 5: SIZE is 2 values, expected 3, one for each of FIELDS".into(),
            ),
            (
                with(&format!("{XYZ}WIDTH 2\nHEIGHT 3\nPOINTS 7\nDATA ascii\n"), b""),
                "line 7: POINTS is 7, expected 6, WIDTH times HEIGHT".into(),
            ),
            (
                with(&format!("{XYZ}DATA ascii\n"), b""),
                "line 4: element header has no POINTS".into(),
            ),
            (with(&format!("{XYZ}WIDTH 0\nDATA ascii\n"), b""), "holds no vertices".into()),
            (
                with(&format!("{XYZ}WIDTH 5000000000\nDATA ascii\n"), b""),
                "line 5: 5000000000 vertices, expected at most 4294967295".into(),
            ),
            (
                with("FIELDS x z\nSIZE 4 4\nTYPE F F\nWIDTH 1\nDATA ascii\n", b"0 0\n"),
                "line 1: element point has no y".into(),
            ),
            (
                with(&format!("{XYZ}COUNT 1 2 1\nWIDTH 1\nDATA ascii\n"), b""),
                "line 1: element point, property y: the type is 2 values, expected one \
                    number".into(),
            ),
            (
                with("FIELDS x y z\nSIZE 4 2 4\nTYPE F F F\nWIDTH 1\nDATA ascii\n", b""),
                "line 1: element point, property y: the type is a float of 2 bytes".into(),
            ),
            (ascii("2", "0 0 0\n1 1\n"), "line 7: point 1: 2 values, expected 3".into()),
            (ascii("1", "0 0 0 0\n"), "line 6: point 0: 4 values, expected 3".into()),
            (
                ascii("1", "0 zero 0\n"),
                "line 6: point 0, y: found \"zero\", expected a number".into(),
            ),
            (
                ascii("3", "0 0 0\n"),
                "line 6: truncated: 3 of element point declared, but the data end in number \
                    1".into(),
            ),
            (
                ascii("1", "0 0 0\n1 1 1\n"),
                "line 7: 5 bytes after the last element, expected none".into(),
            ),
            (
                with(&format!("{XYZ}WIDTH 4000000000\nDATA binary\n"), &[0; 25]),
                "byte 89: truncated: 4000000000 of element point declared, but the data end in \
                    number 2".into(),
            ),
            (
                with(&format!("{XYZ}WIDTH 1\nDATA binary\n"), &[1; 14]),
                "byte 67: 2 bytes after the last element".into(),
            ),
            (
                packed(1, [9, 12], &[0; 3]),
                format!("byte {start}: compressed size is 9, expected at most 3, the number of \
                    bytes left"),
            ),
            (
                packed(1, [3, 13], &[0; 3]),
                format!("byte {}: uncompressed size is 13, expected 12, 12 per point", start + 4),
            ),
            (
                packed(4_000_000, [3, 48_000_000], &[0; 3]),
                format!("byte {}: uncompressed size is 48000000, expected at most 264 from 3 \
                    bytes", start + 10),
            ),
            (
                packed(1, [3, 12], &[11, 0, 0]),
                format!("byte {}: compressed data, byte 0: a literal is cut off", start + 8),
            ),
            (
                packed(1, [4, 12], &[0, 7, 0xE0, 0]),
                format!("byte {}: compressed data, byte 1: a reference is cut off", start + 10),
            ),
            (
                packed(1, [4, 12], &[0, 7, 0x20, 1]),
                format!("byte {}: compressed data, byte 1: a reference before the \
                    beginning", start + 10),
            ),
            (
                packed(1, [4, 12], &[0, 7, 0x20, 0]),
                format!("byte {}: compressed data, byte 4: fewer bytes than the header \
                    declares", start + 12),
            ),
            (
                packed(1, [5, 12], &[0, 7, 0xE0, 200, 0]),
                format!("byte {}: compressed data, byte 210: more bytes than the header \
                    declares", start + 10),
            ),
            (
                packed(1, [2, 12], &[0, 7, 8]),
                format!("byte {}: 1 bytes after the last element", start + 10),
            ),
        ];
        for (bytes, expected) in cases {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let error = parse_pcd(&bytes).expect_err(&text).to_string();
            assert!(error.starts_with(&expected), "{text}\ngot      {error}\nexpected {expected}");
        }
        // A run of one byte, encoded as an overlapping reference to the byte before.
        let scan = parse_pcd(&packed(1, [5, 12], &[0, 0, 0xE0, 2, 0])).unwrap();
        assert_eq!(scan.points.positions, [[0.0; 3]]);
    }
}

mod stl {
    use super::*;

    fn write(text: bool, triangles: &[[Vector; 3]], comment: &str) -> Vec<u8> {
        if text {
            let mut out = format!("solid {comment}\n");
            for corners in triangles {
                out += "  facet normal 0 0 1\n    outer loop\n";
                for [x, y, z] in corners {
                    out += &format!("      vertex {x} {y} {z}\n");
                }
                out += "    endloop\n  endfacet\n";
            }
            return (out + "endsolid\n").into_bytes();
        }
        let mut out = comment.as_bytes().to_vec();
        out.resize(80, b' ');
        out.extend((triangles.len() as u32).to_le_bytes());
        for corners in triangles {
            out.extend([0; 12]);
            out.extend(corners.iter().flatten().flat_map(|c| c.to_le_bytes()));
            out.extend([7, 7]);
        }
        out
    }

    fn corners(scan: &Scan) -> Vec<[Vector; 3]> {
        scan.triangles.iter().map(|t| t.map(|i| scan.points.positions[i as usize])).collect()
    }

    fn coordinate() -> impl Strategy<Value = f32> {
        prop_oneof![
            Just(0.0f32),
            Just(1.0),
            Just(-2.5),
            -1e6f32..1e6,
            any::<f32>().prop_filter("finite", |f| f.is_finite())
        ]
    }

    proptest! {
        #[test]
        fn round_trips_and_agrees_with_another_reader(
            triangles in vec(
                proptest::array::uniform3(proptest::array::uniform3(coordinate())),
                1..20
            ),
            text in any::<bool>(),
        ) {
            let bytes = write(text, &triangles, "part");
            let scan = parse_stl(&bytes).unwrap();
            prop_assert_eq!(corners(&scan), triangles);
            // Each position occurs once.
            let mut places: Vec<[u32; 3]> =
                scan.points.positions.iter().map(|p| p.map(|c| (c + 0.0).to_bits())).collect();
            places.sort_unstable();
            places.dedup();
            prop_assert_eq!(places.len(), scan.points.positions.len());
            let theirs = stl_io::read_stl(&mut Cursor::new(&bytes)).unwrap();
            let theirs: Vec<[Vector; 3]> =
                theirs.faces.iter().map(|f| f.vertices.map(|i| theirs.vertices[i].0)).collect();
            prop_assert_eq!(corners(&scan), theirs);
        }

        #[test]
        fn any_bytes_never_panic(body in vec(any::<u8>(), 0..200), text in any::<bool>()) {
            let start: &[u8] = if text { b"solid\nfacet normal 0 0 1\n" } else { b"" };
            if let Ok(scan) = parse_stl(&[start, &body].concat()) {
                assert_sound(&scan);
            }
        }
    }

    const TRIANGLES: [[Vector; 3]; 2] = [
        [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        [[1.0, 0.0, 0.0], [1.0, 1.0, -0.0], [0.0, 1.0, 0.0]],
    ];

    #[test]
    fn cut_and_damaged_files() {
        for text in [true, false] {
            let refused = torment(&write(text, &TRIANGLES, "part"), 6, parse_stl);
            assert!(refused > if text { 0.95 } else { 0.999 }, "{refused}");
        }
    }

    #[test]
    fn binary_files_may_begin_as_text_does_and_tell_their_unit() {
        let scan = parse(&write(false, &TRIANGLES, "solid\nfacet UNITS=mm"), Some("stl")).unwrap();
        assert_eq!((scan.triangles.len(), scan.points.positions.len()), (2, 4));
        assert_eq!(scan.report.unit.as_deref(), Some("mm"));
    }

    #[test]
    fn solids_follow_each_other_in_capitals_too() {
        let one = write(true, &TRIANGLES[..1], "a");
        let other =
            String::from_utf8(write(true, &TRIANGLES[1..], "b")).unwrap().to_ascii_uppercase();
        let scan = parse_stl(&[&one, other.replace('\n', "\r\n").as_bytes()].concat()).unwrap();
        assert_eq!(corners(&scan), TRIANGLES);
    }

    #[test]
    fn faults_are_named() {
        let text = |body: &str| format!("solid a\nfacet normal 0 0 1\n{body}").into_bytes();
        let full = write(false, &TRIANGLES, "");
        let mut more = write(false, &TRIANGLES[..1], "");
        more.push(0);
        let mut many = full.clone();
        many[80..84].copy_from_slice(&3_000_000_000u32.to_le_bytes());
        let mut few = full.clone();
        few[80..84].copy_from_slice(&1_000_000_000u32.to_le_bytes());
        let mut infinite = full.clone();
        infinite[84 + 50 + 12 + 12 + 4..][..4].copy_from_slice(&f32::INFINITY.to_le_bytes());
        let cases: Vec<(Vec<u8>, &str)> = vec![
            (vec![], "is empty, expected"),
            (
                b"solid".to_vec(),
                "found \"solid\", expected an STL file: text that begins with solid, or 80 bytes",
            ),
            (b"solid a\nendsolid\n".to_vec(), "holds no vertices"),
            (
                full[..184].iter().copied().take(183).collect(),
                "byte 183: truncated: 2 of element triangle declared, but the data end in number 1",
            ),
            (more, "byte 134: 1 bytes after the last element"),
            (many, "byte 80: 9000000000 vertices, expected at most 4294967295"),
            (
                few,
                "byte 184: truncated: 1000000000 of element triangle declared, but the data end \
                    in number 2",
            ),
            (infinite, "byte 162: vertex 4: y is inf, expected a finite 32-bit number"),
            (text("vertex 0 0 0\n"), "line 3: found \"vertex 0 0 0\", expected outer loop"),
            (text("outer loop\nvertex 0 0\n"), "line 4: vertex 0: 2 values, expected 3"),
            (
                text("outer loop\nvertex 0 zero 0\n"),
                "line 4: vertex 0, y: found \"zero\", expected a number",
            ),
            (
                text("outer loop\nvertex 0 0 0\nendloop\n"),
                "line 5: found \"endloop\", expected vertex and three numbers",
            ),
            (
                text(
                    "outer loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 nan 0\nendloop\nendfacet\n\
                        endsolid\n",
                ),
                "line 6: vertex 2: y is NaN",
            ),
            (
                text("outer loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nvertex 0 1 1\n"),
                "line 7: found \"vertex 0 1 1\", expected endloop after three vertices",
            ),
            (
                text("outer loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n"),
                "line 9: found \"the end of the file\", expected facet or endsolid",
            ),
            (
                b"solid\nendsolid\nfacet\n".to_vec(),
                "line 3: found \"facet\", expected solid, or the end of the file",
            ),
        ];
        for (bytes, expected) in cases {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let error = parse_stl(&bytes).expect_err(&text).to_string();
            assert!(error.starts_with(expected), "{text}\ngot      {error}\nexpected {expected}");
        }
    }
}

#[test]
fn what_is_not_kept_is_noted() {
    let notes = |scan: Scan| scan.report.notes.iter().map(ToString::to_string).collect::<Vec<_>>();
    let pcd = "VERSION 0.7\nFIELDS x y z rgb\nSIZE 8 4 4 4\nTYPE F F F U\nCOUNT 1 1 1 1\nWIDTH 1\n\
        HEIGHT 1\n\
               VIEWPOINT 0 0 1 1 0 0 0\nPOINTS 1\nDATA ascii\n0.1 1 2 7\n";
    let by = (f64::from(0.1f32) - 0.1).abs();
    let viewpoint_of = |pcd: &str| parse_pcd(pcd.as_bytes()).unwrap().report.viewpoint;
    assert_eq!(viewpoint_of(pcd), Some([0.0, 0.0, 1.0]));
    for unknown in ["0 0 0 1 0 0 0", "0 nan 0 1 0 0 0"] {
        assert_eq!(viewpoint_of(&pcd.replace("0 0 1 1 0 0 0", unknown)), None);
    }
    assert_eq!(
        notes(parse_pcd(pcd.as_bytes()).unwrap()),
        [
            "line 2: fields not kept: rgb".to_owned(),
            "line 8: VIEWPOINT is 0 0 1 1 0 0 0, but is not applied to the points".to_owned(),
            format!("line 2: 1 64-bit coordinates were rounded to 32 bits, by at most {by:e}"),
        ]
    );
    let corners = [0f32, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
        .map(f32::to_le_bytes)
        .concat();
    let mut stl =
        [&[0; 80][..], &2u32.to_le_bytes(), &corners, &[0, 0], &corners, &[0, 0x80]].concat();
    assert_eq!(
        notes(parse_stl(&stl).unwrap()),
        ["byte 182: 1 triangles have attributes, such as a colour, which are not kept"]
    );
    stl[183] = 0;
    assert_eq!(notes(parse_stl(&stl).unwrap()), [""; 0]);
}

mod las {
    use super::*;
    use ::las::point::Format as PointFormat;
    use ::las::{Builder, Color, Point, Transform, Vector as Axes, Vlr, Writer, raw};

    const OFFSET: [f64; 3] = [637_000.0, 849_000.0, 0.0];

    /// Writes with the crate `las`: point formats 0 to 10, with extra bytes.
    fn write(
        format: u8,
        compressed: bool,
        extra: u16,
        points: &[[f64; 3]],
        records: &[Vlr],
    ) -> Vec<u8> {
        let mut builder = Builder::from((1, 4));
        builder.point_format = PointFormat::new(format).unwrap();
        builder.point_format.extra_bytes = extra;
        builder.point_format.is_compressed = compressed;
        let transform = |axis: usize| Transform { scale: 0.01, offset: OFFSET[axis] };
        builder.transforms = Axes { x: transform(0), y: transform(1), z: transform(2) };
        builder.vlrs = records.to_vec();
        let format = builder.point_format;
        let mut writer =
            Writer::new(Cursor::new(Vec::new()), builder.into_header().unwrap()).unwrap();
        for (i, &[x, y, z]) in points.iter().enumerate() {
            let point = Point {
                x,
                y,
                z,
                intensity: (i % 1000) as u16,
                return_number: 1,
                number_of_returns: 1,
                gps_time: format.has_gps_time.then_some(1e6 + i as f64),
                color: format.has_color.then_some(Color { red: i as u16, green: 5, blue: 9 }),
                nir: format.has_nir.then_some(77),
                waveform: format.has_waveform.then(raw::point::Waveform::default),
                extra_bytes: vec![i as u8; extra.into()],
                ..Default::default()
            };
            writer.write_point(point).unwrap();
        }
        writer.into_inner().unwrap().into_inner()
    }

    fn hill(n: usize) -> Vec<[f64; 3]> {
        let at = |i: usize| (637_012.0 + (i % 37) as f64 * 0.5, 849_234.5 + (i / 37) as f64 * 0.25);
        let round = |c: f64| (c * 100.0).round() / 100.0;
        (0..n)
            .map(at)
            .map(|(x, y)| [round(x), round(y), round(400.0 + 10.0 * (x * 0.1).sin())])
            .collect()
    }

    /// Returns coordinates as in the file.
    fn absolute(scan: &Scan) -> Vec<[f64; 3]> {
        let origin = scan.report.origin;
        scan.points
            .positions
            .iter()
            .map(|p| std::array::from_fn(|a| origin[a] + f64::from(p[a])))
            .collect()
    }

    fn close(a: &[[f64; 3]], b: &[[f64; 3]]) {
        assert_eq!(a.len(), b.len());
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            assert!((0..3).all(|c| (a[c] - b[c]).abs() < 1e-5), "point {i}: {a:?}, {b:?}");
        }
    }

    #[test]
    fn every_point_format() {
        let points = hill(300);
        for format in 0..=10 {
            for (compressed, extra) in [(false, 0), (false, 5), (true, 0), (true, 3)] {
                let bytes = write(format, compressed, extra, &points, &[]);
                let scan = parse_las(&bytes)
                    .unwrap_or_else(|e| panic!("format {format}, {compressed}, {extra}: {e}"));
                close(&absolute(&scan), &points);
                assert_eq!(scan.report.origin, [637_012.0, 849_234.0, points[0][2].floor()]);
                assert_eq!(scan.report.format, if compressed { Format::Laz } else { Format::Las });
                let mut reader = ::las::Reader::new(Cursor::new(bytes)).unwrap();
                let theirs: Vec<[f64; 3]> = reader
                    .read_all()
                    .unwrap()
                    .points()
                    .map(|p| p.map(|p| [p.x, p.y, p.z]).unwrap())
                    .collect();
                close(&absolute(&scan), &theirs);
            }
        }
    }

    /// Reads the fuzzer's seeds, written by Python's laspy.
    #[test]
    fn what_laspy_wrote_is_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/las/");
        let expected: Vec<[f64; 3]> = (0..6)
            .map(f64::from)
            .map(|i| {
                [637_012.0 + 0.5 * i, 849_234.5 + i, ((400.0 + i.sin()) * 100.0).round() / 100.0]
            })
            .collect();
        for name in ["format0.las", "format3.laz", "format6.las", "format7.laz"] {
            close(&absolute(&read(format!("{folder}{name}")).unwrap()), &expected);
        }
    }

    #[test]
    fn what_is_not_kept_is_noted() {
        let notes = |bytes: &[u8]| {
            parse_las(bytes)
                .unwrap()
                .report
                .notes
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let plain = write(3, false, 2, &hill(3), &[]);
        let kept = "byte 104: points of format 3: 12 of 36 bytes are kept (x, y, z)";
        assert_eq!(notes(&plain), [kept]);
        let behind = format!(
            "byte {}: 5 bytes after the points are not read, including 0 extended records",
            plain.len()
        );
        assert_eq!(notes(&[&plain[..], b"extra"].concat()), [kept, &behind]);
        let mut other = plain;
        other[107..111].copy_from_slice(&2u32.to_le_bytes());
        assert_eq!(notes(&other)[1], "byte 107: the older field claims 2 points, 3 were read");
        let mut packed = write(6, true, 0, &hill(3), &[]);
        packed[243..247].copy_from_slice(&1u32.to_le_bytes());
        assert_eq!(notes(&packed)[1], "byte 235: 1 extended records after the points are not read");
    }

    /// More than one chunk of 50,000 points.
    #[test]
    fn chunks_follow_each_other() {
        let points = hill(50_300);
        for format in [1, 6] {
            let scan = parse_las(&write(format, true, 0, &points, &[])).unwrap();
            close(&absolute(&scan), &points);
        }
    }

    #[test]
    fn cut_and_damaged_files() {
        let points = hill(12);
        for (format, compressed) in [(0, false), (3, false), (1, true), (7, true)] {
            let bytes = write(format, compressed, 0, &points, &[]);
            // Decompression first builds tables, which is slow.
            let refused = torment(&bytes, if compressed { 1 } else { 6 }, parse_las);
            // The chunk table of LAZ after the points is not needed.
            assert!(refused > if compressed { 0.9 } else { 0.999 }, "format {format}: {refused}");
        }
    }

    #[test]
    fn units_and_origins_are_told() {
        let geo = |unit: u16| -> Vec<u8> {
            [1u16, 1, 0, 2, 1024, 0, 1, 1, 3076, 0, 1, unit]
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect()
        };
        let wkt =
            "PROJCS[\"a\",GEOGCS[\"b\",UNIT[\"degree\",0.017]],UNIT[\"US survey foot\",0.3048]]"
                .as_bytes()
                .to_vec();
        for (record_id, data, unit) in
            [(34735, geo(9001), "metre"), (34735, geo(9002), "foot"), (2112, wkt, "US survey foot")]
        {
            let record =
                Vlr { user_id: "LASF_Projection".into(), record_id, data, ..Default::default() };
            let mut scan = parse_las(&write(0, false, 0, &hill(50), &[record])).unwrap();
            assert_eq!(scan.report.unit.as_deref(), Some(unit));
            assert!(
                scan.summary()
                    .starts_with("LAS: 50 points without normals, 0 triangles, 0 points dropped")
            );
            assert!(
                scan.summary().contains(unit)
                    && scan.summary().contains("from [637012.0, 849234.5"),
                "{}",
                scan.summary()
            );
            let before = absolute(&scan);
            scan.set_origin([637_000.0, 849_000.0, 100.0]);
            assert_eq!(scan.report.origin, [637_000.0, 849_000.0, 100.0]);
            for (a, b) in before.iter().zip(absolute(&scan)) {
                assert!((0..3).all(|c| (a[c] - b[c]).abs() < 1e-4));
            }
        }
    }

    #[test]
    fn faults_are_named() {
        let plain = write(0, false, 0, &hill(3), &[]);
        let packed = write(1, true, 0, &hill(3), &[]);
        let with = |of: &[u8], at: usize, bytes: &[u8]| {
            let mut changed = of.to_vec();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            changed
        };
        let length = plain.len();
        let cases: Vec<(Vec<u8>, String)> =
            vec![
            (vec![], "is empty, expected".into()),
            (b"LASX".to_vec(), "byte 0: signature is \"LASX\", expected \"LASF\"".into()),
            (
                plain[..200].to_vec(),
                "byte 200: truncated: 227 of element header byte declared, but the data end in \
                    number 200".into(),
            ),
            (with(&plain, 24, &[2, 0]), "byte 24: version is 2.0, expected 1.0 to 1.4".into()),
            (
                with(&plain, 94, &[0, 0]),
                format!("byte 94: header size is 0, expected 375 to {length}"),
            ),
            (
                with(&plain, 96, &[0xFF; 4]),
                format!("byte 96: offset to points is 4294967295, expected 375 to {length}"),
            ),
            (with(&plain, 104, &[11]), "byte 104: point format is 11, expected 0 to 10".into()),
            (
                with(&plain, 105, &[19, 0]),
                "byte 105: point length is 19, expected at least 20 for format 0".into(),
            ),
            (with(&plain, 247, &[0; 8]), "byte 247: holds no vertices".into()),
            (
                with(&plain, 247, &[0xFF; 8]),
                "byte 247: 18446744073709551615 vertices, expected at most 4294967295".into(),
            ),
            (
                with(&plain, 247, &[4, 0, 0, 0]),
                format!("byte {length}: truncated: 4 of element point declared, but the data end \
                    in number 3"),
            ),
            (
                with(&plain, 139, &[0; 8]),
                "byte 139: scale factor is 0.0, expected a finite number, not 0".into(),
            ),
            (
                with(&plain, 155, &f64::NAN.to_le_bytes()),
                "byte 155: offset is NaN, expected a finite number".into(),
            ),
            (
                with(&plain, 100, &[1]),
                "byte 375: truncated: 1 of element variable length record declared, but the data \
                    end in number 0"
                    .into(),
            ),
            (
                with(&packed, 247, &[0, 0, 0, 1]),
                format!("byte 247: number of points is 16777216, expected at most \
                    {}", 16 * packed.len()),
            ),
            (
                with(&packed, 105, &[0, 8]),
                "byte 105: point length is 2048, expected at most 1024 for compressed \
                    points".into(),
            ),
            (
                with(&packed, 105, &[29, 0]),
                "byte 429: length of all items is 28, expected 29, the point length".into(),
            ),
            (
                with(&with(&packed, 465, &[0xFF, 0xFF]), 471, &[0xFF, 0xFF]),
                "byte 429: length of all items is 131070, expected 28, the point length".into(),
            ),
            (
                with(&packed, 377, b"x"),
                "byte 375: element header has no record of laszip encoded points".into(),
            ),
            (
                with(&packed, 429, &[9]),
                "byte 429: compressed data, point 0: Compressor type 9 is not valid".into(),
            ),
            (
                packed[..packed.len() - 40].to_vec(),
                "byte 475: offset of the chunk table is ".into(),
            ),
            (
                with(&packed, 475, &[0; 8]),
                "byte 475: offset of the chunk table is 0, expected 483 to ".into(),
            ),
            (
                with(&packed, 511, &[0xFF; 4]),
                "byte 511: code is FF FF FF FF, expected smaller first bytes".into(),
            ),
            (
                with(&packed, 463, &[7, 0]),
                "byte 429: items is [GpsTime, GpsTime], expected [Point10, GpsTime] for format \
                    1".into(),
            ),
        ];
        for (bytes, expected) in cases {
            let error = parse_las(&bytes).unwrap_err().to_string();
            assert!(error.starts_with(&expected), "got      {error}\nexpected {expected}");
        }
        // Points too far from the first for 32-bit coordinates.
        let scan = parse_las(&with(&plain, 131, &1e300f64.to_le_bytes())).unwrap();
        assert_eq!((scan.points.positions.len(), scan.report.dropped), (1, 2));
    }
}

#[test]
fn formats_are_told_by_content_then_by_name() {
    let ply = "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n\
        property float z\nend_header\n1 2 3\n";
    let pcd =
        "# made\n\nVERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 1\nDATA ascii\n1 2 3\n";
    let stl = "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n\
        endloop\nendfacet\nendsolid a\n";
    let obj = "# made\nv 1 2 3\n";
    for extension in [None, Some("ply"), Some("stl"), Some("PCD"), Some("obj")] {
        assert_eq!(parse(ply.as_bytes(), extension).unwrap().report.format, Format::Ply);
    }
    assert_eq!(parse(pcd.as_bytes(), None).unwrap().report.format, Format::Pcd);
    assert_eq!(parse(stl.as_bytes(), Some("txt")).unwrap().report.format, Format::Stl);
    assert_eq!(parse(obj.as_bytes(), Some("OBJ")).unwrap().report.format, Format::Obj);
    assert!(matches!(
        parse(obj.as_bytes(), None).unwrap_err().kind,
        ParseErrorKind::UnknownFormat { .. }
    ));
    // Unrecognized content is parsed as its extension says, and rejected.
    assert!(
        parse(b"0 0 0\n", Some("pcd"))
            .unwrap_err()
            .to_string()
            .contains("expected a PCD header line")
    );
    assert!(
        parse(b"0 0 0\n", Some("las")).unwrap_err().to_string().starts_with("byte 0: signature")
    );
}

#[test]
fn clouds_without_normals_are_refused_by_name_and_place() {
    let folder = std::env::temp_dir().join(format!("koel-scans-formats-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let bare = folder.join("bare.pcd");
    std::fs::write(
        &bare,
        "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 1\nDATA ascii\n1 2 3\n",
    )
    .unwrap();
    assert_eq!(
        read_oriented_cloud(&bare).unwrap_err().to_string(),
        format!(
            "{}: line 2: 1 points without normals (found x, y, z), expected the fields normal_x, normal_y, \
                normal_z; normals can be \
             estimated (--estimate-normals)",
            bare.display()
        )
    );
    assert_eq!(read(&bare).unwrap().points.positions, [[1.0, 2.0, 3.0]]);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Bytes of one format, read as every other: an error or a sound scan.
#[test]
fn foreign_bytes_never_panic() {
    let seeds: [&[u8]; 5] =
        [b"LASF", b"ply\n", b"VERSION 0.7\nFIELDS", b"solid a\nfacet", &[0; 400]];
    for bytes in seeds {
        let parsed = [
            parse_las(bytes),
            parse_pcd(bytes),
            parse_stl(bytes),
            parse_ply(bytes),
            parse_obj(bytes),
        ];
        parsed.iter().flatten().for_each(assert_sound);
    }
}
