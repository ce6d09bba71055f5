//! Columns of types known at run time against hash maps of rows, on every device.
use crate::support::{Random, devices, is_fast};
use koel::any::{
    Aggregate, Bytes, Column, ColumnVec, DataType, Index, Keys, Nulls, Typed, Validity, group_by,
    is_in, join, unique,
};
use koel::verbs::NO_ROW;
use koel::{How, NO_ID};
use std::collections::HashMap;

/// A column with the identity of each row: equal values have equal text, nulls have none.
struct Tested {
    column: ColumnVec,
    /// A bit for each row, behind `offset` other ones.
    bits: Option<(Vec<u8>, usize)>,
    identities: Vec<Option<String>>,
}
impl Tested {
    fn column(&self) -> Column<'_> {
        let column = self.column.as_column();
        match &self.bits {
            Some((bytes, offset)) => {
                column.with_validity(Validity::Bits { bytes, offset: *offset }).unwrap()
            }
            None => column,
        }
    }
}
/// Makes a column of `n` rows with about `world` distinct values.
fn tested(random: &mut Random, kind: usize, n: usize, world: u64, with_nulls: bool) -> Tested {
    let draws = (0..n).map(|_| random.below(world)).collect::<Vec<_>>();
    fn of<T: Typed>(draws: &[u64], value: impl Fn(u64) -> T) -> (ColumnVec, Vec<String>) {
        let values = draws.iter().map(|&draw| value(draw)).collect::<Vec<_>>();
        let identities = values.iter().map(|&value| format!("{value:?}")).collect();
        (values.into(), identities)
    }
    /// -0.0 is 0.0, and NaN is NaN.
    fn of_floats<T: Typed>(draws: &[u64], value: impl Fn(u64) -> T) -> (ColumnVec, Vec<String>) {
        let (column, identities) = of(draws, value);
        let identity = |text: String| match &text[..] {
            "-0.0" => "0.0".to_owned(),
            _ => text,
        };
        (column, identities.into_iter().map(identity).collect())
    }
    let spread = |draw: u64| draw.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (column, identities) = match kind {
        0 => of(&draws, |draw| draw % 2 == 1),
        1 => of(&draws, |draw| spread(draw) as i8),
        2 => of(&draws, |draw| spread(draw) as u16),
        3 => of(&draws, |draw| -(draw as i32)),
        4 => of(&draws, |draw| draw as u32),
        5 => of(&draws, |draw| spread(draw) as i64),
        6 => of(&draws, spread),
        7 => of(&draws, |draw| i128::from(draw) - (1 << 100)),
        8 => of_floats(&draws, |draw| {
            [0.0, -0.0, f32::NAN, -f32::NAN, draw as f32][draw as usize % 5]
        }),
        9 => of_floats(&draws, |draw| {
            [0.0, -0.0, f64::NAN, -f64::NAN, draw as f64][draw as usize % 5]
        }),
        _ => {
            let text = |draw: u64| "ab\0".repeat(draw as usize % 7) + &(draw / 7).to_string();
            let strings = draws.iter().map(|&draw| text(draw)).collect::<Vec<_>>();
            let column = Column::from(&strings).take(&koel::Device::cpu().unwrap(), &rows(n));
            (column.unwrap(), strings)
        }
    };
    let offset = random.below(11) as usize;
    let mut bytes = vec![0u8; (offset + n).div_ceil(8)];
    let valid = (0..n).map(|_| !with_nulls || random.below(4) > 0).collect::<Vec<_>>();
    for row in (0..n).filter(|&row| valid[row]) {
        bytes[(offset + row) / 8] |= 1 << ((offset + row) % 8);
    }
    let identities = identities.into_iter().zip(valid);
    let identities = identities.map(|(text, valid)| valid.then_some(text)).collect();
    Tested { column, bits: with_nulls.then_some((bytes, offset)), identities }
}
fn rows(n: usize) -> Vec<u32> {
    (0..n as u32).collect()
}
const KINDS: usize = 11;
/// Columns whose keys have up to 32, 64 and 128 bits, and more: kinds, and whether there are nulls.
const SELECTIONS: [&[(usize, bool)]; 14] = [
    &[(1, false)],
    &[(4, false)],
    &[(3, true)],
    &[(2, false), (0, true), (1, true)],
    &[(6, false)],
    &[(4, false), (3, false)],
    &[(8, true), (2, false)],
    &[(7, false)],
    &[(9, true), (5, true)],
    &[(7, true), (0, false)],
    &[(10, false)],
    &[(10, true)],
    &[(10, false), (10, false)],
    &[(4, true), (10, true), (9, false), (10, true), (1, true)],
];
/// Returns the identity of each row: `None` if it has no key.
fn identities(columns: &[Tested], n: usize, nulls: Nulls) -> Vec<Option<Vec<Option<&str>>>> {
    let row = |row: usize| {
        let fields = columns.iter().map(|column| column.identities[row].as_deref());
        let fields = fields.collect::<Vec<_>>();
        (nulls == Nulls::Equal || fields.iter().all(Option::is_some)).then_some(fields)
    };
    (0..n).map(row).collect()
}
fn keys(columns: &[Tested], nulls: Nulls) -> Keys<'_> {
    Keys::new(columns.iter().map(Tested::column)).unwrap().with_nulls(nulls)
}

