//! Tables of columns of types known at run time, of all pairs of types, against hash maps of text.
use crate::support::{Random, devices, is_fast};
use koel::any::{Column, ColumnVec, DataType, Keys, Kind, Table, TableOptions, Typed, Validity};
use koel::{Device, Duplicates, NO_ID, Outcome, ValueOrder};
use std::collections::HashMap;
use std::io::Cursor;

pub(crate) const TYPES: [DataType; 14] = [
    DataType::Bool,
    DataType::I8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::I128,
    DataType::U8,
    DataType::U16,
    DataType::U32,
    DataType::U64,
    DataType::U128,
    DataType::F32,
    DataType::F64,
    DataType::Bytes,
];
/// Makes a value of each draw; the first draws are special values.
pub(crate) fn column(of: DataType, draws: &[u64]) -> ColumnVec {
    fn of_draws<T: Typed>(draws: &[u64], specials: &[T], other: impl Fn(u64) -> T) -> ColumnVec {
        let value = |&draw: &u64| specials.get(draw as usize).copied().unwrap_or(other(draw));
        draws.iter().map(value).collect::<Vec<T>>().into()
    }
    let spread = |draw: u64| u128::from(draw).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED);
    macro_rules! numbers {
        ($($name:ident $type:ty),+; $($float:ident $as:ty),+) => {
            match of {
                $(DataType::$name => of_draws(
                    draws,
                    &[0, 1, <$type>::MAX, <$type>::MIN],
                    |draw| spread(draw) as $type
                ),)+
                $(DataType::$float => of_draws(
                    draws,
                    &[0.0, -0.0, <$as>::NAN, -<$as>::NAN, <$as>::INFINITY, -<$as>::INFINITY],
                    |draw| draw as $as - 20.5
                ),)+
                DataType::Bool => of_draws(draws, &[], |draw| draw % 2 == 1),
                _ => {
                    let text = |draw: u64| match draw {
                        0..3 => "\0".repeat(draw as usize),
                        _ => "ab\0".repeat(draw as usize % 7) + &draw.to_string(),
                    };
                    let strings = draws.iter().map(|&draw| text(draw)).collect::<Vec<_>>();
                    let rows = (0..draws.len() as u32).collect::<Vec<_>>();
                    Column::from(&strings).take(&Device::cpu().unwrap(), &rows).unwrap()
                }
            }
        };
    }
    numbers! {
        I8 i8, I16 i16, I32 i32, I64 i64, I128 i128, U8 u8, U16 u16, U32 u32, U64 u64, U128 u128;
        F32 f32, F64 f64
    }
}
/// Returns the text of each row; `None` for null.
pub(crate) fn texts(column: &Column<'_>) -> Vec<Option<String>> {
    fn of<T: Typed>(column: &Column<'_>) -> Vec<String> {
        column.values::<T>().unwrap().iter().map(|value| format!("{value:?}")).collect()
    }
    macro_rules! texts {
        ($($name:ident $type:ty),+) => {
            match column.data_type() {
                $(DataType::$name => of::<$type>(column),)+
                _ => {
                    let strings = column.bytes().unwrap();
                    (0..strings.len()).map(|i| format!("{:?}", strings.get(i).unwrap())).collect()
                }
            }
        };
    }
    let texts = texts! {
        Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, I128 i128,
        U8 u8, U16 u16, U32 u32, U64 u64, U128 u128, F32 f32, F64 f64
    };
    let texts = texts.into_iter().enumerate();
    texts.map(|(row, text)| (!column.is_null(row)).then_some(text)).collect()
}
/// Returns what tells keys apart: -0.0 is 0.0, and NaN is NaN.
pub(crate) fn identities(column: &Column<'_>) -> Vec<Option<String>> {
    let is_float = matches!(column.data_type(), DataType::F32 | DataType::F64);
    let identity = |text: String| if is_float && text == "-0.0" { "0.0".into() } else { text };
    texts(column).into_iter().map(|text| text.map(identity)).collect()
}
pub(crate) fn draws(random: &mut Random, n: usize, world: u64) -> Vec<u64> {
    (0..n).map(|_| random.below(world)).collect()
}
/// Returns the types of the only column of the keys, and of the values.
fn types(table: &Table) -> (DataType, Option<DataType>) {
    let keys = table.key_types().unwrap();
    assert_eq!(keys.len(), 1);
    (keys[0], table.value_type())
}
/// Returns the table, and the same from the bytes of its file and on another CPU device.
pub(crate) fn copies(device: &Device, table: Table) -> Vec<Table> {
    let mut bytes = Cursor::new(vec![]);
    table.save_to(&mut bytes).unwrap();
    let loaded = Table::load_bytes(device, bytes.get_ref()).unwrap();
    let moved = table.to_device(&Device::cpu().unwrap()).unwrap();
    assert_eq!(loaded.kind(), table.kind());
    assert_eq!(loaded.key_types().unwrap(), table.key_types().unwrap());
    assert_eq!(
        (loaded.value_type(), loaded.len().unwrap()),
        (table.value_type(), moved.len().unwrap())
    );
    vec![table, loaded, moved]
}
/// Rows of a table, and keys that are looked up, some of them null.
struct Case {
    keys: ColumnVec,
    values: ColumnVec,
    queries: ColumnVec,
    valid: Vec<bool>,
}
impl Case {
    fn new(random: &mut Random, key: DataType, value: DataType, n: usize) -> Case {
        let world = n as u64 / 3 + 2;
        let keys = column(key, &draws(random, n, world));
        let values = column(value, &draws(random, n, 50));
        let queries = column(key, &draws(random, n, 2 * world));
        let valid = (0..n).map(|_| random.below(5) > 0).collect();
        Case { keys, values, queries, valid }
    }
    fn queries(&self) -> Column<'_> {
        self.queries.as_column().with_validity(Validity::Flags(&self.valid)).unwrap()
    }
    /// Returns the texts of the values of each key, in order.
    fn oracle(&self) -> HashMap<String, Vec<String>> {
        let keys = identities(&self.keys.as_column()).into_iter().flatten();
        let mut all = HashMap::<String, Vec<String>>::new();
        for (key, value) in keys.zip(texts(&self.values.as_column()).into_iter().flatten()) {
            all.entry(key).or_default().push(value);
        }
        all
    }
    fn build(&self, device: &Device, options: impl Into<TableOptions>) -> koel::Result<Table> {
        let options = options.into();
        let values = self.values.as_column();
        let values = options.kind.has_values().then_some(&values);
        Table::build(device, options, &self.keys.as_column(), values)
    }
}
fn cases(mut check: impl FnMut(&Device, DataType, DataType, &Case)) {
    for device in devices() {
        let mut random = Random(11);
        for (i, key) in TYPES.into_iter().enumerate() {
            for (j, value) in TYPES.into_iter().enumerate() {
                // A slow device checks each type a few times.
                let is_checked = is_fast(&device) || (i + 5 * j) % 7 == 0;
                if !is_checked {
                    continue;
                }
                for n in if is_fast(&device) { &[0, 1, 400][..] } else { &[60] } {
                    check(&device, key, value, &Case::new(&mut random, key, value, *n));
                }
            }
        }
    }
}

