//! Tables of the rows of several columns of types known at run time, against hash maps of text.
use crate::any_tables::{TYPES, column, copies, draws, identities, texts};
use crate::support::{Random, devices, is_fast};
use koel::any::{Column, ColumnVec, DataType, Keys, Kind, Nulls, Table, TableOptions, Validity};
use koel::{Device, Duplicates, NO_ID, Outcome};
use std::collections::HashMap;

/// Columns of keys, some of which have nulls.
struct Columns {
    values: Vec<ColumnVec>,
    valid: Vec<Option<Vec<bool>>>,
    nulls: Nulls,
}
/// What tells the rows apart; `None` for rows that are no key.
type Rows = Vec<Option<Vec<Option<String>>>>;
impl Columns {
    /// Draws rows of a few values each. `nullable`: a bit for each column.
    fn new(random: &mut Random, types: &[DataType], nullable: u64, nulls: Nulls, n: usize) -> Self {
        let values = types.iter().map(|&of| column(of, &draws(random, n, 4)));
        let values = values.collect::<Vec<_>>();
        let valid = (0..types.len()).map(|i| {
            let flags = (0..n).map(|_| random.below(4) > 0).collect::<Vec<_>>();
            (nullable >> i & 1 != 0).then_some(flags)
        });
        Columns { values, valid: valid.collect(), nulls }
    }
    fn columns(&self) -> Vec<Column<'_>> {
        let columns = self.values.iter().zip(&self.valid);
        columns
            .map(|(values, valid)| match valid {
                Some(flags) => values.as_column().with_validity(Validity::Flags(flags)).unwrap(),
                None => values.as_column(),
            })
            .collect()
    }
    fn keys(&self) -> Keys<'_> {
        Keys::new(self.columns()).unwrap().with_nulls(self.nulls)
    }
    /// Returns what tells the rows apart in a table that says that some columns are null.
    fn rows(&self, says_null: impl Fn(usize) -> bool) -> Rows {
        let texts = self.columns().iter().map(identities).collect::<Vec<_>>();
        let row = |i: usize| {
            let texts = texts.iter().enumerate();
            let of = texts.map(|(column, texts)| match &texts[i] {
                None if !says_null(column) => None,
                text => Some(text.clone()),
            });
            of.collect::<Option<Vec<_>>>()
        };
        (0..self.values[0].len()).map(row).collect()
    }
}
/// Returns what tells rows of columns of a table apart.
fn rows_of(columns: &[ColumnVec]) -> Vec<Vec<Option<String>>> {
    let texts = columns.iter().map(|column| identities(&column.as_column())).collect::<Vec<_>>();
    (0..columns[0].len()).map(|i| texts.iter().map(|texts| texts[i].clone()).collect()).collect()
}
/// Calls a function with columns of many kinds: of numbers that fit 32, 64 and 128 bits, of more,
/// with strings; with and without nulls, which are keys or not; and with other rows.
fn cases(mut check: impl FnMut(&Device, &Columns, &Columns, &str)) {
    use DataType::*;
    let mut lists = vec![
        vec![I16, Bool],
        vec![U32],
        vec![I128],
        vec![Bytes],
        vec![F32, F64],
        vec![Bytes, Bytes, Bytes],
        vec![U8, Bytes, I64, Bytes, Bool],
        vec![U64, I64, F32],
    ];
    let mut random = Random(5);
    for n in 2..5 {
        for _ in 0..2 {
            lists.push((0..n).map(|_| TYPES[random.below(14) as usize]).collect());
        }
    }
    for device in devices() {
        for (i, types) in lists.iter().enumerate() {
            let slow = !is_fast(&device);
            for (j, nulls) in [Nulls::Equal, Nulls::Equal, Nulls::Excluded].into_iter().enumerate()
            {
                // A slow device checks each list once.
                if slow && i % 3 != j {
                    continue;
                }
                let mut some = || if j > 0 { random.below(32) } else { 0 };
                let (of_table, of_asked) = (some(), some());
                // What is excluded from a table cannot be built.
                let of_table = if nulls == Nulls::Excluded { 0 } else { of_table };
                for n in if slow { &[60][..] } else { &[1, 200] } {
                    let of = Columns::new(&mut random, types, of_table, nulls, *n);
                    let asked = Columns::new(&mut random, types, of_asked, Nulls::Equal, *n + 7);
                    let place = format!(
                        "{types:?}, {of_table:b}, {of_asked:b}, {nulls:?}, {}",
                        device.name()
                    );
                    check(&device, &of, &asked, &place);
                }
            }
        }
    }
}
/// Returns the rows of each key, and the rows that are asked as they are compared with them.
fn oracle(of: &Columns, asked: &Columns) -> (HashMap<Vec<Option<String>>, Vec<u32>>, Rows) {
    let says_null = |column: usize| of.valid[column].is_some() && of.nulls == Nulls::Equal;
    let mut all = HashMap::<_, Vec<u32>>::new();
    for (row, key) in (0..).zip(of.rows(says_null)) {
        all.entry(key.expect("rows of a table are keys")).or_default().push(row);
    }
    (all, asked.rows(says_null))
}

