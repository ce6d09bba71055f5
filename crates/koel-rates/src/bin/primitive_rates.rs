//! Rates of the primitives on this machine's best device, with a copy for comparison: one JSON line
//! each.
//!
//!     cargo run --release -p koel-rates --bin primitive_rates -- 2^22 2^24 2^26 2^27
//!
//! `gps`: 10^9 elements per second, the median of 7 runs after 2 warm-up runs. `bytes_per_s`: the
//! minimum traffic of the operation divided by the same time. `verified`: the result of the first
//! run equals the host's.
use koel::device::Element;
use koel::primitives::radix_sort::{SortKey, SortValue};
use koel::primitives::*;
use koel::types::ValueBits;
use koel::{Buffer, Device, Result, Stream};
use koel_kernels::hash::mix::splitmix_at;
use koel_rates::{Arguments, digits, on_stream, rate, row};
use rayon::prelude::*;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let stream = args.device()?.stream()?;
    let sizes = args.sizes(&[22, 24, 26, 27].map(|log| 1 << log))?;
    for n in sizes {
        let rates = Rates { stream: &stream, n };
        rates.copy()?;
        rates.scans()?;
        rates.reductions()?;
        rates.compactions()?;
        rates.histograms()?;
        rates.partitions()?;
        rates.sort_keys::<u32>("sort_keys_u32", 4)?;
        rates.sort_keys::<u64>("sort_keys_u64", 8)?;
        rates.sort_pairs::<u32, u32>("sort_pairs_u32_u32", 4)?;
        rates.sort_pairs::<u64, u32>("sort_pairs_u64_u32", 8)?;
        rates.sort_pairs::<u64, u64>("sort_pairs_u64_u64", 8)?;
    }
    Ok(())
}
/// Returns a fingerprint: equal for equal multisets, and almost certainly different for others.
fn fingerprint<T: ValueBits>(of: &[T]) -> u64 {
    of.par_iter().map(|x| splitmix_at((*x).into(), 0)).reduce(|| 0, u64::wrapping_add)
}