#[test]
fn maps_of_all_types() {
    cases(|device, key, value, case| {
        let (place, oracle) = (format!("{key} -> {value}, {}", device.name()), case.oracle());
        let map = case.build(device, Kind::Map).unwrap();
        assert_eq!(types(&map), (key, Some(value)), "{place}");
        let report = map.report().unwrap();
        assert_eq!(report.duplicates, case.keys.len() - oracle.len(), "{place}");
        let queries = case.queries();
        let values = |key: &Option<String>| key.as_ref().and_then(|key| oracle.get(key));
        let expected = identities(&queries).iter().map(values).collect::<Vec<_>>();
        for mut map in copies(device, map) {
            assert_eq!(map.len().unwrap(), oracle.len(), "{place}");
            let found = map.get(&queries).unwrap();
            assert_eq!(found.data_type(), value, "{place}");
            let last =
                expected.iter().map(|values| values.map(|values| values[values.len() - 1].clone()));
            assert_eq!(texts(&found.as_column()), last.collect::<Vec<_>>(), "{place}");
            let found = map.contains(&queries).unwrap();
            assert!(found.iter().zip(&expected).all(|(a, b)| *a == b.is_some()), "{place}");
            let (keys, values) = map.pairs().unwrap();
            let keys = identities(&keys[0].as_column()).into_iter().flatten();
            let pairs = keys.zip(texts(&values.as_column()).into_iter().flatten());
            let pairs = pairs.collect::<HashMap<_, _>>();
            let last =
                oracle.iter().map(|(key, values)| (key.clone(), values[values.len() - 1].clone()));
            assert_eq!(pairs, last.collect(), "{place}");
            assert_eq!(map.keys().unwrap()[0].len(), oracle.len(), "{place}");

            // Each key keeps its value, then has that of its last row, then is erased.
            let (keys, values) = (case.keys.as_column(), case.values.as_column());
            let outcomes = map.insert(&keys, Some(&values)).unwrap();
            assert!(outcomes.iter().all(|&outcome| outcome == Outcome::Kept), "{place}");
            let outcomes = map.insert_or_assign(&keys, &values).unwrap();
            assert!(outcomes.iter().all(|&outcome| outcome == Outcome::Assigned), "{place}");
            let found = texts(&map.get(&keys).unwrap().as_column());
            let expected =
                identities(&keys).into_iter().map(|key| oracle[&key.unwrap()].last().cloned());
            assert_eq!(found, expected.collect::<Vec<_>>(), "{place}");
            let erased = map.erase(&keys).unwrap();
            let erased = erased.iter().filter(|&&outcome| outcome == Outcome::Erased).count();
            assert_eq!((erased, map.len().unwrap()), (oracle.len(), 0), "{place}");
        }
    });
}