#[test]
fn rows_are_grouped_and_joined() {
    for device in devices() {
        let mut random = Random(3);
        for (number, selection) in SELECTIONS.iter().enumerate() {
            for (n, world) in [(0, 1), (1, 3), (70, 9), (700, 150)] {
                if n == 700 && !is_fast(&device) && number % 5 > 0 {
                    continue;
                }
                let n = if is_fast(&device) { 7 * n } else { n };
                for nulls in [Nulls::Equal, Nulls::Excluded] {
                    let place = format!("{number}, {n} of {world}, {nulls:?}, {}", device.name());
                    let mut columns = |n: usize| {
                        let column = |&(kind, nulls)| tested(&mut random, kind, n, world, nulls);
                        selection.iter().map(column).collect::<Vec<_>>()
                    };
                    let (left, right) = (columns(n / 2), columns(n));
                    check_groups(&device, &right, n, nulls, &place);
                    check_joins(&device, (&left, n / 2), (&right, n), nulls, &place);
                }
            }
        }
    }
}
fn check_groups(device: &koel::Device, columns: &[Tested], n: usize, nulls: Nulls, place: &str) {
    let (identities, mut numbers) = (identities(columns, n, nulls), HashMap::new());
    let (mut ids, mut firsts, mut sizes) = (vec![], vec![], vec![]);
    for (row, identity) in (0..).zip(&identities) {
        let Some(identity) = identity else {
            ids.push(u32::MAX);
            continue;
        };
        let id = *numbers.entry(identity).or_insert(firsts.len());
        if id == firsts.len() {
            firsts.push(row);
            sizes.push(0);
        }
        ids.push(id as u32);
        sizes[id] += 1;
    }
    let keys = keys(columns, nulls);
    let groups = group_by(device, &keys).unwrap();
    assert_eq!(groups.first_rows(), firsts, "{place}");
    assert_eq!((groups.ids(), groups.sizes()), (&ids[..], &sizes[..]), "{place}");
    assert_eq!((groups.len(), groups.is_empty()), (firsts.len(), firsts.is_empty()));
    assert_eq!(unique(device, &keys).unwrap(), firsts, "{place}");
    for (taken, tested) in groups.keys().unwrap().iter().zip(columns) {
        let (column, taken) = (tested.column(), taken.as_column());
        assert_eq!((taken.data_type(), taken.len()), (column.data_type(), firsts.len()));
        for (i, &first) in firsts.iter().enumerate() {
            assert_eq!(taken.is_null(i), column.is_null(first as usize), "{place}");
        }
        if let (Ok(taken), Ok(bytes)) = (taken.bytes(), column.bytes()) {
            let is_valid = |i: &usize| !column.is_null(firsts[*i] as usize);
            let mut valid = (0..firsts.len()).filter(is_valid);
            assert!(valid.all(|i| taken.get(i) == bytes.get(firsts[i] as usize)), "{place}");
        }
    }
    // The sum of the row numbers of each group, without those of odd rows.
    let odd = (0..n).map(|row| row % 2 == 0).collect::<Vec<_>>();
    let values = (0..n as i32).map(|row| -row).collect::<Vec<_>>();
    let all = Column::from(&values);
    let some = all.with_validity(Validity::Flags(&odd)).unwrap();
    let sum_of = |column: &Column<'_>, id: usize| {
        let is_of = |&row: &usize| ids[row] as usize == id && !column.is_null(row);
        (0..n).filter(is_of).map(|row| -(row as i64)).collect::<Vec<_>>()
    };
    for column in [all, some] {
        let of = |aggregate| groups.aggregate(aggregate, &column).unwrap();
        let (sums, counts) = (of(Aggregate::Sum), of(Aggregate::Count));
        let (least, greatest, means) =
            (of(Aggregate::Min), of(Aggregate::Max), of(Aggregate::Mean));
        assert_eq!(sums.data_type(), DataType::I64);
        for id in (0..firsts.len()).step_by(1 + firsts.len() / 50) {
            let of_group = sum_of(&column, id);
            let sum = of_group.iter().sum::<i64>();
            let count = of_group.len();
            assert_eq!(counts.to_options::<u64>().unwrap()[id], Some(count as u64), "{place}");
            let some = |sum| (count > 0).then_some(sum);
            assert_eq!(sums.to_options::<i64>().unwrap()[id], some(sum), "{place}");
            let extreme = |x: Option<&i64>| x.map(|&x| x as i32);
            let (min, max) = (of_group.iter().min(), of_group.iter().max());
            assert_eq!(least.to_options::<i32>().unwrap()[id], extreme(min), "{place}");
            assert_eq!(greatest.to_options::<i32>().unwrap()[id], extreme(max), "{place}");
            let mean = (count > 0).then(|| sum as f64 / count as f64);
            assert_eq!(means.to_options::<f64>().unwrap()[id], mean, "{place}");
        }
    }
}
fn check_joins(
    device: &koel::Device,
    (left, of_left): (&[Tested], usize),
    (right, of_right): (&[Tested], usize),
    nulls: Nulls,
    place: &str,
) {
    let (lefts, rights) = (identities(left, of_left, nulls), identities(right, of_right, nulls));
    let mut of_key = HashMap::<_, Vec<u32>>::new();
    for (row, identity) in (0..).zip(&rights) {
        if let Some(identity) = identity {
            of_key.entry(identity).or_default().push(row);
        }
    }
    let matches = |identity: &Option<Vec<Option<&str>>>| {
        identity.as_ref().and_then(|identity| of_key.get(identity)).cloned().unwrap_or_default()
    };
    let (left, right) = (keys(left, nulls), keys(right, nulls));
    let expected = lefts.iter().map(|identity| !matches(identity).is_empty());
    let found = is_in(device, &left, &right).unwrap();
    assert!(found.iter().copied().eq(expected), "{place}");

    let mut inner = vec![];
    for (row, identity) in (0..).zip(&lefts) {
        inner.extend(matches(identity).into_iter().map(|other| (row, other)));
    }
    let pairs = |how| {
        let joined = join(device, &left, &right, how).unwrap();
        joined.left.into_iter().zip(joined.right).collect::<Vec<_>>()
    };
    assert!(pairs(How::Inner) == inner, "{place}");
    let is_alone = |&row: &u32| !found[row as usize];
    let alone = (0..of_left as u32).filter(is_alone).collect::<Vec<_>>();
    assert!(pairs(How::Anti).into_iter().eq(alone.iter().map(|&row| (row, NO_ROW))), "{place}");
    let mut full = pairs(How::Full);
    let outer = pairs(How::Left);
    assert!(full[..outer.len()] == outer, "{place}");
    let behind = full.split_off(outer.len());
    let mut is_matched = vec![false; of_right];
    inner.iter().for_each(|&(_, row)| is_matched[row as usize] = true);
    let others = (0..of_right as u32).filter(|&row| !is_matched[row as usize]);
    assert!(behind.into_iter().eq(others.map(|row| (NO_ROW, row))), "{place}");
    let mut all = inner;
    all.extend(alone.iter().map(|&row| (row, NO_ROW)));
    all.sort_by_key(|&(left, _)| left);
    assert!(outer == all, "{place}");
}