#[test]
fn maps_of_rows() {
    cases(|device, of, asked, place| {
        let (oracle, queries) = oracle(of, asked);
        let n = of.values[0].len();
        let numbers = (0..n as u32).collect::<Vec<_>>();
        for value in [DataType::U32, DataType::I128, DataType::Bytes] {
            let values = match value {
                DataType::U32 => ColumnVec::from(numbers.clone()),
                _ => column(value, &(0..n as u64).map(|i| i + 7).collect::<Vec<_>>()),
            };
            let values = values.as_column();
            let map = Table::build(device, Kind::Map, &of.keys(), Some(&values)).unwrap();
            let value = |row: u32| texts(&values)[row as usize].clone();
            for mut map in copies(device, map) {
                assert_eq!(map.len().unwrap(), oracle.len(), "{place}");
                let found = texts(&map.get(&asked.keys()).unwrap().as_column());
                let there = map.contains(&asked.keys()).unwrap();
                for (i, key) in queries.iter().enumerate() {
                    let rows = key.as_ref().and_then(|key| oracle.get(key));
                    assert_eq!(
                        found[i],
                        rows.and_then(|rows| value(rows[rows.len() - 1])),
                        "{place}"
                    );
                    assert_eq!(there[i], rows.is_some(), "{place}");
                }
                let (keys, of_keys) = map.pairs().unwrap();
                assert_eq!(keys.len(), of.values.len(), "{place}");
                let pairs = rows_of(&keys).into_iter().zip(texts(&of_keys.as_column()));
                let last =
                    |(key, rows): (&Vec<_>, &Vec<u32>)| (key.clone(), value(rows[rows.len() - 1]));
                assert_eq!(
                    pairs.collect::<HashMap<_, _>>(),
                    oracle.iter().map(last).collect(),
                    "{place}"
                );
                let outcomes = map.insert(&of.keys(), Some(&values)).unwrap();
                assert!(outcomes.iter().all(|&outcome| outcome == Outcome::Kept), "{place}");
                let erased = map.erase(&of.keys()).unwrap();
                let erased = erased.iter().filter(|&&outcome| outcome == Outcome::Erased).count();
                assert_eq!((erased, map.len().unwrap()), (oracle.len(), 0), "{place}");
            }
        }
    });
}