#[test]
fn multimaps_of_all_types() {
    cases(|device, key, value, case| {
        let place = format!("{key} -> {value}, {}", device.name());
        if value == DataType::Bytes {
            let error = case.build(device, Kind::MultiMap).unwrap_err().to_string();
            assert!(error.contains("numbers in a multimap"), "{place}: {error}");
            return;
        }
        let oracle = case.oracle();
        let queries = case.queries();
        let expected = identities(&queries).into_iter();
        let expected =
            expected.map(|key| key.and_then(|key| oracle.get(&key)).cloned().unwrap_or_default());
        let expected = expected.collect::<Vec<_>>();
        for map in copies(device, case.build(device, Kind::MultiMap).unwrap()) {
            let counts = map.counts(&queries).unwrap();
            assert!(counts.iter().zip(&expected).all(|(a, b)| *a as usize == b.len()), "{place}");
            for queries in [queries, case.queries.as_column()] {
                let found = map.retrieve(&queries).unwrap();
                assert_eq!(found.offsets.len(), queries.len() + 1, "{place}");
                let values =
                    texts(&found.values.as_column()).into_iter().flatten().collect::<Vec<_>>();
                for (i, key) in identities(&queries).into_iter().enumerate() {
                    let expected = key.and_then(|key| oracle.get(&key)).map_or(&[][..], |of| of);
                    assert_eq!(&values[found.of(i)], expected, "{place}");
                }
            }
            let (keys, values) = map.pairs().unwrap();
            let keys = &keys[0];
            assert_eq!((keys.len(), values.len()), (case.keys.len(), case.keys.len()), "{place}");
            let keys = identities(&keys.as_column()).into_iter().flatten();
            let mut pairs = HashMap::<String, Vec<String>>::new();
            for (key, value) in keys.zip(texts(&values.as_column()).into_iter().flatten()) {
                pairs.entry(key).or_default().push(value);
            }
            assert_eq!(pairs, oracle, "{place}");
        }
    });
}

