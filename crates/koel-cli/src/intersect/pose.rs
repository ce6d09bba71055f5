//! Poses on the command line and in files: a rotation, then a translation.
use crate::failure::{Failure, Outcome};
use koel_spatial::intersect::Pose;
use std::path::Path;

/// Greatest deviation of a rotation from a rigid one: of the products of its rows, or of the length
/// of its quaternion. The library allows as much.
const TOLERANCE: f64 = 1e-3;

/// Reads three coordinates. Errors: the number at fault, or what is expected.
pub(super) fn parse_position(text: &str) -> Result<[f64; 3], String> {
    let numbers = parse_numbers(text)?;
    let found = numbers.len();
    numbers.try_into().map_err(|_| format!("{found} numbers, expected 3: x, y, z"))
}
/// Reads the numbers of a pose. Errors: the number at fault, or what is expected.
pub(super) fn parse(text: &str) -> Result<Pose, String> {
    let numbers = parse_numbers(text)?;
    match numbers[..] {
        [x, y, z] => Ok(Pose { translation: [x, y, z], ..Pose::IDENTITY }),
        [x, y, z, a, b, c] => {
            let degrees = a.hypot(b).hypot(c);
            Ok(Pose::turned([a, b, c], degrees.to_radians(), [0.0; 3], [x, y, z]))
        }
        [x, y, z, a, b, c, w] | [_, x, y, z, a, b, c, w] => {
            Ok(Pose { rotation: of_quaternion([a, b, c, w])?, translation: [x, y, z] })
        }
        [a, b, c, x, d, e, f, y, g, h, i, z] => {
            of_matrix([[a, b, c], [d, e, f], [g, h, i]], [x, y, z])
        }
        [a, b, c, x, d, e, f, y, g, h, i, z, 0.0, 0.0, 0.0, 1.0] => {
            of_matrix([[a, b, c], [d, e, f], [g, h, i]], [x, y, z])
        }
        [.., a, b, c, d] if numbers.len() == 16 => {
            Err(format!("the last row of the matrix is {a}, {b}, {c}, {d}, expected 0, 0, 0, 1"))
        }
        _ => Err(format!(
            "{} numbers, expected 3 (a translation), 6 (and a rotation vector), 7 (and a \
             quaternion), 8 (after a time), 12 or 16 (a matrix)",
            numbers.len()
        )),
    }
}
/// Reads finite numbers, separated by commas or blanks.
fn parse_numbers(text: &str) -> Result<Vec<f64>, String> {
    let mut numbers = vec![];
    for part in text.split(',') {
        let before = numbers.len();
        for word in part.split_whitespace() {
            let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
            numbers.push(number.ok_or_else(|| {
                format!("number {} is '{word}', expected a finite number", numbers.len() + 1)
            })?);
        }
        if numbers.len() == before {
            return Err(format!("number {} is missing", before + 1));
        }
    }
    Ok(numbers)
}

/// Returns the rotation matrix of a unit quaternion x, y, z, w.
fn of_quaternion(q: [f64; 4]) -> Result<[[f64; 3]; 3], String> {
    let length = q.iter().map(|c| c * c).sum::<f64>().sqrt();
    if (length - 1.0).abs() >= TOLERANCE {
        return Err(format!("the length of the quaternion is {length}, expected 1"));
    }
    let [x, y, z, w] = q.map(|c| c / length);
    Ok([
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ])
}
/// Checks that a matrix is a rotation.
fn of_matrix(rotation: [[f64; 3]; 3], translation: [f64; 3]) -> Result<Pose, String> {
    let [a, b, c] = rotation;
    let dot = |u: [f64; 3], v: [f64; 3]| u[0] * v[0] + u[1] * v[1] + u[2] * v[2];
    let products = [
        (1, 1, dot(a, a)),
        (2, 2, dot(b, b)),
        (3, 3, dot(c, c)),
        (1, 2, dot(a, b)),
        (1, 3, dot(a, c)),
        (2, 3, dot(b, c)),
    ];
    for (row, other, product) in products {
        let expected = f64::from(u8::from(row == other));
        let off = (product - expected).abs();
        if off.is_nan() || off >= TOLERANCE {
            return Err(format!(
                "the matrix is no rotation: row {row} times row {other} is {product}, \
                 expected {expected}"
            ));
        }
    }
    let cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    if dot(cross, c) < 0.0 {
        return Err("the matrix is a reflection: its determinant is -1, expected 1".into());
    }
    Ok(Pose { rotation, translation })
}

/// Reads a file of poses, one on each line. Skips empty lines and those that begin with #.
///
/// Errors: the file cannot be read or holds no pose; a line is no pose.
pub(super) fn read(file: &Path) -> Outcome<Vec<Pose>> {
    let in_file = |message: String| Failure::Usage(format!("{}: {message}", file.display()));
    let text =
        std::fs::read_to_string(file).map_err(|e| in_file(format!("cannot be read: {e}")))?;
    let is_pose = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with('#');
    let poses = (1..).zip(text.lines().map(str::trim)).filter(is_pose);
    let poses = poses
        .map(|(line, text)| parse(text).map_err(|e| in_file(format!("line {line}: {e}"))))
        .collect::<Outcome<Vec<Pose>>>()?;
    match poses.is_empty() {
        true => Err(in_file("holds no poses, expected one on each line".into())),
        false => Ok(poses),
    }
}

