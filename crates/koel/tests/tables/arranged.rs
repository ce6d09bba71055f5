//! Equal keys in every arrangement, in every table whose input may have them. Maps have a test of
//! their own (`map::duplicates_of_all_arrangements`).
use crate::support::{devices, is_fast};
use koel::keys128::{Map128, Set128};
use koel::{
    Device, DeviceKind, Index, Map, MapJoiner, MultiMap, MultiMapBuilder, MultiMapOptions, Set,
    ValueOrder,
};
use koel_kernels::hash::mix::{mix, splitmix_at};
use koel_testing::Arrangement;

const ARRANGEMENTS: [&str; 14] = [
    "near1x0.01",
    "near1x0.2",
    "near100x0.2",
    "near5000x0.2",
    "sorted0.1",
    "reversed0.3",
    "runs2",
    "runs1000",
    "blocks3000",
    "concat3",
    "share0.1",
    "zipf",
    "hot",
    "equal",
];

/// A column of keys. The value of each pair is its index.
struct Input {
    place: String,
    device: Device,
    ranks: Vec<u32>,
    keys: Vec<u32>,
    values: Vec<u32>,
    /// Indices of the pairs of each rank.
    groups: Vec<Vec<u32>>,
}
impl Input {
    fn new(device: &Device, name: &str, n: usize) -> Input {
        let ranks = name.parse::<Arrangement>().unwrap().ranks(n, 0, mix);
        let mut groups = vec![vec![]; n];
        (0..).zip(&ranks).for_each(|(i, &rank)| groups[rank as usize].push(i));
        Input {
            place: format!("{name}, {n} pairs on {}", device.name()),
            device: device.clone(),
            keys: ranks.iter().map(|&rank| mix(rank)).collect(),
            values: (0..n as u32).collect(),
            ranks,
            groups,
        }
    }
    fn n(&self) -> usize {
        self.ranks.len()
    }
    fn distinct(&self) -> usize {
        self.groups.iter().filter(|group| !group.is_empty()).count()
    }
    /// Returns the index of the last pair with the key of each pair.
    fn last(&self) -> impl Iterator<Item = Option<u32>> {
        self.ranks.iter().map(|&rank| self.groups[rank as usize].last().copied())
    }
    fn set(&self) {
        let set = Set::build(&self.device, &self.keys).unwrap();
        assert_eq!(set.len().unwrap(), self.distinct(), "{}", self.place);
        assert_eq!(set.count(&self.keys).unwrap(), self.n() as u64, "{}", self.place);
    }
    fn index(&self) {
        let (index, ids) = Index::encode(&self.device, &self.keys).unwrap();
        assert_eq!(index.len(), self.distinct(), "{}", self.place);
        assert!(ids == self.ids(), "{}", self.place);
        let keys = index.keys_of(&ids).unwrap();
        assert!(keys.into_iter().flatten().eq(self.keys.iter().copied()), "{}", self.place);
    }
    /// Returns numbers in the order of the first pairs.
    fn ids(&self) -> Vec<u32> {
        let (mut first, mut next) = (vec![None; self.n()], 0..);
        let id = |&rank: &u32| *first[rank as usize].get_or_insert_with(|| next.next().unwrap());
        self.ranks.iter().map(id).collect()
    }
    fn multi_map(&self, order: ValueOrder) {
        let stream = self.device.stream().unwrap();
        let (keys, values) =
            (self.device.stage(&self.keys).unwrap(), self.device.stage(&self.values).unwrap());
        let options = MultiMapOptions::default().with_order(order);
        let mut builder = MultiMapBuilder::new(&self.device, options).unwrap();
        let map: MultiMap = builder.build(&stream, keys.view(), values.view()).unwrap();
        let queries = (0..self.n() as u32).map(mix).collect::<Vec<_>>();
        let found = map.retrieve(&queries).unwrap();
        for (i, group) in self.groups.iter().enumerate() {
            let mut values = found.of(i).to_vec();
            if order == ValueOrder::Any {
                values.sort_unstable();
            }
            assert_eq!(&values, group, "{}", self.place);
        }
    }
    fn join(&self) {
        let all = (0..self.n() as u32).collect::<Vec<_>>();
        let keys = all.iter().map(|&rank| mix(rank)).collect::<Vec<_>>();
        let map = Map::build(&self.device, &keys, &all).unwrap();
        let (stream, queries) =
            (self.device.stream().unwrap(), self.device.stage(&self.keys).unwrap());
        let alloc = || self.device.alloc::<u32>(self.n()).unwrap();
        let (mut numbers, mut values) = (alloc(), alloc());
        let mut count = self.device.alloc::<u64>(1).unwrap();
        let mut joiner = MapJoiner::new(&self.device).unwrap();
        joiner
            .join_into(
                &stream,
                &map,
                queries.view(),
                numbers.view_mut(),
                values.view_mut(),
                count.view_mut(),
            )
            .unwrap();
        assert_eq!(count.download().unwrap(), [self.n() as u64], "{}", self.place);
        let (numbers, values) = (numbers.download().unwrap(), values.download().unwrap());
        let mut rows = numbers.into_iter().zip(values).collect::<Vec<_>>();
        rows.sort_unstable();
        assert!(rows.into_iter().eq((0..).zip(self.ranks.iter().copied())), "{}", self.place);
    }
    /// Assigns all pairs to a map of other keys.
    fn update(&self) {
        let others = (self.n() as u32..2 * self.n() as u32).map(mix).collect::<Vec<_>>();
        let mut map = Map::build(&self.device, &others, &self.values).unwrap();
        map.insert_or_assign(&self.keys, &self.values).unwrap();
        assert_eq!(map.len().unwrap(), self.n() + self.distinct(), "{}", self.place);
        assert!(map.get(&self.keys).unwrap().into_iter().eq(self.last()), "{}", self.place);
    }
    fn keys128(&self) {
        let key = |&rank: &u32| (splitmix_at(1, rank) as u128) << 64 | splitmix_at(2, rank) as u128;
        let keys = self.ranks.iter().map(key).collect::<Vec<_>>();
        let map = Map128::build(&self.device, &keys, &self.values).unwrap();
        assert!(map.get(&keys).unwrap().into_iter().eq(self.last()), "{}", self.place);
        let set = Set128::build(&self.device, &keys).unwrap();
        assert_eq!((map.len(), set.len()), (self.distinct(), self.distinct()), "{}", self.place);
        assert_eq!(set.count(&keys).unwrap(), self.n() as u64, "{}", self.place);
        let (index, ids) = Index::encode(&self.device, &keys).unwrap();
        assert_eq!(index.len(), self.distinct(), "{}", self.place);
        assert!(ids == self.ids(), "{}", self.place);
    }
}
#[test]
fn every_table_takes_every_arrangement() {
    for device in devices() {
        let n = match device.kind() {
            DeviceKind::Cuda if is_fast(&device) => 300_000,
            DeviceKind::Cpu if is_fast(&device) => 30_000,
            _ => 6_000,
        };
        let checks: [fn(&Input); 7] = [
            Input::set,
            Input::index,
            |input| input.multi_map(ValueOrder::Input),
            |input| input.multi_map(ValueOrder::Any),
            Input::join,
            Input::update,
            Input::keys128,
        ];
        for (i, name) in ARRANGEMENTS.into_iter().enumerate() {
            let input = Input::new(&device, name, n);
            // The executor is slow: by turns, two of the tables.
            let few = device.kind() == DeviceKind::Executor;
            for (j, check) in checks.iter().enumerate() {
                if !few || (i + j) % 7 < 2 {
                    check(&input);
                }
            }
        }
    }
}