/// Bytes that would be equal without the lengths between strings, or without the nulls.
#[test]
fn fields_do_not_run_into_each_other() {
    let device = koel::Device::cpu().unwrap();
    let long = "x".repeat(200);
    let (a, b) = (["ab", "a", "", "", "\u{1}", &long], ["c", "bc", "", "a", "", "x"]);
    let keys = Keys::new([Column::from(&a), Column::from(&b)]).unwrap();
    assert_eq!(unique(&device, &keys).unwrap(), [0, 1, 2, 3, 4, 5]);
    // What memory holds at a null does not count, and null is not 0.
    let (numbers, flags) = ([0u32, 1, 2, 0], [true, false, false, true]);
    for others in [Column::from(&["", "", "", ""]), Column::from(&[0u8; 4])] {
        let nullable = Column::from(&numbers).with_validity(Validity::Flags(&flags)).unwrap();
        let keys = Keys::new([nullable, others]).unwrap();
        assert_eq!(unique(&device, &keys).unwrap(), [0, 1]);
        assert_eq!(unique(&device, &keys.with_nulls(Nulls::Excluded)).unwrap(), [0]);
    }
}
#[test]
fn every_type_is_aggregated() {
    fn check<T: Typed, S: Typed>(device: &koel::Device, values: [T; 3], sum: S, mean: f64) {
        let keys = Keys::new([Column::from(&[7, 7, 7])]).unwrap();
        let groups = group_by(device, &keys).unwrap();
        let column = Column::from(&values[..]);
        let of = |aggregate| groups.aggregate(aggregate, &column).unwrap();
        assert_eq!(of(Aggregate::Sum).values::<S>().unwrap(), [sum], "{}", T::TYPE);
        assert_eq!(of(Aggregate::Min).values::<T>().unwrap(), [values[1]], "{}", T::TYPE);
        assert_eq!(of(Aggregate::Max).values::<T>().unwrap(), [values[2]], "{}", T::TYPE);
        assert_eq!(of(Aggregate::Mean).values::<f64>().unwrap(), [mean], "{}", T::TYPE);
        assert_eq!(of(Aggregate::Count).values::<u64>().unwrap(), [3]);
    }
    for device in devices() {
        check(&device, [true, false, true], 2u64, 2.0 / 3.0);
        check(&device, [-3i8, -128, 5], -126i64, -42.0);
        check(&device, [-3i16, -128, 5], -126i64, -42.0);
        check(&device, [-3i32, -128, 5], -126i64, -42.0);
        check(&device, [-3i64, -128, 5], -126i64, -42.0);
        check(&device, [3u8, 1, 200], 204u64, 68.0);
        check(&device, [3u16, 1, 200], 204u64, 68.0);
        check(&device, [3u32, 1, 200], 204u64, 68.0);
        check(&device, [3u64, 1, 200], 204u64, 68.0);
        check(&device, [0.5f32, -8.0, 9.0], 1.5f32, 0.5);
        check(&device, [0.5f64, -8.0, 9.0], 1.5f64, 0.5);
    }
}
/// Least and greatest strings and wide numbers of groups, some of nulls alone, against a map.
#[test]
fn strings_and_wide_numbers_have_extremes() {
    /// Returns the least and the greatest value of each group.
    fn extremes<V: Ord + Clone>(
        ids: &[u32],
        groups: usize,
        values: &[Option<V>],
    ) -> [Vec<Option<V>>; 2] {
        let of = |id: usize| {
            let rows = ids.iter().zip(values).filter(move |(row, _)| **row as usize == id);
            rows.filter_map(|(_, value)| value.clone())
        };
        [(0..groups).map(|id| of(id).min()).collect(), (0..groups).map(|id| of(id).max()).collect()]
    }
    fn options(column: &ColumnVec) -> Vec<Option<Vec<u8>>> {
        let (column, bytes) = (column.as_column(), column.bytes().unwrap());
        (0..column.len())
            .map(|row| (!column.is_null(row)).then(|| bytes.get(row).unwrap().to_vec()))
            .collect()
    }
    for device in devices() {
        for n in if is_fast(&device) { &[0, 1, 500, 300_000][..] } else { &[0, 200] } {
            let (mut random, n) = (Random(5), *n);
            let ids = (0..n).map(|_| random.below(n as u64 / 5 + 1)).collect::<Vec<_>>();
            let draws = (0..n).map(|_| random.below(9) as i128).collect::<Vec<_>>();
            let valid = (0..n).map(|_| random.below(3) > 0).collect::<Vec<_>>();
            let keys = Keys::new([Column::from(&ids)]).unwrap();
            let groups = group_by(&device, &keys).unwrap();
            let signed = [i128::MIN, -1, 0, i128::MAX, 1 << 64, -1 << 64, 5, -5, 1 << 100];
            let signed = draws.iter().map(|&draw| signed[draw as usize]).collect::<Vec<_>>();
            let unsigned = signed.iter().map(|&value| value as u128).collect::<Vec<_>>();
            let texts = ["", "a", "ab", "b", "\0", "\u{ff}", "a\0", "B", "aa"];
            let texts = draws.iter().map(|&draw| texts[draw as usize]).collect::<Vec<_>>();
            for with_nulls in [false, true] {
                let is_valid = |row: usize| !with_nulls || valid[row];
                let masked = |column: Column<'_>, aggregate| {
                    let column = match with_nulls {
                        true => column.with_validity(Validity::Flags(&valid)).unwrap(),
                        false => column,
                    };
                    groups.aggregate(aggregate, &column).unwrap()
                };
                let row = |row: usize| is_valid(row).then_some(row);
                let of_signed = (0..n).map(|i| row(i).map(|i| signed[i])).collect::<Vec<_>>();
                let of_unsigned = (0..n).map(|i| row(i).map(|i| unsigned[i])).collect::<Vec<_>>();
                let of_texts = (0..n)
                    .map(|i| row(i).map(|i| texts[i].as_bytes().to_vec()))
                    .collect::<Vec<_>>();
                let (ids, len) = (groups.ids(), groups.len());
                let least = extremes(ids, if n > 1000 { 50 } else { len }, &of_signed);
                let check = |k: usize, aggregate| {
                    let found = masked(Column::from(&signed), aggregate);
                    let expected = &least[k];
                    let found = found.to_options::<i128>().unwrap();
                    assert_eq!(found[..expected.len()], expected[..]);
                    let expected = &extremes(ids, expected.len(), &of_unsigned)[k];
                    let found = masked(Column::from(&unsigned), aggregate);
                    let found = found.to_options::<u128>().unwrap();
                    assert_eq!(found[..expected.len()], expected[..]);
                    let expected = &extremes(ids, expected.len(), &of_texts)[k];
                    let found = options(&masked(Column::from(&texts), aggregate));
                    assert_eq!(found[..expected.len()], expected[..]);
                };
                check(0, Aggregate::Min);
                check(1, Aggregate::Max);
            }
        }
    }
}
#[test]
fn wrong_columns_are_refused() {
    let device = koel::Device::cpu().unwrap();
    let error = |error: koel::Error| error.to_string();
    let (words, numbers) = (Column::from(&["a"]), Column::from(&[1i128]));
    assert_eq!(
        error(Keys::new([]).unwrap_err()),
        "`columns of a key` is none, must be at least one"
    );
    let of_two = Column::from(&[1u8, 2]);
    assert!(error(Keys::new([words, of_two]).unwrap_err()).contains("holds 2 elements"));
    let (left, right) = (Keys::new([words]).unwrap(), Keys::new([numbers]).unwrap());
    let found = error(is_in(&device, &left, &right).unwrap_err());
    assert_eq!(found, "`type of the keys` is bytes, must be i128, as in the index");
    let both = Keys::new([words, numbers]).unwrap();
    assert!(
        error(join(&device, &left, &both, How::Inner).unwrap_err()).contains("columns of a key")
    );
    let groups = group_by(&device, &left).unwrap();
    let found = error(groups.aggregate(Aggregate::Sum, &numbers).unwrap_err());
    assert!(found.starts_with("`aggregate` is sum of i128, must be count"), "{found}");
    let found = error(groups.aggregate(Aggregate::Mean, &words).unwrap_err());
    assert!(found.starts_with("`aggregate` is mean of bytes, must be count"), "{found}");
    assert!(groups.aggregate(Aggregate::Sum, &of_two).is_err());
    let excluded = left.clone().with_nulls(Nulls::Excluded);
    let found = error(join(&device, &left, &excluded, How::Inner).unwrap_err());
    assert_eq!(found, "`nulls` is Excluded, must be Equal");
    assert!(is_in(&device, &left, &excluded).is_err());
    let index = Index::build(&device, &left).unwrap();
    assert!(error(index.join(&left, How::Right).unwrap_err()).starts_with("`how` is Right"));
    assert!(index.ids(&right).is_err());
    assert!(words.values::<u8>().is_err() && numbers.bytes().is_err());
    assert!(words.take(&device, &[1]).is_err());
    let bits = Validity::Bits { bytes: &[], offset: usize::MAX };
    assert!(words.with_validity(bits).is_err());
    assert!(words.with_validity(Validity::Flags(&[true; 2])).is_err());
    for offsets in [&[][..], &[0, 2, 1], &[-1, 0], &[0, 4]] {
        let wide = offsets.iter().map(|&offset| i64::from(offset)).collect::<Vec<_>>();
        assert!(Bytes::from_offsets32(offsets, b"abc").is_err(), "{offsets:?}");
        assert!(Bytes::from_offsets64(&wide, b"abc").is_err(), "{offsets:?}");
    }
    // Slices of Arrow's arrays begin anywhere.
    let strings = Bytes::from_offsets64(&[1, 1, 3], b"abc").unwrap();
    assert_eq!(
        (strings.get(0), strings.get(1), strings.get(2)),
        (Some(&b""[..]), Some(&b"bc"[..]), None)
    );
    assert!(Bytes::from_offsets32(&[0], b"").unwrap().is_empty());
}
/// An index answers one batch after the other, and nulls of others as its own meaning says.
#[test]
fn an_index_answers_batches() {
    for device in devices() {
        let (numbers, flags) = ([7i64, 0, 7, 0], [true, false, true, true]);
        let all = Column::from(&numbers);
        let some = all.with_validity(Validity::Flags(&flags)).unwrap();
        let ids = |of: Column<'_>, nulls, batch: Column<'_>| {
            let index = Index::build(&device, &Keys::new([of]).unwrap().with_nulls(nulls)).unwrap();
            assert_eq!((index.is_empty(), index.first_rows().len()), (false, index.len()));
            index.ids(&Keys::new([batch]).unwrap()).unwrap()
        };
        assert_eq!(ids(some, Nulls::Equal, some), [0, 1, 0, 2]);
        assert_eq!(ids(some, Nulls::Equal, all), [0, 2, 0, 2]);
        assert_eq!(ids(all, Nulls::Equal, some), [0, NO_ID, 0, 1]);
        assert_eq!(ids(some, Nulls::Excluded, some), [0, NO_ID, 0, 1]);
        assert_eq!(ids(some, Nulls::Excluded, all), [0, 1, 0, 1]);
        let index = Index::build(&device, &Keys::new([some, all]).unwrap()).unwrap();
        for _ in 0..2 {
            let batch = Keys::new([some, all]).unwrap();
            let joined = index.join(&batch, How::Full).unwrap();
            assert_eq!(
                (joined.left, joined.right),
                (vec![0, 0, 1, 2, 2, 3], vec![0, 2, 1, 0, 2, 3])
            );
        }
        let nothing = Column::from(&[0u8; 0]);
        let index = Index::build(&device, &Keys::new([nothing]).unwrap()).unwrap();
        assert_eq!(index.ids(&Keys::new([Column::from(&[1u8])]).unwrap()).unwrap(), [NO_ID]);
    }
}
/// All types are tested.
#[test]
fn kinds_are_all_types() {
    let mut random = Random(1);
    let mut types = (0..KINDS)
        .map(|kind| tested(&mut random, kind, 1, 2, false).column.data_type())
        .collect::<Vec<_>>();
    types.dedup();
    assert_eq!(types.len(), KINDS);
}