#[test]
fn sets_and_indexes_of_all_types() {
    cases(|device, key, value, case| {
        if value != DataType::U32 {
            return;
        }
        let (place, oracle) = (format!("{key}, {}", device.name()), case.oracle());
        let queries = case.queries();
        let known = identities(&queries);
        let known =
            known.iter().map(|key| key.as_ref().is_some_and(|key| oracle.contains_key(key)));
        let known = known.collect::<Vec<_>>();
        let distinct = |keys: &ColumnVec| {
            let mut keys = identities(&keys.as_column());
            keys.sort();
            keys
        };
        let mut all = oracle.keys().cloned().map(Some).collect::<Vec<_>>();
        all.sort();
        for mut set in copies(device, case.build(device, Kind::Set).unwrap()) {
            assert_eq!(set.contains(&queries).unwrap(), known, "{place}");
            assert_eq!(distinct(&set.keys().unwrap()[0]), all, "{place}");
            let keys = case.keys.as_column();
            assert!(set.insert(&keys, None).unwrap().iter().all(|&of| of == Outcome::Kept));
            set.erase(&keys).unwrap();
            assert!(set.is_empty().unwrap(), "{place}");
        }
        for index in copies(device, case.build(device, Kind::Index).unwrap()) {
            assert_eq!(index.contains(&queries).unwrap(), known, "{place}");
            assert_eq!(distinct(&index.keys().unwrap()[0]), all, "{place}");
            assert_eq!(index.len().unwrap(), all.len(), "{place}");
            let ids = index.ids(&queries).unwrap();
            assert!(ids.iter().zip(&known).all(|(id, known)| (*id != NO_ID) == *known), "{place}");
            let keys = identities(&index.keys_of(&ids).unwrap()[0].as_column());
            let asked = identities(&queries).into_iter().zip(&known);
            assert_eq!(keys, asked.map(|(key, known)| key.filter(|_| *known)).collect::<Vec<_>>());
            let ids = (0..all.len() as u32).collect::<Vec<_>>();
            let keys = index.keys_of(&ids).unwrap();
            assert_eq!(index.ids(&keys[0].as_column()).unwrap(), ids, "{place}");
        }
    });
}

#[test]
fn nulls_are_zero_where_a_key_is_missing() {
    for device in devices() {
        let keys = Column::from(&[1u32, 2]);
        let map = Table::build(&device, Kind::Map, &keys, Some(&Column::from(&[7u32, 8]))).unwrap();
        let queries = keys.with_validity(Validity::Flags(&[false, true])).unwrap();
        let found = map.get(&queries).unwrap();
        assert_eq!(found.values::<u32>().unwrap(), [0, 8]);
        assert_eq!(found.to_options::<u32>().unwrap(), [None, Some(8)]);
        let index = Table::build(&device, Kind::Index, &Column::from(&[-1i16]), None).unwrap();
        assert_eq!(index.keys_of(&[0, 1]).unwrap()[0].values::<i16>().unwrap(), [-1, 0]);
    }
}

