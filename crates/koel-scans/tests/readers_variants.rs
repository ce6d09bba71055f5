//! Files that other programs write in ways of their own, and formats without a test of their own.

use koel_scans::{
    Scan, parse, parse_e57, parse_las, parse_obj, parse_off, parse_pcd, parse_ply, parse_stl,
    parse_xyz,
};

fn notes(scan: &Scan) -> String {
    scan.report.notes.iter().map(|note| format!("{note}\n")).collect()
}
fn area(scan: &Scan) -> f64 {
    let of = |t: &[u32; 3]| {
        let [a, b, c] = t.map(|i| scan.points.positions[i as usize].map(f64::from));
        let [u, v] = [b, c].map(|p| [p[0] - a[0], p[1] - a[1], p[2] - a[2]]);
        let n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
        0.5 * n.map(|c| c * c).iter().sum::<f64>().sqrt()
    };
    scan.triangles.iter().map(of).sum()
}
const HOOK: [[f64; 2]; 6] =
    [[1.0, 1.0], [1.0, 4.0], [0.0, 4.0], [0.0, 0.0], [4.0, 0.0], [4.0, 1.0]];

#[test]
fn concave_faces_keep_their_area_in_every_format() {
    let lines = |start: &str| HOOK.map(|[x, y]| format!("{start}{x} {y} 2\n")).concat();
    let obj = format!("{}f 1 2 3 4 5 6\n", lines("v "));
    let off = format!("OFF\n6 1 0\n{}6 0 1 2 3 4 5\n", lines(""));
    let ply = format!(
        "ply\nformat ascii 1.0\nelement vertex 6\nproperty float x\nproperty float y\nproperty \
         float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n{}6 0 1 2 3 \
         4 5\n",
        lines("")
    );
    for scan in [parse_obj(obj.as_bytes()), parse_off(off.as_bytes()), parse_ply(ply.as_bytes())] {
        let scan = scan.unwrap();
        assert_eq!((scan.triangles.len(), area(&scan)), (4, 7.0));
        assert!(notes(&scan).contains("1 faces of more than 3 corners were split into 4 tri"));
    }
}

#[test]
fn vertices_of_no_face_are_dropped_and_noted() {
    let obj = b"v 0 0 0\nv 1e9 nan 0\nv 1 0 0\nv 0 1 0\nv 1000 0 0\nf 1 3 4\n";
    let off = b"OFF\n5 1 0\n0 0 0\n1e9 nan 0\n1 0 0\n0 1 0\n1000 0 0\n3 0 2 3\n";
    let ply = b"ply\nformat ascii 1.0\nelement vertex 5\nproperty float x\nproperty float y\n\
        property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n\
        0 0 0\n1e9 nan 0\n1 0 0\n0 1 0\n1000 0 0\n3 0 2 3\n";
    for scan in [parse_obj(obj), parse_off(off), parse_ply(ply)] {
        let scan = scan.unwrap();
        assert_eq!(scan.points.positions, [[0.0; 3], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]);
        assert_eq!(scan.triangles, [[0, 1, 2]]);
        let notes = notes(&scan);
        assert!(notes.contains("2 of 5 vertices belong to no face"), "{notes}");
        assert!(notes.contains("the first is vertex 1"), "{notes}");
    }
    // A used one is still an error.
    assert!(parse_obj(b"v nan 0 0\nv 1 0 0\nv 0 1 0\nv 9 9 9\nf 1 2 3\n").is_err());
}

