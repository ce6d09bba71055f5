//! Headings, lines, numbers and faults of CSV files, read in one call and row by row.
use super::*;

fn csv_of(text: &str, names: &[&str]) -> Result<Vec<Column>, String> {
    csv_with(text, names, false)
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
    let names = names.iter().map(|name| name.parse().unwrap()).collect::<Vec<ColumnName>>();
    // In one call, and row by row.
    let results = [usize::MAX, 1].map(|most| {
        let mut csv = Csv::new(text.as_bytes(), &names.iter().collect::<Vec<_>>(), wide, header);
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
    let or_heading = "; --header yes, if this line is a heading";
    for first in ["-1", "+1", "#id", "", "1x", "(id)", "-", "\u{a0}1"] {
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
        let error = csv_of(&["1,\"a", "b\"", "x,2"].join(end), &["1"]).unwrap_err();
        assert!(error.starts_with("t.csv: line 3, column 1: found \"x\""), "{end:?}: {error}");
        for open in [&["1,a", "2,\"b", "3,c", "4,d"][..], &["1,a", "2,\"b", ""]] {
            let error = csv_of(&open.join(end), &["1"]).unwrap_err();
            assert_eq!(error, "t.csv: line 2: a quote is never closed", "{end:?}");
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
        ("", "1", "is empty, expected lines of numbers".into()),
        ("1\n2\nx\n", "1", format!("line 3, column 1: found \"x\", {expected}")),
        ("a,b\n1,2\n3,-4\n", "b", format!("line 3, column \"b\": found \"-4\", {expected}")),
        (
            "1\n18446744073709551616\n",
            "1",
            format!("line 2, column 1: found \"18446744073709551616\", {expected}"),
        ),
        ("1\n1.5\n", "1", format!("line 2, column 1: found \"1.5\", {expected}")),
        ("1,\n", "2", format!("line 1, column 2: found \"\", {expected}{or_heading}")),
        ("1x\n", "1", format!("line 1, column 1: found \"1x\", {expected}{or_heading}")),
        ("1,2\n3\n", "1", "line 2: 1 columns, expected 2 as before".into()),
        ("1,2\n", "3", "line 1: 2 columns, column 3 was selected".into()),
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
