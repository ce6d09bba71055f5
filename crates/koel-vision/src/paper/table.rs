//! Multi-value table: values sorted by key, and an index of each key's values.
use koel::primitives::sort_pairs;
use koel::{Map, Stream};

/// Lookup method for a key's values. The paper's Table 1 compares the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lookup {
    /// Hash table of the keys.
    #[default]
    Hash,
    /// Binary search in the sorted keys.
    BinarySearch,
}

/// Multi-value table with contiguous values per key.
pub(crate) struct MultiTable {
    keys: Vec<u32>,
    starts: Vec<u32>,
    values: Vec<u32>,
    runs: Option<Map>,
}

impl MultiTable {
    /// Builds the table from pairs with one radix sort. Values of a key keep their order.
    pub(crate) fn build(
        stream: &Stream,
        pairs: &[(u32, u32)],
        lookup: Lookup,
    ) -> koel::Result<MultiTable> {
        let device = stream.device();
        let side =
            |of: fn(&(u32, u32)) -> u32| device.upload(&pairs.iter().map(of).collect::<Vec<u32>>());
        let (keys, values) = (side(|p| p.0)?, side(|p| p.1)?);
        let (mut sorted, mut values_sorted) =
            (device.alloc::<u32>(pairs.len())?, device.alloc::<u32>(pairs.len())?);
        sort_pairs(
            stream,
            keys.view(),
            values.view(),
            sorted.view_mut(),
            values_sorted.view_mut(),
        )?;
        let (sorted, values) = (sorted.download()?, values_sorted.download()?);
        let (mut keys, mut starts) = (vec![], vec![]);
        for (i, &key) in sorted.iter().enumerate() {
            if keys.last() != Some(&key) {
                keys.push(key);
                starts.push(i as u32);
            }
        }
        let runs = match lookup {
            Lookup::Hash => {
                Some(Map::build(device, &keys, &(0..keys.len() as u32).collect::<Vec<u32>>())?)
            }
            Lookup::BinarySearch => None,
        };
        starts.push(sorted.len() as u32);
        Ok(MultiTable { keys, starts, values, runs })
    }
    /// Returns the values of each queried key.
    pub(crate) fn get(&self, keys: &[u32]) -> koel::Result<Vec<&[u32]>> {
        let values = |run: Option<u32>| match run {
            Some(run) => {
                &self.values
                    [self.starts[run as usize] as usize..self.starts[run as usize + 1] as usize]
            }
            None => &[],
        };
        Ok(match &self.runs {
            Some(map) => map.get(keys)?.into_iter().map(values).collect(),
            None => keys
                .iter()
                .map(|key| values(self.keys.binary_search(key).ok().map(|i| i as u32)))
                .collect(),
        })
    }
}