#[test]
fn records_may_span_lines() {
    let ply = |body: &str| {
        let header = "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float \
            y\nproperty float z\nproperty float normal_x\nproperty float normal_y\nproperty float \
            normal_z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n";
        parse_ply(format!("{header}{body}").as_bytes())
    };
    let scan = ply("0 0 0\n0 0 1\n\n1 0 0 0 0 1\n0\n1\n0\n0\n0\n1\n3 0\n1 2\n").unwrap();
    assert_eq!(scan.triangles, [[0, 1, 2]]);
    assert_eq!(scan.points.normals.as_deref(), Some(&[[0.0, 0.0, 1.0]; 3][..]));
    assert!(notes(&scan).contains("line 13: 3 instances of elements span several lines"));
    // A record that does not end with a line has too few values in its first.
    let error = ply("0 0 0 0 0\n1 0 0 0 0 1\n0 1 0 0 0 1\n3 0 1 2\n").unwrap_err();
    assert_eq!(error.to_string(), "line 13: vertex 0: 5 values, expected 6");
    let error = ply("0 0 0 0 0 1\n1 0 0 0 0 1\n0 1 0 0 0 1\n3 0 1\n").unwrap_err();
    assert_eq!(error.to_string(), "line 16: face 0: 3 values, expected 4");
    let pcd = |body: &str| {
        let header = "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 2\nHEIGHT 1\nDATA ascii\n";
        parse_pcd(format!("{header}{body}").as_bytes())
    };
    let scan = pcd("1 2\n3\n4 5 6\n").unwrap();
    assert_eq!(scan.points.positions, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert!(notes(&scan).contains("line 7: 1 records span several lines"), "{}", notes(&scan));
    let error = pcd("1 2\n3 4\n5 6\n").unwrap_err();
    assert_eq!(error.to_string(), "line 7: point 0: 2 values, expected 3");
    let off = parse_off(b"OFF 3 1 0\n0 0\n0 1 0 0\n0 1 0\n3 0 1 2\n").unwrap_err();
    assert_eq!(off.to_string(), "line 2: vertex 0: 2 values, expected 3");
    let off = parse_off(b"OFF 3 1 0\n0 0\n0\n1 0 0\n0 1 0\n3\n0 1 2\n").unwrap();
    assert_eq!(off.triangles, [[0, 1, 2]]);
}

#[test]
fn normals_are_found_by_their_names() {
    let of = |names: [&str; 3]| {
        let [u, v, w] = names;
        let ply = format!(
            "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty \
             float z\nproperty float {u}\nproperty float {v}\nproperty float {w}\nend_header\n1 2 3 \
             0 0 1\n"
        );
        parse_ply(ply.as_bytes()).unwrap()
    };
    for names in [["nx", "ny", "nz"], ["normal_x", "normal_y", "normal_z"], ["Nx", "Ny", "Nz"]] {
        assert_eq!(of(names).points.normals, Some(vec![[0.0, 0.0, 1.0]]), "{names:?}");
    }
    let error = of(["nx", "ny", "curvature"]).into_oriented_cloud().unwrap_err().to_string();
    assert!(error.contains("(found x, y, z, nx, ny, curvature)"), "{error}");
}

#[test]
fn solids_end_in_many_ways() {
    let facet = "facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n";
    for end in ["endsolid", "end solid", "ENDSOLID x", "End Solid x y", "end_solid"] {
        let text = format!(
            "solid\n{facet}endloop\nendfacet\n{end}\nSOLID b\n{facet}end loop\nend facet\n{end}\n"
        );
        let scan = parse_stl(text.as_bytes()).unwrap();
        assert_eq!(scan.triangles.len(), 2, "{end}");
        assert!(parse(format!("solid\n{end}\n").as_bytes(), None).is_err());
    }
    let text = format!("solid\n{facet}endloop\nendfacet\nend\n");
    assert!(parse_stl(text.as_bytes()).unwrap_err().to_string().contains("found \"end\""));
    // A binary file whose comment begins as text does.
    let mut binary = b"solid and more\nfacet".to_vec();
    binary.resize(80, 0);
    binary.extend(1u32.to_le_bytes());
    binary.extend(
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0]
            .map(|c| c as f32)
            .iter()
            .take(12)
            .flat_map(|c| c.to_le_bytes()),
    );
    binary.extend([0; 2]);
    assert_eq!(parse_stl(&binary).unwrap().triangles.len(), 1);
}