/// Typed tables and these read each other's files.
#[test]
fn files_are_those_of_typed_tables() {
    fn file(save: impl FnOnce(&mut Cursor<Vec<u8>>) -> koel::Result<()>) -> Vec<u8> {
        let mut bytes = Cursor::new(vec![]);
        save(&mut bytes).unwrap();
        bytes.into_inner()
    }
    let options = |kind| TableOptions::from(kind).with_seed(5);
    for device in devices() {
        let (keys, values) = ([-3i16, 5, i16::MIN], [0.5f32, -0.0, f32::NAN]);
        let map = koel::Map::build(&device, &keys, &values).unwrap();
        let bytes = file(|to| map.save_to(to));
        let table = Table::load_bytes(&device, &bytes).unwrap();
        assert_eq!(types(&table), (DataType::I16, Some(DataType::F32)));
        assert_eq!(
            table.get(&Column::from(&[5i16, 6])).unwrap().to_options::<f32>().unwrap()[1],
            None
        );
        assert!(bytes == file(|to| table.save_to(to)), "the same bytes");
        let map = koel::Map::<i16, f32>::load_bytes(&device, &bytes).unwrap();
        assert_eq!(map.get(&[5]).unwrap()[0].unwrap().to_bits(), (-0.0f32).to_bits());

        // Keys in rows with the width of the values.
        let table = Table::build(
            &device,
            options(Kind::Map),
            &Column::from(&keys),
            Some(&Column::from(&[1i128, -2, 3])),
        );
        let bytes = file(|to| table.unwrap().save_to(to));
        let map = koel::Map::<i16, i128>::load_bytes(&device, &bytes).unwrap();
        assert_eq!(map.get(&[5, 6]).unwrap(), [Some(-2), None]);
        let table = Table::load_bytes(&device, &file(|to| map.save_to(to))).unwrap();
        let found = table.get(&Column::from(&[5i16])).unwrap();
        assert_eq!(found.values::<i128>().unwrap(), [-2]);

        let index = koel::Index::build(&device, &keys).unwrap();
        let table = Table::load_bytes(&device, &file(|to| index.save_to(to))).unwrap();
        let ids = index.ids(&keys).unwrap().into_iter().map(Option::unwrap);
        assert_eq!(table.ids(&Column::from(&keys)).unwrap(), ids.collect::<Vec<_>>());
        let index = koel::Index::<i16>::load_bytes(&device, &file(|to| table.save_to(to))).unwrap();
        let id = index.ids(&[-3]).unwrap()[0].unwrap();
        assert_eq!(index.keys_of(&[id]).unwrap(), [Some(-3)]);

        let index = koel::Index::build(&device, &[-7i128, 3, i128::MIN]).unwrap();
        let table = Table::load_bytes(&device, &file(|to| index.save_to(to))).unwrap();
        assert_eq!(table.ids(&Column::from(&[3i128, 4, -7])).unwrap(), [1, NO_ID, 0]);
        assert_eq!(table.keys_of(&[2]).unwrap()[0].values::<i128>().unwrap(), [i128::MIN]);
        let index = koel::Index::<i128>::load_bytes(&device, &file(|to| table.save_to(to)));
        assert_eq!(index.unwrap().keys_of(&[0]).unwrap(), [Some(-7)]);

        let map = koel::MultiMap::build(&device, &[0.5, -0.0, 0.0], &[1i8, -2, 3]).unwrap();
        let table = Table::load_bytes(&device, &file(|to| map.save_to(to))).unwrap();
        let found = table.retrieve(&Column::from(&[-0.0])).unwrap();
        assert_eq!(found.values.values::<i8>().unwrap(), [-2, 3]);
        let map = koel::MultiMap::<f64, i8>::load_bytes(&device, &file(|to| table.save_to(to)));
        assert_eq!(map.unwrap().counts(&[0.0, 0.5, 1.0]).unwrap(), [2, 1, 0]);

        let table = Table::build(
            &device,
            options(Kind::Map),
            &Column::from(&["", "b"]),
            Some(&Column::from(&[true, false])),
        );
        let map =
            koel::StringMap::<bool>::load_bytes(&device, &file(|to| table.unwrap().save_to(to)));
        assert_eq!(map.unwrap().get(&["", "c"]).unwrap(), [Some(true), None]);
        let set = koel::Set::build(&device, &[-7i128]).unwrap();
        let table = Table::load_bytes(&device, &file(|to| set.save_to(to))).unwrap();
        assert_eq!(table.contains(&Column::from(&[-7i128, 7])).unwrap(), [true, false]);

        let map = koel::MultiMap::build(&device, &[-7i128, 3, -7], &[1i8, -2, 3]).unwrap();
        let table = Table::load_bytes(&device, &file(|to| map.save_to(to))).unwrap();
        let found = table.retrieve(&Column::from(&[-7i128, 4])).unwrap();
        assert_eq!(found.values.values::<i8>().unwrap(), [1, 3]);
        let map = koel::MultiMap::<i128, i8>::load_bytes(&device, &file(|to| table.save_to(to)));
        assert_eq!(map.unwrap().counts(&[-7, 3, 0]).unwrap(), [2, 1, 0]);
        let map = koel::StringMultiMap::build(&device, &["", "b", ""], &[true, false, false]);
        let table = Table::load_bytes(&device, &file(|to| map.unwrap().save_to(to))).unwrap();
        let found = table.retrieve(&Column::from(&["b", ""])).unwrap();
        assert_eq!(found.values.values::<bool>().unwrap(), [false, true, false]);
        let map = koel::StringMultiMap::<bool>::load_bytes(&device, &file(|to| table.save_to(to)));
        assert_eq!(map.unwrap().counts(&["", "c"]).unwrap(), [2, 0]);

        let map = koel::MapToStrings::build(&device, &[-3i16, 5], &["x", ""]).unwrap();
        let table = Table::load_bytes(&device, &file(|to| map.save_to(to))).unwrap();
        assert_eq!(types(&table), (DataType::I16, Some(DataType::Bytes)));
        let found = table.get(&Column::from(&[5i16, -3, 0])).unwrap();
        assert_eq!(texts(&found.as_column()), [Some("[]".into()), Some("[120]".into()), None]);
        let map = koel::MapToStrings::<i16>::load_bytes(&device, &file(|to| table.save_to(to)));
        assert_eq!(map.unwrap().get(&[-3]).unwrap(), [Some(b"x".to_vec())]);
        let columns = (Column::from(&["a", "b"]), Column::from(&["x", "y"]));
        let table = Table::build(&device, Kind::Map, &columns.0, Some(&columns.1)).unwrap();
        let map = koel::StringMapToStrings::load_bytes(&device, &file(|to| table.save_to(to)));
        assert_eq!(map.unwrap().get(&["b", "c"]).unwrap(), [Some(b"y".to_vec()), None]);

        // The rows of two columns are tuples.
        let pairs = [(-3i16, 0.5f32), (5, -0.0), (5, 0.0)];
        let columns = (pairs.map(|pair| pair.0), pairs.map(|pair| pair.1));
        let keys = Keys::new([Column::from(&columns.0), Column::from(&columns.1)]).unwrap();
        let set = Table::build(&device, Kind::Set, &keys, None).unwrap();
        let bytes = file(|to| set.save_to(to));
        let set = koel::Set::<(i16, f32)>::load_bytes(&device, &bytes).unwrap();
        assert_eq!(set.contains(&[(5, 0.0), (-3, 0.0)]).unwrap(), [true, false]);
        let map = koel::MultiMap::build(&device, &pairs, &[1u8, 2, 3]).unwrap();
        let table = Table::load_bytes(&device, &file(|to| map.save_to(to))).unwrap();
        assert_eq!(table.retrieve(&keys).unwrap().offsets, [0, 1, 3, 5]);
        let ordered = table.keys().unwrap();
        assert_eq!(ordered[0].values::<i16>().unwrap(), [-3, 5]);
        assert_eq!(ordered[1].values::<f32>().unwrap(), [0.5, 0.0]);
        let index = Table::build(&device, Kind::Index, &keys, None).unwrap();
        let bytes = file(|to| index.save_to(to));
        let index = koel::Index::<(i16, f32)>::load_bytes(&device, &bytes).unwrap();
        assert_eq!(index.keys().unwrap(), [(-3, 0.5), (5, 0.0)]);

        // Types that columns do not have.
        let set = koel::Set::build(&device, &[('a', 1u8)]).unwrap();
        let error =
            Table::load_bytes(&device, &file(|to| set.save_to(to))).unwrap_err().to_string();
        assert_eq!(
            error,
            "(memory): holds keys (char, u8), expected types of columns: bool i8 i16 i32 i64 i128 \
             u8 u16 u32 u64 u128 f32 f64 bytes"
        );
    }
}