#[test]
fn sets_indexes_and_multimaps_of_rows() {
    cases(|device, of, asked, place| {
        let (oracle, queries) = oracle(of, asked);
        let n = of.values[0].len();
        let known = |key: &Option<Vec<_>>| key.as_ref().and_then(|key| oracle.get(key));
        let mut distinct = oracle.keys().cloned().collect::<Vec<_>>();
        distinct.sort();
        let sorted = |columns: Vec<ColumnVec>| {
            let mut rows = rows_of(&columns);
            rows.sort();
            rows
        };
        for set in copies(device, Table::build(device, Kind::Set, &of.keys(), None).unwrap()) {
            let there = set.contains(&asked.keys()).unwrap();
            assert!(
                there.iter().zip(&queries).all(|(a, key)| *a == known(key).is_some()),
                "{place}"
            );
            assert_eq!(sorted(set.keys().unwrap()), distinct, "{place}");
        }
        for index in copies(device, Table::build(device, Kind::Index, &of.keys(), None).unwrap()) {
            assert_eq!(sorted(index.keys().unwrap()), distinct, "{place}");
            let ids = index.ids(&asked.keys()).unwrap();
            let keys = index.keys_of(&ids).unwrap();
            for (i, key) in queries.iter().enumerate() {
                assert_eq!(ids[i] != NO_ID, known(key).is_some(), "{place}");
                if known(key).is_some() {
                    assert_eq!(Some(&rows_of(&keys)[i]), key.as_ref(), "{place}");
                } else {
                    assert!(keys.iter().all(|column| column.as_column().is_null(i)), "{place}");
                }
            }
        }
        let values = (0..n as u128).collect::<Vec<_>>();
        let values = Column::from(&values);
        let map = Table::build(device, Kind::MultiMap, &of.keys(), Some(&values)).unwrap();
        for map in copies(device, map) {
            let counts = map.counts(&asked.keys()).unwrap();
            let found = map.retrieve(&asked.keys()).unwrap();
            let values = found.values.values::<u128>().unwrap();
            for (i, key) in queries.iter().enumerate() {
                let rows = known(key).map_or(&[][..], |rows| rows);
                assert_eq!(counts[i] as usize, rows.len(), "{place}");
                assert!(values[found.of(i)].iter().copied().eq(rows.iter().map(|&r| r.into())));
            }
            let (keys, values) = map.pairs().unwrap();
            let values = values.values::<u128>().unwrap();
            let mut pairs = HashMap::<_, Vec<u32>>::new();
            for (key, &value) in rows_of(&keys).into_iter().zip(values) {
                pairs.entry(key).or_default().push(value as u32);
            }
            assert_eq!(pairs, oracle, "{place}");
        }
    });
}

/// Ids of an index and groups of a multimap are in the order of rows, the first column first.
#[test]
fn multimaps_are_in_the_order_of_rows() {
    for device in devices() {
        let flags = [true, true, false, true, true, true];
        let first = Column::from(&[2i8, -1, 9, 2, -1, 2]);
        let first = first.with_validity(Validity::Flags(&flags)).unwrap();
        let second = Column::from(&[0.5f32, 7.0, 0.0, -0.5, f32::NAN, 0.5]);
        let keys = Keys::new([first, second]).unwrap();
        let values = Column::from(&[0u8, 1, 2, 3, 4, 5]);
        let map = Table::build(&device, Kind::MultiMap, &keys, Some(&values)).unwrap();
        let (keys, values) = map.pairs().unwrap();
        let expected = [Some(-1), Some(-1), Some(2), Some(2), Some(2), None];
        assert_eq!(keys[0].to_options::<i8>().unwrap(), expected);
        assert_eq!(values.values::<u8>().unwrap(), [1, 4, 3, 0, 5, 2]);
    }
}

