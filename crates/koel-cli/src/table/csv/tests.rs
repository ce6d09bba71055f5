//! Headings, lines, numbers and faults of CSV files, read in one call and row by row.
use super::*;

fn csv_of(text: &str, names: &[&str]) -> Result<Vec<Column>, String> {
    csv_with(text, names, false)
}
fn notes_of(text: &str, names: &[&str]) -> Vec<String> {
    read_all(text, names, false, Header::Auto).unwrap().1.notes()
}
fn csv_with(text: &str, names: &[&str], wide: bool) -> Result<Vec<Column>, String> {
    read_all(text, names, wide, Header::Auto).map(|(columns, _)| columns)
}
/// Returns the columns and the line counts.
fn read_all(
    text: &str,
    names: &[&str],
    wide: bool,
    header: Header,
) -> Result<(Vec<Column>, Lines), String> {
    read_parts(text.as_bytes(), b',', names, wide, header)
}
/// A stream that gives its bytes in parts.
struct Parts<'a>(&'a [u8], usize);
impl Read for Parts<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let part = &mut self.0.take(self.1 as u64);
        let read = part.read(bytes)?;
        self.0 = &self.0[read..];
        Ok(read)
    }
}
fn read_parts(
    text: &[u8],
    delimiter: u8,
    names: &[&str],
    wide: bool,
    header: Header,
) -> Result<(Vec<Column>, Lines), String> {
    let names = names.iter().map(|name| name.parse().unwrap()).collect::<Vec<ColumnName>>();
    let names = names.iter().collect::<Vec<_>>();
    // In one call, and row by row, byte by byte.
    let results = [usize::MAX, 1].map(|most| {
        let selection = Selection { names: &names, wide, strings: false, header, with_gaps: true };
        let mut csv = Csv::new(Parts(text, most), delimiter, selection);
        let mut columns = csv.columns();
        loop {
            match csv.read(Path::new("t.csv"), &mut columns, most) {
                Ok(0) => break Ok((columns, csv.lines)),
                Ok(rows) => assert!(rows <= most),
                Err(Failure::Usage(message)) => break Err(message),
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(results[0], results[1]);
    results[0].clone()
}
fn narrow(numbers: &[u32]) -> Column {
    Column::U32(numbers.to_vec())
}
fn heading(text: &str, header: Header) -> Option<Heading> {
    read_all(text, &["1"], false, header).unwrap().1.heading
}

#[test]
fn a_first_field_that_is_no_name_is_a_row() {
    // Blanks and signs do not begin names.
    assert_eq!(csv_of(" 1,10\n 2,20\n 3,30", &["1"]), Ok(vec![narrow(&[1, 2, 3])]));
    assert_eq!(csv_of("\t1\n2\n", &["1"]), Ok(vec![narrow(&[1, 2])]));
    assert_eq!(csv_of("\u{feff}1\n2\n", &["1"]), Ok(vec![narrow(&[1, 2])]), "a byte order mark");
    assert_eq!(csv_of("\u{feff}\"id\"\n2\n", &["id"]), Ok(vec![narrow(&[2])]));
    let or_heading = "; --header yes, if this line is a heading";
    for first in ["-1", "+1", "#id", "", "1x", "(id)", "-", "\u{a0}1", "NULL", "nan", "N/A"] {
        let error = csv_of(&format!("{first},5\n2,6\n"), &["1"]).unwrap_err();
        assert!(error.starts_with("t.csv: line 1, column 1: found \""), "{first:?}: {error}");
        assert!(error.ends_with(or_heading), "{first:?}: {error}");
    }
    // Mistyped keys are not names either.
    for first in ["f47ac10b-58cc-4372-a5670-e02b2c3d479", "a47ac10b58cc4372a5670e02b2c3d4790"] {
        let error = csv_with(&format!("{first}\n7\n"), &["1"], true).unwrap_err();
        assert!(
            error.contains("line 1, column 1: found \"") && error.ends_with(or_heading),
            "{error}"
        );
    }
    // Of two selected columns, one is not a name.
    let error = csv_of("id,5\n1,6\n", &["1", "2"]).unwrap_err();
    assert!(error.contains("line 1, column 1: found \"id\""), "{error}");
}
#[test]
fn a_heading_is_told_and_why() {
    let of = |text: &str, why| Some(Heading { line: 1, text: text.into(), why });
    assert_eq!(heading("id,v\n1,2\n", Header::Auto), of("id,v", BY_LETTERS));
    assert_eq!(heading(" _id\n1\n", Header::Auto), of(" _id", BY_LETTERS));
    assert_eq!(heading("ключ\n1\n", Header::Auto), of("ключ", BY_LETTERS));
    assert_eq!(heading("7,v\n1,2\n", Header::Auto), None);
    assert_eq!(heading("7,v\n1,2\n", Header::Yes), of("7,v", BY_OPTION));
    assert_eq!(heading("7,v\n1,2\n", Header::No), None);
    let long = "é".repeat(70);
    assert_eq!(heading(&long, Header::Yes).unwrap().text, format!("{}...", "é".repeat(60)));
    let by_name = read_all("1,2\n3,4\n", &["1", "\"2\""], false, Header::Auto);
    assert!(by_name.unwrap_err().contains("no column"), "names are taken as they are");
    let (columns, lines) = read_all("a,2\n3,4\n", &["a"], false, Header::Yes).unwrap();
    assert_eq!((columns, lines.heading), (vec![narrow(&[3])], of("a,2", BY_NAME)));
    let error = read_all("id\n1\n", &["1"], false, Header::No).unwrap_err();
    assert!(
        error.contains("line 1, column 1: found \"id\"") && !error.contains("--header"),
        "{error}"
    );
    let error = read_all("id\n1\n", &["id"], false, Header::No).unwrap_err();
    assert_eq!(error, "t.csv: column \"id\" is selected by name, which excludes --header no");
    let error = csv_of("id,v,id\n1,2,3\n", &["id"]).unwrap_err();
    let says = "line 1: columns 1 and 3 have the name \"id\", expected a column number";
    assert_eq!(error, format!("t.csv: {says}"));
}
#[test]
fn every_line_is_counted() {
    for end in ["\n", "\r\n", "\r"] {
        let text = ["id", "", "1", "\"2\"", "", "", "3", ""].join(end);
        let (columns, lines) = read_all(&text, &["1"], false, Header::Auto).unwrap();
        assert_eq!((columns, lines.read, lines.rows), (vec![narrow(&[1, 2, 3])], 7, 3), "{end:?}");
        assert_eq!(lines.notes(), ["3 blank lines were skipped, the first is line 2"]);
        let text = ["", "1", "", "x", "4"].join(end);
        let error = csv_of(&text, &["1"]).unwrap_err();
        assert!(error.starts_with("t.csv: line 4, column 1: found \"x\""), "{end:?}: {error}");
        let error = csv_of(&["1,2", "", "3"].join(end), &["1"]).unwrap_err();
        assert_eq!(error, "t.csv: line 3: 1 columns, expected 2 as before", "{end:?}");
        // A field of two lines, and the line after it.
        let spans = "1 quoted fields span several lines, the first lines 1 to 2 in column 2";
        assert_eq!(notes_of(&["1,\"a", "b\"", "2,b"].join(end), &["1"]), [spans]);
        let error = csv_of(&["1,\"a", "b\"", "x,2"].join(end), &["1"]).unwrap_err();
        assert!(error.starts_with("t.csv: line 3, column 1: found \"x\""), "{end:?}: {error}");
        for open in [&["1,a", "2,\"b", "3,c", "4,d"][..], &["1,a", "2,\"b", ""]] {
            let error = csv_of(&open.join(end), &["1"]).unwrap_err();
            let says = "t.csv: line 2: a quote is never closed, that of column 2";
            assert_eq!(error, says, "{end:?}");
        }
    }
    let (columns, lines) = read_all("1\n2", &["1"], false, Header::Auto).unwrap();
    assert_eq!((columns, lines.read, lines.notes()), (vec![narrow(&[1, 2])], 2, vec![]));
    assert_eq!(
        csv_of("1,5\" pipe\n2,x\n", &["1"]),
        Ok(vec![narrow(&[1, 2])]),
        "a quote within a field"
    );
}
#[test]
fn digits_alone_are_decimal() {
    let ten_to_31 = 10u128.pow(31);
    let text = format!("{ten_to_31}\n00000000-0000-0000-0000-000000000010\n0x10\n");
    assert_eq!(csv_with(&text, &["1"], true), Ok(vec![Column::U128(vec![ten_to_31, 16, 16])]));
    let (_, lines) = read_all(&text, &["1"], true, Header::Auto).unwrap();
    assert!(lines.notes().is_empty());
    let mixed = format!("1\n{:032x}\n{ten_to_31}\n", u128::MAX);
    let (columns, lines) = read_all(&mixed, &["1"], true, Header::Auto).unwrap();
    assert_eq!(columns, [Column::U128(vec![1, u128::MAX, ten_to_31])]);
    assert_eq!(
        lines.notes(),
        ["1 keys of 32 digits without a letter were read as decimal, the first in line 3, \
             next to 1 hexadecimal keys; 0x makes a key hexadecimal"]
    );
}

#[test]
fn columns_are_found_by_number_and_by_name() {
    assert_eq!(csv_of("1,2\n3,4\n", &["1"]), Ok(vec![narrow(&[1, 3])]));
    assert_eq!(csv_of("1,2\r\n 3 ,4", &["1", "2"]), Ok(vec![narrow(&[1, 3]), narrow(&[2, 4])]));
    assert_eq!(csv_of("id,v\n1,2\n", &["2"]), Ok(vec![narrow(&[2])]), "a line of names");
    assert_eq!(
        csv_of("id,\"my v\"\n1,2\n3,\"4\"\n", &["my v", "id"]),
        Ok(vec![narrow(&[2, 4]), narrow(&[1, 3])])
    );
    assert_eq!(csv_of("id\n", &["id"]), Ok(vec![narrow(&[])]));
    let wide = vec![1, 4294967296, u64::MAX, 2];
    assert_eq!(
        csv_of("1\n4294967296\n18446744073709551615\n2\n", &["1"]),
        Ok(vec![Column::U64(wide)])
    );
}
#[test]
fn faults_of_csv_name_the_line() {
    let expected = "expected a whole number from 0 to 18446744073709551615";
    let or_heading = "; --header yes, if this line is a heading";
    for (text, name, says) in [
        ("", "id", "is empty, expected a column \"id\"".into()),
        ("1\n2\nx\n", "1", format!("line 3, column 1: found \"x\", {expected}")),
        ("a,b\n1,2\n3,-4\n", "b", format!("line 3, column \"b\": found \"-4\", {expected}")),
        (
            "1\n18446744073709551616\n",
            "1",
            format!("line 2, column 1: found \"18446744073709551616\", {expected}"),
        ),
        ("1\n1.5\n", "1", format!("line 2, column 1: found \"1.5\", {expected}")),
        ("1,\n", "2", format!("line 1, column 2: found \"\", {expected}{or_heading}")),
        ("1\nNULL\n", "1", format!("line 2, column 1: found \"NULL\", {expected}")),
        ("1\n1e3\n", "1", format!("line 2, column 1: found \"1e3\", {expected}")),
        ("1\n\"1,000\"\n", "1", format!("line 2, column 1: found \"1,000\", {expected}")),
        ("1,2\n3,4,\n", "1", "line 2: 3 columns, expected 2 as before".into()),
        ("1x\n", "1", format!("line 1, column 1: found \"1x\", {expected}{or_heading}")),
        ("1,2\n3\n", "1", "line 2: 1 columns, expected 2 as before".into()),
        ("1,2\n", "3", "line 1: 2 columns, column 3 was selected by its position".into()),
        ("a,b\n1,2\n", "c", "line 1: no column \"c\", the columns are a, b".into()),
    ] {
        assert_eq!(csv_of(text, &[name]), Err(format!("t.csv: {says}")), "{text:?}");
    }
    assert_eq!("0".parse::<ColumnName>(), Err("columns are counted from 1".into()));
}
#[test]
fn keys_of_128_bits_are_written_in_several_ways() {
    let one = 0xF47A_C10B_58CC_4372_A567_0E02_B2C3_D479u128;
    let ways = [
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        " F47AC10B58CC4372A5670E02B2C3D479 ",
        "0xf47ac10b58cc4372a5670e02b2c3d479",
        "324969006592305634633390616021200786553",
    ];
    for way in ways {
        assert_eq!(
            csv_with(&format!("{way},5\n"), &["1", "2"], true).unwrap()[0],
            Column::U128(vec![one]),
            "{way}"
        );
    }
    let of = |text: &str| csv_with(text, &["1"], true);
    assert_eq!(of("uuid\n0\n0x1f\n"), Ok(vec![Column::U128(vec![0, 31])]), "a line of names");
    assert_eq!(of(&format!("{}\n", u128::MAX)), Ok(vec![Column::U128(vec![u128::MAX])]));
    assert_eq!(csv_with("0x2,7\n3,8\n", &["1", "2"], true).unwrap()[1], Column::U32(vec![7, 8]));
    for wrong in [
        "f47ac10b-58cc-4372-a5670-e02b2c3d479",
        "f47ac10b-58cc-4372-a567-0e02b2c3d47",
        "f47ac10b58cc4372a5670e02b2c3d47g",
        "0x",
        "0x100000000000000000000000000000000",
        "340282366920938463463374607431768211456",
        "-1",
        "1a",
        "+1",
        "",
    ] {
        let error =
            of(&format!("1\n{wrong},\n").replace(',', if wrong.is_empty() { " " } else { "" }))
                .unwrap_err();
        assert!(
            error.starts_with("t.csv: line 2, column 1: found \"")
                && error.contains("expected 128 bits"),
            "{error}"
        );
    }
    let error = csv_with("2,x\n", &["1", "2"], true).unwrap_err();
    assert!(
        error.contains("column 2") && error.contains("from 0 to 18446744073709551615"),
        "{error}"
    );
}

#[test]
fn quotes_swallow_no_row() {
    let twice = "expected the end of the field; a quote in a quoted field is written twice";
    let escaped = "expected the end of the field; \\ does not escape a quote, a second quote does";
    for (text, says) in [
        (
            "1,\"a\"\n2,\"b\"\"\n3,\"c\"\n4,\"d\"\n",
            format!(
                "line 3, column 2: found \"c\\\"\" after a closing quote, for the field that begins \
                 in line 2, {twice}"
            ),
        ),
        ("1,\"a\"b,c\n", format!("line 1, column 2: found \"b,c\" after a closing quote, {twice}")),
        (
            "1,2\n3,\"say \\\"hi\\\"\"\n",
            format!("line 2, column 2: found \"hi\\\\\\\"\\\"\" after a closing quote, {escaped}"),
        ),
        ("\"1\"5\n", format!("line 1, column 1: found \"5\" after a closing quote, {twice}")),
        ("1,5\" pipe\n2,\"open\n3,b\n", "line 2: a quote is never closed, that of column 2".into()),
        ("1,\"", "line 1: a quote is never closed, that of column 2".into()),
        ("1,\"a\n\"\"", "line 1: a quote is never closed, that of column 2".into()),
        (" \"1", "line 1: a quote is never closed, that of column 1".into()),
    ] {
        assert_eq!(csv_of(text, &["1"]), Err(format!("t.csv: {says}")), "{text:?}");
    }
    // Valid fields of several lines, one that ends in a line feed, and an odd number of quotes.
    let text = "1,5\" pipe\n2,\"a\n\"\n3,\"b\n\nc\"\n4,\"\"\n";
    assert_eq!(csv_of(text, &["1"]), Ok(vec![narrow(&[1, 2, 3, 4])]));
    let spans = "2 quoted fields span several lines, the first lines 2 to 3 in column 2, the \
                 longest lines 4 to 6";
    let inner = "1 quotes within fields that do not begin with one were read as text, the first in \
                 line 1, column 2";
    assert_eq!(notes_of(text, &["1"]), [spans, inner]);
    // Blanks outside the quotes, and quotes in other positions.
    let text = "\"1\" ,\t\"a, b\" , 3\n2,'c\",4 \"\n";
    assert_eq!(csv_of(text, &["1"]), Ok(vec![narrow(&[1, 2])]));
}
#[test]
fn guesses_about_the_first_line_are_noted() {
    let taken = |text: &str| format!("line 1, {text:?}, was taken for the heading: {BY_LETTERS}");
    assert_eq!(notes_of("O15\n16\n", &["1"]), [taken("O15")]);
    assert_eq!(notes_of("x1,y\n16,3\n", &["1", "2"]), [taken("x1,y")]);
    assert_eq!(notes_of("id,v\n16,3\n", &["1"]), [""; 0]);
    assert_eq!(notes_of("id,v2\n16,3\n", &["1"]), [""; 0]);
    let (columns, lines) = read_all("2019,total\n5,6\n7,8\n", &["1"], false, Header::Auto).unwrap();
    assert_eq!(
        (columns, lines.no_heading),
        (vec![narrow(&[2019, 5, 7])], Some(NO_HEADING_BY_NUMBERS))
    );
    let looks = "the first line was read as a row, but column 2 has \"total\" there and a number in \
                 line 2; --header yes, if it is a heading";
    assert_eq!(lines.notes(), [looks]);
    assert_eq!(notes_of("2019,total\n5,Oslo\n7,8\n", &["1"]), [""; 0]);
    // Digits are a position.
    let says = "line 1: 2 columns, column 2020 was selected by its position; the column with the name \
                \"2020\" is column 2, and --header yes makes this line the heading";
    assert_eq!(csv_of("2019,2020\n5,6\n", &["2020"]), Err(format!("t.csv: {says}")));
    let (columns, lines) = read_all("2019,2020\n5,6\n", &["2"], false, Header::Yes).unwrap();
    assert_eq!((columns, lines.notes()), (vec![narrow(&[6])], vec![]));
    let (columns, lines) = read_all("2,1\n5,6\n", &["2"], false, Header::Yes).unwrap();
    let says = "column 2 was selected by its position; the column with the name \"2\" is column 1";
    assert_eq!((columns, lines.notes()), (vec![narrow(&[6])], vec![says.into()]));
    let zeros = "2 numbers were read without their leading zeros, the first in line 2, column 1";
    assert_eq!(notes_of("0\n007\n10\n 01 \n", &["1"]), [zeros]);
}
#[test]
fn other_formats_are_named() {
    let tabs = "; ',' separates fields, not '\\t': name the file .tsv, or --format tsv";
    for (text, says) in [
        (&b"\x1F\x8B\x08\x00"[..], "is not CSV in UTF-8 but gzip: gunzip -c"),
        (b"\xFF\xFEi\0d\0\n\0", "is not CSV in UTF-8 but UTF-16: iconv"),
        (b"PK\x03\x04", "is not CSV in UTF-8 but a zip archive or a workbook"),
        (b"\x93NUMPY\x01\0", "is not CSV in UTF-8 but a NumPy array: name it .npy"),
        (b"1\0\0\0", "found \"1\\x00\\x00\\x00\""),
        (b"1\0\0\0", "; the file may be binary (--format npy, u32, u64) or UTF-16"),
        (b"1\t2\n", tabs),
        (b"a;b\n1;2\n", "found \"1;2\""),
        (b"a;b\n1;2\n", "; ',' separates fields, not ';'"),
    ] {
        let error = read_parts(text, b',', &["1"], false, Header::Auto).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    let error = csv_of("id;v\n1;2\n", &["v"]).unwrap_err();
    let says =
        "t.csv: line 1: no column \"v\", the columns are id;v; ',' separates fields, not ';'";
    assert_eq!(error, says);
    let of_tabs = read_parts(b"id\tv\n1,\t\"2\"\n", b'\t', &["v"], false, Header::Auto).unwrap();
    assert_eq!(of_tabs.0, [narrow(&[2])]);
}
#[test]
fn fields_may_be_longer_than_the_buffer() {
    let long = "x".repeat(1 << 20);
    let text = format!("id,{long},\"{long}\n\"\n1,\"{long}\",{long}\n2,,\n");
    let (columns, lines) = read_all(&text, &["id"], false, Header::Auto).unwrap();
    assert_eq!((columns, lines.read), (vec![narrow(&[1, 2])], 4));
    // A number of any length is no number once it is cut.
    let error = csv_of(&format!("1\n{}1\n", "0".repeat(1 << 18)), &["1"]).unwrap_err();
    assert!(error.contains("line 2, column 1: found \"0000") && error.len() < 300, "{error}");
}
#[test]
fn blank_lines_between_rows_are_located() {
    let gaps = |text: &str| {
        let (_, lines) = read_all(text, &["1"], false, Header::Auto).unwrap();
        lines.gaps.iter().map(|gap| [gap.row, gap.blank, gap.line]).collect::<Vec<_>>()
    };
    assert_eq!(gaps("\n1\n\n3\n\n\n4\n\n"), [[1, 1, 3], [2, 2, 5]]);
    assert_eq!(gaps("id\n\n1\n\n"), [[0; 3]; 0]);
}