#[test]
fn opened_tables_are_used_in_place() {
    let folder = folder();
    for (i, key) in TYPES.into_iter().enumerate() {
        let tables = [
            (Kind::Map, DataType::I8),
            (Kind::Map, DataType::Bytes),
            (Kind::Set, DataType::I8),
            (Kind::Index, DataType::I8),
            (Kind::MultiMap, DataType::I8),
        ];
        for (kind, value) in tables {
            let case = Case::new(&mut Random(2), key, value, 200);
            let path = folder.join(format!("{i}-{}-{value}.koel", kind as u8));
            let table = case.build(&Device::cpu().unwrap(), kind).unwrap();
            table.save(&path).unwrap();
            // SAFETY: nobody changes the file.
            let mut opened = unsafe { Table::open(&path) }.unwrap();
            assert_eq!(opened.kind(), kind);
            let queries = case.queries();
            assert_eq!(opened.contains(&queries).unwrap(), table.contains(&queries).unwrap());
            opened.verify().unwrap();
            if matches!(kind, Kind::Map | Kind::Set) {
                opened.erase(&case.keys.as_column()).unwrap();
                assert!(opened.is_empty().unwrap() && !table.is_empty().unwrap());
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}
fn folder() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("koel-any-tables-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn wrong_columns_and_options_are_refused() {
    let device = Device::cpu().unwrap();
    let (keys, values) = (Column::from(&[1i32, 2]), Column::from(&[3u8, 4]));
    let strings = Column::from(&["a", "b"]);
    let with_null =
        |column: Column<'static>| column.with_validity(Validity::Flags(&[true, false])).unwrap();
    let build = |options: TableOptions, keys: &Column<'_>, values: Option<&Column<'_>>| {
        Table::build(&device, options, keys, values).unwrap_err().to_string()
    };
    let map = TableOptions::from(Kind::Map);
    let errors = [
        (
            build(map, &with_null(Column::from(&[1i32, 2])), Some(&values)),
            "`keys` is null in row 1",
        ),
        (build(map, &keys, Some(&with_null(Column::from(&[3u8, 4])))), "`values` is null in row 1"),
        (build(map, &keys, None), "`values` is none, must be one for each key in a map"),
        (build(map, &keys, Some(&Column::from(&[1u8]))), "`values` holds 1 elements"),
        (
            build(Kind::MultiMap.into(), &keys, Some(&strings)),
            "is bytes, must be numbers in a multimap",
        ),
        (build(Kind::Set.into(), &keys, Some(&values)), "must be none in a set"),
        (build(map.with_load(0.1), &keys, Some(&values)), "0.1"),
        (build(map.with_order(ValueOrder::Any), &keys, Some(&values)), "set for a multimap only"),
        (
            build(TableOptions::from(Kind::Index).with_duplicates(Duplicates::Reject), &keys, None),
            "`duplicates` is set for an index, must be set for a map only",
        ),
        (
            build(TableOptions::from(Kind::Set).with_reproducible(true), &keys, None),
            "`reproducible` is set for a set",
        ),
        (build(map.with_reproducible(true), &strings, Some(&values)), "false for strings"),
        (build(map.with_reproducible(true), &keys, Some(&strings)), "false for strings"),
        (
            build(
                map.with_duplicates(Duplicates::Reject),
                &Column::from(&[-1i16, 5, -1]),
                Some(&Column::from(&["a", "b", "c"])),
            ),
            "key 65535 occurs more than once: at 0 and at 2",
        ),
        (
            build(
                map.with_duplicates(Duplicates::Reject),
                &Column::from(&["a", "a"]),
                Some(&values),
            ),
            "key \"a\" occurs more than once: at 0 and at 1",
        ),
    ];
    for (error, part) in errors {
        assert!(error.contains(part), "{error}: {part}");
    }
    let mut map = Table::build(&device, Kind::Map, &keys, Some(&values)).unwrap();
    let other = Column::from(&[1u32]);
    for error in [
        map.get(&other).unwrap_err(),
        map.contains(&other).unwrap_err(),
        map.erase(&other).unwrap_err(),
    ] {
        let expected = "`type of the keys` is u32, must be i32, as in the table";
        assert_eq!(error.to_string(), expected);
    }
    let error = map.insert(&keys, Some(&Column::from(&[1i8, 2]))).unwrap_err().to_string();
    assert_eq!(error, "`type of the values` is i8, must be u8, as in the table");
    let error = map.erase(&with_null(Column::from(&[1i32, 2]))).unwrap_err().to_string();
    assert!(error.starts_with("`keys` is null in row 1"), "{error}");
    assert_eq!(map.len().unwrap(), 2);
    let error = map.ids(&keys).unwrap_err().to_string();
    assert_eq!(error, "`table` is a map, must be an index");
    let mut set = Table::build(&device, Kind::Set, &keys, None).unwrap();
    assert_eq!(set.get(&keys).unwrap_err().to_string(), "`table` is a set, must be a map");
    assert!(set.insert_or_assign(&keys, &values).is_err());
    let mut index = Table::build(&device, Kind::Index, &keys, None).unwrap();
    let error = index.insert(&keys, None).unwrap_err().to_string();
    assert_eq!(error, "`table` is an index, must be a map or a set");
}