/// Returns the motion of positions that are relative to `from`, to positions relative to `to`.
pub(super) fn between(pose: &Pose, from: [f64; 3], to: [f64; 3]) -> Pose {
    let moved = pose.apply(from);
    Pose { translation: std::array::from_fn(|a| moved[a] - to[a]), ..*pose }
}

/// Returns the angle of the rotation, in degrees.
pub(super) fn degrees(pose: &Pose) -> f64 {
    let trace = (0..3).map(|a| pose.rotation[a][a]).sum::<f64>();
    (0.5 * (trace - 1.0)).clamp(-1.0, 1.0).acos().to_degrees()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(pose: &Pose, p: [f64; 3], expected: [f64; 3]) {
        let moved = pose.apply(p);
        assert!((0..3).all(|a| (moved[a] - expected[a]).abs() < 1e-12), "{moved:?}, {expected:?}");
    }

    #[test]
    fn all_forms_say_the_same() {
        // A quarter turn around z, which takes x to y, then a translation.
        let half = 0.5f64.sqrt();
        for text in [
            "1,2,3,0,0,90".to_string(),
            format!("1 2 3 0 0 {half} {half}"),
            format!("17.5 1 2 3 0 0 {half} {half}"),
            "0,-1,0,1, 1,0,0,2, 0,0,1,3".into(),
            "0 -1 0 1  1 0 0 2  0 0 1 3  0 0 0 1".into(),
        ] {
            let pose = parse(&text).unwrap();
            is_near(&pose, [5.0, 0.0, 0.0], [1.0, 7.0, 3.0]);
            assert!((degrees(&pose) - 90.0).abs() < 1e-9);
        }
        let moved = parse("-1e3, 0.5,2").unwrap();
        assert_eq!(moved, Pose { translation: [-1e3, 0.5, 2.0], ..Pose::IDENTITY });
        assert_eq!(parse("0,0,0,0,0,0").unwrap(), Pose::IDENTITY);
        assert_eq!(parse("0 0 0 0 0 0 1").unwrap(), Pose::IDENTITY);
        assert_eq!(degrees(&moved), 0.0);
    }

    #[test]
    fn errors_say_which_number_or_row() {
        for (text, says) in [
            ("", "number 1 is missing"),
            ("1,,3", "number 2 is missing"),
            ("1,2,", "number 3 is missing"),
            ("1,2,x", "number 3 is 'x', expected a finite number"),
            ("1 nan 3", "number 2 is 'nan', expected a finite number"),
            ("1 2 1e999", "number 3 is '1e999', expected a finite number"),
            ("1,2", "2 numbers, expected 3 (a translation)"),
            ("1 2 3 4 5 6 7 8 9", "9 numbers, expected 3"),
            ("0 0 0 0 0 0 2", "the length of the quaternion is 2, expected 1"),
            ("0 0 0 0 0 0 0", "the length of the quaternion is 0, expected 1"),
            ("2 0 0 0 0 1 0 0 0 0 1 0", "row 1 times row 1 is 4, expected 1"),
            ("1 0 0 0 0.6 0.8 0 0 0 0 1 0", "row 1 times row 2 is 0.6, expected 0"),
            ("-1 0 0 0 0 1 0 0 0 0 1 0", "a reflection: its determinant is -1"),
            ("1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 2", "last row of the matrix is 0, 0, 0, 2, expected"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert_eq!(parse_position("-1, 2.5 3e2"), Ok([-1.0, 2.5, 300.0]));
        assert_eq!(parse_position("1,2").unwrap_err(), "2 numbers, expected 3: x, y, z");
    }

    #[test]
    fn files_have_a_pose_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.txt");
        let read_text = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&file).map_err(|e| match e {
                Failure::Usage(message) => message,
                other => panic!("{other:?}"),
            })
        };
        let poses = read_text("# x y z\n\n1,2,3\r\n  4 5 6 0 0 90\n").unwrap();
        assert_eq!(poses.len(), 2);
        assert_eq!(poses[0].translation, [1.0, 2.0, 3.0]);
        assert!(
            read_text("# none\n")
                .unwrap_err()
                .ends_with("p.txt: holds no poses, expected one on each line")
        );
        let error = read_text("1 2 3\n\n1 2 z\n").unwrap_err();
        assert!(
            error.ends_with("p.txt: line 3: number 3 is 'z', expected a finite number"),
            "{error}"
        );
        let missing = read(&folder.path().join("no.txt"));
        assert!(matches!(missing, Err(Failure::Usage(m)) if m.contains("no.txt: cannot be read")));
    }

    #[test]
    fn positions_may_be_relative_to_any_origin() {
        let pose = parse("10,20,30,0,0,90").unwrap();
        let (from, to) = ([1e6, -2e6, 5.0], [2e6, 1e6, 0.0]);
        let local = between(&pose, from, to);
        let p = [3.0, 4.0, 5.0];
        let expected = pose.apply([from[0] + p[0], from[1] + p[1], from[2] + p[2]]);
        let moved = local.apply(p);
        assert!((0..3).all(|a| (moved[a] + to[a] - expected[a]).abs() < 1e-8), "{moved:?}");
    }
}