struct Rates<'a> {
    stream: &'a Stream,
    n: usize,
}
impl Rates<'_> {
    fn device(&self) -> &Device {
        self.stream.device()
    }
    fn random<T: ValueBits>(&self) -> Vec<T> {
        (0..self.n as u32).into_par_iter().map(|i| T::narrowed(splitmix_at(0, i))).collect()
    }
    fn indices<T: ValueBits>(&self) -> Vec<T> {
        (0..self.n as u64).into_par_iter().map(T::narrowed).collect()
    }
    fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>> {
        self.device().upload(data)
    }
    /// Runs, verifies and times an operation. `state` is what the runs write.
    fn report<S>(
        &self,
        op: &str,
        bytes: usize,
        mut state: S,
        mut run: impl FnMut(&mut S) -> Result<()>,
        verify: impl FnOnce(&S) -> Result<bool>,
    ) -> Result<()> {
        run(&mut state)?;
        let verified = verify(&state)?;
        let (n, times) = (self.n, on_stream(self.stream, || run(&mut state))?);
        let traffic = (bytes * n) as f64 / times.median;
        row![("op", op), ("n", n)]
            .and(&rate(n, times))
            .and(&row![("bytes_per_s", digits(traffic, 5)), ("verified", verified)])
            .print();
        Ok(())
    }

    fn copy(&self) -> Result<()> {
        let data = self.random::<u64>();
        let (from, to) = (self.upload(&data)?, self.device().alloc::<u64>(self.n)?);
        let run = |to: &mut Buffer<u64>| to.view_mut().copy_from(from.view(), self.stream);
        self.report("copy_u64", 16, to, run, |to| Ok(to.download()? == data))
    }
    fn scans(&self) -> Result<()> {
        let data = self.random::<u32>();
        let from = self.upload(&data)?;
        let mut plan = Scan::new(self.device(), self.n)?;
        let run = |to: &mut Buffer<u32>| plan.exclusive(self.stream, from.view(), to.view_mut());
        self.report("scan_exclusive_u32", 8, self.device().alloc(self.n)?, run, |to| {
            let sums =
                data.iter().scan(0u32, |sum, x| Some(std::mem::replace(sum, sum.wrapping_add(*x))));
            Ok(to.download()?.into_iter().eq(sums))
        })?;
        let data = self.random::<u64>();
        let from = self.upload(&data)?;
        let mut plan = Scan::new(self.device(), self.n)?;
        let run = |to: &mut Buffer<u64>| plan.inclusive(self.stream, from.view(), to.view_mut());
        self.report("scan_inclusive_u64", 16, self.device().alloc(self.n)?, run, |to| {
            let sums = data.iter().scan(0u64, |sum, x| {
                *sum = sum.wrapping_add(*x);
                Some(*sum)
            });
            Ok(to.download()?.into_iter().eq(sums))
        })
    }
    fn reductions(&self) -> Result<()> {
        let data = self.random::<u32>();
        let from = self.upload(&data)?;
        let run = |to: &mut Buffer<u64>| sum_into(self.stream, from.view(), to.view_mut());
        let want = data.iter().map(|&x| x as u64).sum::<u64>();
        self.report("reduce_sum_u32", 4, self.device().alloc(1)?, run, |to| {
            Ok(to.download()? == [want])
        })?;
        let run = |to: &mut Buffer<u32>| min_into(self.stream, from.view(), to.view_mut());
        let want = data.iter().copied().min().unwrap_or(u32::MAX);
        self.report("reduce_min_u32", 4, self.device().alloc(1)?, run, |to| {
            Ok(to.download()? == [want])
        })
    }
    fn compactions(&self) -> Result<()> {
        let data = self.random::<u32>();
        let half = data.iter().map(|&x| (x & 1) as u8).collect::<Vec<_>>();
        let (from, flags) = (self.upload(&data)?, self.upload(&half)?);
        let mut plan = Compact::new(self.device(), self.n)?;
        let state = (self.device().alloc(self.n)?, self.device().alloc(1)?);
        let run = |(to, count): &mut (Buffer<u32>, Buffer<u32>)| {
            plan.run(self.stream, flags.view(), from.view(), to.view_mut(), count.view_mut())
        };
        self.report("compact_half_u32", 7, state, run, |(to, count)| {
            let kept = data.iter().copied().filter(|x| x & 1 != 0).collect::<Vec<_>>();
            Ok(count.download()? == [kept.len() as u32] && to.download()?[..kept.len()] == kept)
        })
    }
    fn histograms(&self) -> Result<()> {
        let data = self.random::<u32>();
        let from = self.upload(&data)?;
        for (op, bins) in [
            ("histogram_bits_256", Bins::Bits { shift: 8, bits: 8 }),
            ("histogram_hash_4096", Bins::Hash { bins: 4096 }),
            ("histogram_hash_65536", Bins::Hash { bins: 65_536 }),
        ] {
            let run = |to: &mut Buffer<u32>| {
                histogram_into(self.stream, from.view(), bins, to.view_mut())
            };
            self.report(op, 4, self.device().alloc(bins.count())?, run, |to| {
                let mut want = vec![0; bins.count()];
                data.iter().for_each(|&k| want[bins.bin(k) as usize] += 1);
                Ok(to.download()? == want)
            })?;
        }
        Ok(())
    }
    fn partitions(&self) -> Result<()> {
        let (data, indices) = (self.random::<u32>(), self.indices::<u32>());
        let (keys, values) = (self.upload(&data)?, self.upload(&indices)?);
        // Every pair is in its bin, with its own value, and none is missing.
        let right = |found: &[u64], bins: Bins, bin: usize| {
            found.iter().all(|&pair| {
                let (key, value) = (bins.key(pair as u32), (pair >> 32) as usize);
                bins.bin(key) as usize == bin && data.get(value) == Some(&key)
            })
        };
        let all = fingerprint(&indices);
        let values_of = |pairs: &[u64]| {
            fingerprint(&pairs.iter().map(|p| (p >> 32) as u32).collect::<Vec<_>>())
        };
        for (op, bins) in [
            ("partition_slack_hash_256", Bins::Hash { bins: 256 }),
            ("partition_slack_bits_256", Bins::Bits { shift: 24, bits: 8 }),
            ("partition_slack_hash_1024", Bins::Hash { bins: 1024 }),
        ] {
            let room = partition::slack_room(self.n, bins.count());
            let (out, cursors, overflow) = (
                self.device().alloc(room * bins.count())?,
                self.device().alloc(bins.count())?,
                self.device().alloc(1)?,
            );
            type State = (Buffer<u64>, Buffer<u32>, Buffer<u32>);
            let run = |(out, cursors, overflow): &mut State| {
                let (out, cursors, overflow) =
                    (out.view_mut(), cursors.view_mut(), overflow.view_mut());
                partition_with_slack(
                    self.stream,
                    bins,
                    room,
                    keys.view(),
                    values.view(),
                    out,
                    cursors,
                    overflow,
                )
            };
            self.report(op, 16, (out, cursors, overflow), run, |(out, cursors, overflow)| {
                let (out, cursors) = (out.download()?, cursors.download()?);
                let found = |b: usize| out[b * room..].get(..cursors[b] as usize).unwrap_or(&[]);
                let each = (0..bins.count()).into_par_iter().all(|b| right(found(b), bins, b));
                let sum = (0..bins.count())
                    .into_par_iter()
                    .map(|b| values_of(found(b)))
                    .reduce(|| 0, u64::wrapping_add);
                Ok(each && sum == all && overflow.download()? == [0])
            })?;
        }
        let bins = Bins::Hash { bins: 256 };
        let mut plan = ExactPartition::new(self.device(), bins)?;
        let state = (self.device().alloc(self.n)?, self.device().alloc(bins.count() + 1)?);
        let run = |(out, starts): &mut (Buffer<u64>, Buffer<u32>)| {
            plan.run(self.stream, keys.view(), values.view(), out.view_mut(), starts.view_mut())
        };
        self.report("partition_exact_hash_256", 20, state, run, |(out, starts)| {
            let (out, starts) = (out.download()?, starts.download()?);
            let each = |b: usize| right(&out[starts[b] as usize..starts[b + 1] as usize], bins, b);
            Ok((0..bins.count()).into_par_iter().all(each) && values_of(&out) == all)
        })
    }
    fn sort_keys<K: ValueBits + radix_sort::SortKey>(&self, op: &str, passes: usize) -> Result<()> {
        let data = self.random::<K>();
        let from = self.upload(&data)?;
        let mut plan = SortKeys::new(self.device(), self.n)?;
        let run = |to: &mut Buffer<K>| plan.run(self.stream, from.view(), to.view_mut());
        let bytes = size_of::<K>() * (1 + 2 * passes);
        self.report(op, bytes, self.device().alloc(self.n)?, run, |to| {
            let to = to.download()?;
            Ok(to.par_windows(2).all(|w| w[0] <= w[1]) && fingerprint(&to) == fingerprint(&data))
        })
    }
    fn sort_pairs<K: ValueBits + SortKey, V: ValueBits + SortValue>(
        &self,
        op: &str,
        passes: usize,
    ) -> Result<()> {
        let data = self.random::<K>();
        let (keys, values) = (self.upload(&data)?, self.upload(&self.indices::<V>())?);
        let mut plan = SortPairs::new(self.device(), self.n)?;
        let state = (self.device().alloc(self.n)?, self.device().alloc(self.n)?);
        let run = |(k, v): &mut (Buffer<K>, Buffer<V>)| {
            plan.run(self.stream, keys.view(), values.view(), k.view_mut(), v.view_mut())
        };
        let bytes = size_of::<K>() + 2 * passes * (size_of::<K>() + size_of::<V>());
        self.report(op, bytes, state, run, |(k, v)| {
            // Ascending by key, then by input position: stable, and no pair twice.
            let (k, v) = (k.download()?, v.download()?);
            let ascends = (1..k.len()).into_par_iter().all(|i| (k[i - 1], v[i - 1]) < (k[i], v[i]));
            let at = |v: &V| Into::<u64>::into(*v) as usize;
            let own = k.par_iter().zip(&v).all(|(k, v)| data.get(at(v)) == Some(k));
            Ok(ascends && own)
        })
    }
}