#[test]
fn rows_that_a_table_does_not_have_are_refused() {
    let device = Device::cpu().unwrap();
    let (a, b) = (Column::from(&[1i16, 1]), Column::from(&["x", "y"]));
    let pair = |a, b| Keys::new([a, b]).unwrap();
    let set = Table::build(&device, Kind::Set, &pair(a, b), None).unwrap();
    assert_eq!(set.key_types().unwrap(), [DataType::I16, DataType::Bytes]);
    assert!(format!("{set:?}").contains("(i16, bytes)"), "{set:?}");
    let error = set.contains(&a).unwrap_err().to_string();
    assert!(error.contains("columns of a key") && error.contains("the table"), "{error}");
    let error = set.contains(&pair(b, a)).unwrap_err().to_string();
    assert_eq!(error, "`type of the keys` is bytes in column 0, must be i16, as in the table");
    // Null is no key of a column by itself, nor where it matches nothing.
    let with_null = a.with_validity(Validity::Flags(&[true, false])).unwrap();
    let excluded = pair(with_null, b).with_nulls(Nulls::Excluded);
    for error in [
        Table::build(&device, Kind::Set, &excluded, None).unwrap_err(),
        Table::build(&device, Kind::Set, &with_null, None).unwrap_err(),
    ] {
        assert!(error.to_string().contains("`keys` is null in row 1"), "{error}");
    }
    let one = Table::build(&device, Kind::Set, &Keys::new([with_null]).unwrap(), None).unwrap();
    assert!(format!("{one:?}").contains("i16?"), "{one:?}");
    assert_eq!(one.contains(&with_null).unwrap(), [true, true]);
    assert_eq!(one.contains(&Column::from(&[0i16, 1])).unwrap(), [false, true]);
    // A repeated key is given as a map of tuples gives it.
    let keys = pair(Column::from(&[-1i16, -1]), Column::from(&[2u8, 2]));
    let options = TableOptions::from(Kind::Map).with_duplicates(Duplicates::Reject);
    for values in [Column::from(&[1u8, 2]), Column::from(&["a", "b"])] {
        let error = Table::build(&device, options, &keys, Some(&values)).unwrap_err().to_string();
        assert!(error.contains(&format!("key {} occurs", 0x2_FFFF)), "{error}");
    }
    // Files describe a key in 64 bytes.
    let many = Keys::new([a; 14]).unwrap();
    let set = Table::build(&device, Kind::Set, &many, None).unwrap();
    assert_eq!(set.contains(&many).unwrap(), [true, true]);
    let error = set.save_to(&mut std::io::Cursor::new(vec![])).unwrap_err().to_string();
    assert!(error.contains("must be described by at most 64 bytes"), "{error}");
}

/// Files written when rows and wide values of multimaps were new, kept in `fuzz/seeds`.
#[test]
fn files_of_rows_stay_readable() {
    let device = Device::cpu().unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/table");
    let valid = [true, false, true, true];
    let number = Column::from(&[-7i16, 1, 5, -7]).with_validity(Validity::Flags(&valid)).unwrap();
    let text = Column::from(&["", "b\0", "long enough for two words", ""]);
    let weight = Column::from(&[0.5f32, -0.0, f32::NAN, 1.5]);
    let values = Column::from(&[1u128 << 100, 2, 3, 4]);
    let cases = [
        ("rows_of_numbers_u128.koel", Kind::MultiMap, vec![number, weight]),
        ("rows_of_strings_u128.koel", Kind::MultiMap, vec![text, number, text]),
        ("rows_of_strings_map.koel", Kind::Map, vec![number, text]),
    ];
    for (name, kind, columns) in cases {
        let (keys, path) = (Keys::new(columns).unwrap(), format!("{folder}/{name}"));
        let built =
            Table::build(&device, TableOptions::from(kind).with_seed(5), &keys, Some(&values));
        let built = built.unwrap();
        if std::env::var_os("KOEL_WRITE_SEEDS").is_some() {
            built.save(&path).unwrap();
        }
        // SAFETY: nobody changes the file.
        let opened = unsafe { Table::open(&path) }.unwrap();
        let loaded = Table::load(&device, &path).unwrap();
        for table in [opened, loaded] {
            table.verify().unwrap();
            match kind {
                Kind::Map => assert_eq!(table.get(&keys).unwrap(), built.get(&keys).unwrap()),
                _ => assert_eq!(table.retrieve(&keys).unwrap(), built.retrieve(&keys).unwrap()),
            }
            assert_eq!(rows_of(&table.keys().unwrap()), rows_of(&built.keys().unwrap()));
        }
    }
}