/// A LAS file of format 0 with fields after each point.
fn las(fields: &[(&str, u8, f64)], values: &[u8]) -> Vec<u8> {
    let size = values.len();
    let mut header = vec![0; 227];
    header[..4].copy_from_slice(b"LASF");
    header[24..26].copy_from_slice(&[1, 4 - 2]);
    header[94..96].copy_from_slice(&227u16.to_le_bytes());
    let records = 54 + 192 * fields.len();
    header[96..100].copy_from_slice(&(227 + records as u32).to_le_bytes());
    header[100] = 1;
    header[105..107].copy_from_slice(&(20 + size as u16).to_le_bytes());
    header[107] = 1;
    (0..3).for_each(|a| header[131 + 8 * a..139 + 8 * a].copy_from_slice(&0.5f64.to_le_bytes()));
    let mut record = vec![0; 54];
    record[2..11].copy_from_slice(b"LASF_Spec");
    record[18] = 4;
    record[20..22].copy_from_slice(&(192 * fields.len() as u16).to_le_bytes());
    for (name, kind, scale) in fields {
        let mut field = vec![0; 192];
        field[2] = *kind;
        field[3] = if *scale == 1.0 { 0 } else { 8 };
        field[4..4 + name.len()].copy_from_slice(name.as_bytes());
        field[112..120].copy_from_slice(&scale.to_le_bytes());
        record.extend(field);
    }
    let point = [2i32, 4, 6].iter().flat_map(|c| c.to_le_bytes()).chain([0; 8]);
    [header, record, point.collect(), values.to_vec()].concat()
}

#[test]
fn normals_of_extra_bytes_are_read() {
    let floats = |v: [f32; 3]| v.iter().flat_map(|c| c.to_le_bytes()).collect::<Vec<u8>>();
    let names = [("NormalX", 9, 1.0), ("NormalY", 9, 1.0), ("NormalZ", 9, 1.0)];
    let scan = parse_las(&las(&names, &floats([0.0, 0.6, 0.8]))).unwrap();
    assert_eq!(scan.points.normals, Some(vec![[0.0, 0.6, 0.8]]));
    assert!(notes(&scan).contains("the normal of the extra bytes"));
    // Scaled integers after another field.
    let scaled = [("time", 10, 1.0), ("nx", 4, 0.01), ("ny", 4, 0.01), ("nz", 4, 0.01)];
    let values = [&[0; 8][..], &100i16.to_le_bytes(), &[0; 2], &(-50i16).to_le_bytes()].concat();
    let scan = parse_las(&las(&scaled, &values)).unwrap();
    assert_eq!(scan.points.normals, Some(vec![[1.0, 0.0, -0.5]]));
    assert_eq!(
        parse_las(&las(&[("normal", 29, 1.0)], &floats([1.0, 0.0, 0.0]))).unwrap().points.normals,
        Some(vec![[1.0, 0.0, 0.0]])
    );
    // Fields beyond the point.
    assert_eq!(parse_las(&las(&names, &[0; 8])).unwrap().points.normals, None);
    let error = parse_las(&las(&[("amplitude", 9, 1.0)], &[0; 4])).unwrap();
    let error = error.into_oriented_cloud().unwrap_err().to_string();
    assert!(error.contains("(found x, y, z, amplitude)"), "{error}");
}

