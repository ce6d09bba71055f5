//! XYZ: a point on each line as text, its coordinates and perhaps a normal, a colour or an
//! intensity. No standard says which: a line of names decides, or else the values.

use crate::assembly::drop_not_finite;
use crate::error::{ParseError, ParseErrorKind, Place, excerpt};
use crate::mesh::PointCloud;
use crate::names;
use crate::positions::{Positions, Relative};
use crate::report::{Format, ReadNote, ReadReport};
use crate::scan::Scan;
use std::iter::Peekable;

const FIELDS: [&str; 6] = ["x", "y", "z", "nx", "ny", "nz"];
/// Lines by which columns without names are judged.
const JUDGED: usize = 1000;
/// Greatest difference of a normal's length from 1, after rounding to few decimals.
const UNIT: f64 = 0.02;
const LINE: &str = "numbers: x y z, or x y z and more columns, the same on each line";

/// Returns the words of a line without its comment, separated by blanks, commas or semicolons.
fn words(line: &[u8]) -> Vec<&[u8]> {
    let content = line.split(|&b| b == b'#').next().unwrap_or_default();
    let is_blank = |b: &u8| b.is_ascii_whitespace() || matches!(b, b',' | b';');
    content.split(is_blank).filter(|word| !word.is_empty()).collect()
}

fn number(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Columns of the points.
struct Columns {
    count: usize,
    coordinates: [usize; 3],
    normal: Option<[usize; 3]>,
    /// Why columns are a normal or not, if the file does not name them.
    guess: Option<&'static str>,
}

impl Columns {
    /// Finds the columns by their names.
    fn named(names: &[String]) -> Option<Columns> {
        let lower = |name: &String| name.trim_start_matches('/').to_ascii_lowercase();
        let names = names.iter().map(lower).filter(|name| !name.is_empty()).collect::<Vec<_>>();
        let place = |name: &str| names.iter().position(|found| found == name);
        let coordinates = [place("x")?, place("y")?, place("z")?];
        let normal = names::normal(names.iter().map(String::as_str));
        Some(Columns { count: names.len(), coordinates, normal, guess: None })
    }
    /// Judges columns without names by the first points. A normal has length 1.
    fn judged(points: &[Vec<f64>]) -> Columns {
        let count = points[0].len();
        let is_normal = |at: usize| {
            let length = |p: &Vec<f64>| p[at..at + 3].iter().map(|c| c * c).sum::<f64>().sqrt();
            let is_unit = |p: &Vec<f64>| (length(p) - 1.0).abs() <= UNIT || length(p) == 0.0;
            points.iter().filter(|p| p.len() == count).all(is_unit)
                && points.iter().any(|p| p.len() == count && length(p) > 0.0)
        };
        let normal = (3..=count.saturating_sub(3)).find(|&at| is_normal(at));
        let guess = match normal {
            _ if count < 6 => None,
            Some(_) => Some("three columns are of length 1 and were read as normals"),
            None => Some("no three columns are of length 1: there are no normals"),
        };
        let normal = normal.map(|at| [at, at + 1, at + 2]);
        Columns { count, coordinates: [0, 1, 2], normal, guess }
    }
}

/// Reads an XYZ file from memory.
///
/// The first three columns are coordinates, unless a first line names the columns (x, y, z, and nx
/// and the like for normals). Without names, three later columns whose vectors all have length 1 in
/// the first thousand points are normals; this is [noted](ReadReport::notes), as are columns that
/// are not kept. Columns are separated by blanks, commas or semicolons; `#` begins a comment, and
/// so does `//` at the beginning. A first line of one number is the number of points. Points that
/// are not finite are dropped. Time is linear in the file's size.
///
/// # Errors
/// [`ParseError`] with the line at fault. All points must have as many columns.
pub fn parse_xyz(bytes: &[u8]) -> Result<Scan, ParseError> {
    if bytes.is_empty() {
        return Err(ParseErrorKind::Empty.in_file());
    }
    let lines = (1..).zip(bytes.split(|&b| b == b'\n')).map(|(n, line)| (Place::Line(n), line));
    let mut rows = lines.filter(|(_, line)| !words(line).is_empty()).peekable();
    let Head { columns, fields, fields_at, declared } = Head::read(&mut rows)?;
    let mut report = ReadReport { format: Format::Xyz, fields, fields_at, ..ReadReport::default() };
    let (mut first, mut count) = (vec![], columns.as_ref().map(|columns| columns.count));
    while first.len() < JUDGED
        && let Some((place, line)) = rows.next()
    {
        let values = point(place, line, first.len() as u64, count)?;
        count.get_or_insert(values.len());
        first.push((place, values));
    }
    if first.is_empty() {
        return Err(ParseErrorKind::NoVertices.in_file());
    }
    let of_first = first.iter().map(|(_, values)| values.clone()).collect::<Vec<Vec<f64>>>();
    let columns = columns.unwrap_or_else(|| Columns::judged(&of_first));
    let mut reader =
        Reader { columns, positions: Positions::default(), normals: vec![], fault: None };
    let at = first[0].0;
    for (place, values) in first {
        reader.push(&values, place);
    }
    for (place, line) in rows {
        let values = point(place, line, reader.positions.len() as u64, count)?;
        reader.push(&values, place);
    }
    let Reader { columns, positions, normals, fault } = reader;
    if let Some((declared, place)) = declared
        && declared != positions.len() as f64
    {
        let (element, expected, found) =
            ("point".to_owned(), declared as u64, positions.len() as u64);
        return Err(ParseErrorKind::Truncated { element, expected, found }.at(place));
    }
    let mut note = |text: String| report.notes.push(ReadNote { place: at, text });
    let kept = 3 + columns.normal.map_or(0, |_| 3);
    if let Some(guess) = columns.guess {
        note(format!("columns without names: {guess}"));
    }
    if columns.count > kept {
        note(format!("{kept} of {} columns were kept", columns.count));
    }
    // The file's decimals are rounded in any case.
    let Relative { positions, origin, rounding: _ } = positions.finish();
    report.origin = origin;
    let normals = columns.normal.map(|_| normals);
    let points = PointCloud { positions, normals };
    drop_not_finite(Scan { points, triangles: vec![], report }, fault)
}

/// What stands before the points.
#[derive(Default)]
struct Head {
    /// Columns by their names, and the names.
    columns: Option<Columns>,
    fields: Vec<String>,
    fields_at: Place,
    /// Number of points, as PTS and other programs write it.
    declared: Option<(f64, Place)>,
}

impl Head {
    /// Reads the lines up to the first point.
    fn read<'a>(
        rows: &mut Peekable<impl Iterator<Item = (Place, &'a [u8])>>,
    ) -> Result<Head, ParseError> {
        let mut head = Head::default();
        while let Some(&(place, line)) = rows.peek() {
            let found = words(line);
            let is_comment = line.trim_ascii_start().starts_with(b"//");
            let numbers = found.iter().filter_map(|word| number(word)).collect::<Vec<f64>>();
            if numbers.len() == found.len() && !is_comment {
                let count = numbers[0];
                let is_count = numbers.len() == 1 && count >= 0.0 && count.fract() == 0.0;
                if !is_count || head.declared.is_some() {
                    break;
                }
                head.declared = Some((count, place));
                rows.next();
                continue;
            }
            let texts = found.iter().map(|word| String::from_utf8_lossy(word).into_owned());
            let texts = texts.collect::<Vec<String>>();
            match Columns::named(&texts) {
                Some(named) if head.columns.is_none() => {
                    head = Head { columns: Some(named), fields: texts, fields_at: place, ..head };
                }
                _ if is_comment => {}
                _ => {
                    let (expected, found) = (LINE, excerpt(line));
                    return Err(ParseErrorKind::Unexpected { expected, found }.at(place));
                }
            }
            rows.next();
        }
        Ok(head)
    }
}

/// Reads the numbers of a point: `count` of them, or at least three.
fn point(
    place: Place,
    line: &[u8],
    index: u64,
    count: Option<usize>,
) -> Result<Vec<f64>, ParseError> {
    let found = words(line);
    if count.map_or(found.len() < 3, |count| found.len() != count) {
        let expected = count.map_or("at least 3".to_owned(), |count| count.to_string());
        let (element, found) = ("point".to_owned(), found.len() as u64);
        return Err(ParseErrorKind::Values { element, index, expected, found }.at(place));
    }
    let value = |(column, word): (usize, &&[u8])| {
        number(word).ok_or_else(|| {
            let (element, field) = ("point".to_owned(), format!("column {}", column + 1));
            let (expected, found) = ("a number", excerpt(word));
            ParseErrorKind::Number { element, index, field, expected, found }.at(place)
        })
    };
    found.iter().enumerate().map(value).collect()
}

/// Points read so far.
struct Reader {
    columns: Columns,
    positions: Positions,
    /// One per point if there are columns for them.
    normals: Vec<[f32; 3]>,
    /// First coordinate that is not finite.
    fault: Option<ParseError>,
}

impl Reader {
    fn push(&mut self, values: &[f64], place: Place) {
        let Columns { coordinates, normal, .. } = &self.columns;
        let wanted = coordinates.iter().chain(normal.iter().flatten());
        for (slot, &column) in wanted.enumerate() {
            let value = values[column];
            if !(value as f32).is_finite() && self.fault.is_none() {
                let (vertex, field) = (self.positions.len() as u64, FIELDS[slot]);
                let kind = ParseErrorKind::NotFinite { vertex, field, value };
                self.fault = Some(kind.at(place));
            }
        }
        self.positions.push(coordinates.map(|column| values[column]));
        self.normals.extend(normal.map(|normal| normal.map(|column| values[column] as f32)));
    }
}