#[test]
fn xyz_columns_are_named_or_judged() {
    let read = |text: &str| parse_xyz(text.as_bytes());
    let scan = read("# made by hand\n1 2 3\n4,5;6\n\n").unwrap();
    assert_eq!(scan.points.positions, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    assert_eq!((scan.points.normals, scan.report.notes), (None, vec![]));
    let scan = read("1 2 3 0 0.6 0.8 255 0 9\n1 2 4 1 0 0 2 0 9\n").unwrap();
    assert_eq!(scan.points.normals, Some(vec![[0.0, 0.6, 0.8], [1.0, 0.0, 0.0]]));
    assert!(notes(&scan).contains("line 1: columns without names: three columns are of length 1"));
    assert!(notes(&scan).contains("6 of 9 columns were kept"));
    let scan = read("1 2 3 255 0 9 0 0 1\n1 2 4 2 0 9 0 1 0\n").unwrap();
    assert_eq!(scan.points.normals, Some(vec![[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]));
    let scan = read("1 2 3 255 0 9\n1 2 4 2 0 9\n").unwrap();
    assert_eq!(scan.points.normals, None);
    assert!(notes(&scan).contains("no three columns are of length 1"));
    let scan = read("//X Y Z R G B Nx Ny Nz\n2\n1 2 3 1 0 0 0 0 9\n1 2 4 1 0 0 0 0 9\n").unwrap();
    assert_eq!(scan.points.normals, Some(vec![[0.0, 0.0, 9.0]; 2]));
    for (text, expected) in [
        ("1 2\n", "line 1: point 0: 2 values, expected at least 3"),
        ("1 2 3\n1 2\n", "line 2: point 1: 2 values, expected 3"),
        ("1 2 3\n1 2 x\n", "line 2: point 1, column 3: found \"x\", expected a number"),
        ("C 1 2 3\n", "line 1: found \"C 1 2 3\", expected numbers"),
        ("3\n1 2 3\n", "line 1: truncated: 3 of element point declared"),
        ("# nothing\n", "holds no vertices"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn off_files_are_read_and_their_faults_named() {
    let scan =
        parse_off(b"# a\nNOFF\n3 1\n0 0 0 0 0 1 # b\n1 0 0 0 0 1\n0 1 0 0 0 1\n3 0 1 2 255 0 0\n");
    let scan = scan.unwrap();
    assert_eq!(scan.points.normals, Some(vec![[0.0, 0.0, 1.0]; 3]));
    assert!(notes(&scan).contains("line 7: colours of faces were not kept"), "{}", notes(&scan));
    assert_eq!(parse(b"COFF 1 0 0\n1 2 3 9 9 9 9\n", None).unwrap().points.positions.len(), 1);
    for (text, expected) in [
        (
            &b"OFF\n3 1\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n"[..],
            "line 6: face 0, corner 2: index 3, but",
        ),
        (b"OFF\n3 1\n0 0 0\n1 0 0\n0 1 0\n2 0 1\n", "line 6: face 0 has 2 corners"),
        (b"OFF\n3 1\n0 0 0\n1 0 0\n", "line 4: truncated: 3 of element vertex declared"),
        (b"OFF\n1 0\n0 0 0\n5 5 5\n", "line 4: 1 bytes after the last element"),
        (b"OFF\n-1 0\n", "line 2: found \"-1 0\", expected OFF"),
        (b"OFF\n0 0 0\n", "holds no vertices"),
        (
            b"OFF\n3 1\n0 0 0\n1 0 0\n0 1 0\n18446744073709551615 0 1 2\n",
            "line 6: face 0: 4 values",
        ),
    ] {
        let error = parse_off(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn e57_files_are_read() {
    use e57::{E57Writer, Record, RecordDataType, RecordName, RecordValue};
    use std::io::Cursor;
    let write = |normals: bool| {
        let mut file = Cursor::new(vec![]);
        let mut writer = E57Writer::new(&mut file, "file").unwrap();
        let mut fields =
            vec![Record::CARTESIAN_X_F64, Record::CARTESIAN_Y_F64, Record::CARTESIAN_Z_F64];
        if normals {
            writer
                .register_extension(e57::Extension::new(
                    "nor",
                    "http://www.libe57.org/E57_NOR_surface_normals.txt",
                ))
                .unwrap();
            fields.extend(["normalX", "normalY", "normalZ"].map(|name| Record {
                name: RecordName::Unknown { namespace: "nor".into(), name: name.into() },
                data_type: RecordDataType::F32,
            }));
        }
        let mut cloud = writer.add_pointcloud("scan", fields).unwrap();
        cloud.set_transform(Some(e57::Transform {
            rotation: e57::Quaternion { w: 0.5f64.sqrt(), x: 0.0, y: 0.0, z: 0.5f64.sqrt() },
            translation: e57::Translation { x: 10.0, y: 0.0, z: 0.0 },
        }));
        for i in 0..100 {
            let mut values = [f64::from(i), 1.0, 2.0].map(RecordValue::Double).to_vec();
            if normals {
                values.extend([1.0, 0.0, 0.0].map(RecordValue::Single));
            }
            cloud.add_point(values).unwrap();
        }
        cloud.finalize().unwrap();
        writer.finalize().unwrap();
        drop(writer);
        file.into_inner()
    };
    let bytes = write(true);
    let scan = parse(&bytes, None).unwrap();
    assert_eq!(scan.points.positions.len(), 100);
    let p = scan.points.positions[7];
    assert!((p[0] - 9.0).abs() < 1e-6 && (p[1] - 7.0).abs() < 1e-6 && p[2] == 2.0, "{p:?}");
    let normal = scan.points.normals.as_ref().unwrap()[0];
    assert!((normal[1] - 1.0).abs() < 1e-6, "{normal:?}");
    assert_eq!(scan.report.viewpoint, Some([10.0, 0.0, 0.0]));
    assert_eq!(parse_e57(&write(false)).unwrap().points.normals, None);
    let mut state = 5u64;
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        let at = (state >> 33) as usize % damaged.len();
        damaged[at] ^= 1 << (state >> 20 & 7);
        let _ = parse_e57(&damaged);
        let _ = parse_e57(&bytes[..at]);
    }
    assert!(parse_e57(b"ASTM-E57").unwrap_err().to_string().starts_with("the file: "));
}

const SEED_OF_E57: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/e57/normals.e57");
#[test]
fn the_xml_of_e57_files_is_no_larger_than_they_are() {
    let mut bytes = std::fs::read(SEED_OF_E57).unwrap();
    assert!(parse_e57(&bytes).is_ok());
    bytes[32..40].copy_from_slice(&(40u64 << 20).to_le_bytes());
    let error = parse_e57(&bytes).unwrap_err().to_string();
    assert_eq!(error, format!("the XML: 41943040 bytes in a file of {}", bytes.len()));
}
/// XML of any depth, and counts that take no bytes.
#[test]
fn hostile_e57_files_are_refused() {
    use e57::{E57Writer, Record, RecordDataType, RecordName, RecordValue};
    let write = |field: RecordDataType, xml: &dyn Fn(String) -> String| {
        let mut file = std::io::Cursor::new(vec![]);
        let mut writer = E57Writer::new(&mut file, "file").unwrap();
        let names = [RecordName::CartesianX, RecordName::CartesianY, RecordName::CartesianZ];
        let fields = names.map(|name| Record { name, data_type: field.clone() }).to_vec();
        let mut cloud = writer.add_pointcloud("scan", fields).unwrap();
        let value = match field {
            RecordDataType::Integer { .. } => RecordValue::Integer(0),
            _ => RecordValue::Double(0.5),
        };
        cloud.add_point(vec![value; 3]).unwrap();
        cloud.finalize().unwrap();
        writer.finalize_customized_xml(|text| Ok(xml(text))).unwrap();
        drop(writer);
        parse_e57(file.get_ref()).map(|_| ()).map_err(|e| e.to_string())
    };
    let double = RecordDataType::F64;
    assert_eq!(write(double.clone(), &|xml| xml), Ok(()));
    let claims = |count: &str| {
        let count = format!("recordCount=\"{count}\"");
        move |xml: String| xml.replace("recordCount=\"1\"", &count)
    };
    let error = write(double.clone(), &claims("18446744073709551615")).unwrap_err();
    assert!(error.contains("expected at most"), "{error}");
    assert!(write(double.clone(), &claims("2")).unwrap_err().starts_with("scan 0: "));
    let no_space = |xml: String| claims("9")(xml).replace("maximum=\"1\"", "maximum=\"0\"");
    let error = write(RecordDataType::Integer { min: 0, max: 1 }, &no_space).unwrap_err();
    assert!(error.contains("no field of its points takes space"), "{error}");
    // Such fields take memory for each point: two beside one of a bit.
    let one_bit = |xml: String| {
        let mut maxima = xml.split("maximum=\"1\"");
        let first = maxima.next().unwrap_or_default().to_owned() + "maximum=\"1\"";
        first + &maxima.collect::<Vec<&str>>().join("maximum=\"0\"")
    };
    let error = write(RecordDataType::Integer { min: 0, max: 1 }, &one_bit).unwrap_err();
    let expected =
        "2 fields of its points take no space beside fields of 1 bits, expected at most 1";
    assert!(error.ends_with(expected), "{error}");
    let deep = |_| format!("<e57Root>{}", "<a>".repeat(1 << 18));
    assert!(write(double.clone(), &deep).unwrap_err().starts_with("the file: "));
    let entities = |_| "<!DOCTYPE a [<!ENTITY b \"c\">]><e57Root>&b;</e57Root>".to_owned();
    assert!(write(double, &entities).unwrap_err().starts_with("the file: "));
}

/// The seed of the fuzz target, which was written without the crate.
#[test]
fn e57_files_of_others_are_read() {
    let scan = parse(&std::fs::read(SEED_OF_E57).unwrap(), None).unwrap();
    assert_eq!(scan.points.positions[3], [1.5, 2.5, 4.0]);
    assert_eq!(scan.points.normals.unwrap()[3], [0.0, 0.0, 1.0]);
    assert_eq!(scan.report.viewpoint, Some([1.0, 2.0, 3.0]));
}
