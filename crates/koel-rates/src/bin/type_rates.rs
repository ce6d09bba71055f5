//! Rates of maps from buffers of keys and values of many types on this machine's best device: one
//! JSON line each.
//!
//!     cargo run --release -p koel-rates --bin type_rates -- 2^22 2^24
//!
//! `gps`: 10^9 keys per second, the median of 7 runs after 2 warm-up runs. A build inserts keys
//! that are on the device into an existing map (`rebuild`) and waits until it has finished; `find`
//! looks up every key, in another order than that of the build. `of_bits`: the rate divided by that
//! of `u32` or `u64` keys and `u32` values, whose bits are the same numbers, in the same run; below
//! 1 by what a conversion costs. `verified`: the values found are those of the keys.
use koel::{DeviceKey, DeviceValue, MapBuilder, MapOptions, Result, Stream, TotalF32, TotalF64};
use koel_rates::{Arguments, Times, decimals, on_stream, print_copies, rate, row};
use rayon::prelude::*;
use std::fmt::Debug;

fn main() -> Result<()> {
    let mut args = Arguments::read();
    let stream = args.device()?.stream()?;
    print_copies(&stream)?;
    for n in args.sizes(&[1 << 22, 1 << 24])? {
        let mut narrow = Rows { stream: &stream, n, of: None };
        narrow.measure(bits32, |i| i)?;
        narrow.measure(|i| bits32(i) as i32, |i| i)?;
        narrow.measure(|i| [bits32(i) as u16, (bits32(i) >> 16) as u16], |i| i)?;
        narrow.measure(|i| TotalF32(f32::from_bits(bits32(i))), |i| i)?;
        narrow.measure(|i| f32::from_bits(bits32(i)), |i| i)?;
        if n <= 1 << 24 {
            narrow.measure(|i| [0, 8, 16].map(|shift| (i >> shift) as u8), |i| i)?;
        }
        narrow.measure(bits32, |i| i as f32)?;
        narrow.measure(bits32, |i| i as u16)?;
        narrow.measure(bits32, |i| i as u8)?;
        let mut wide = Rows { stream: &stream, n, of: None };
        wide.measure(bits64, |i| i)?;
        wide.measure(|i| bits64(i) as i64, |i| i)?;
        wide.measure(|i| [bits64(i) as u32, (bits64(i) >> 32) as u32], |i| i)?;
        wide.measure(|i| TotalF64(f64::from_bits(bits64(i))), |i| i)?;
        wide.measure(|i| f64::from_bits(bits64(i)), |i| i)?;
        wide.measure(|i| [f32::from_bits(bits32(i)), 0.5], |i| i)?;
    }
    Ok(())
}
/// Returns the name of a type, without its path.
fn name<T>() -> &'static str {
    let path = std::any::type_name::<T>();
    path.rsplit_once("::").map_or(path, |(_, name)| name)
}
/// Returns bits of a float other than 0 and NaN, distinct for numbers below 2^27.
fn bits32(i: u32) -> u32 {
    (i.wrapping_mul(0x9E37_79B1) & 0x07FF_FFFF) + 0x1000_0000
}
/// The same of 64 bits.
fn bits64(i: u32) -> u64 {
    (bits32(i) as u64) << 32 | bits32(!i) as u64
}

/// Measurements with `n` keys whose bits are as wide.
struct Rows<'a> {
    stream: &'a Stream,
    n: usize,
    /// Times of the first measurement: builds and lookups.
    of: Option<[Times; 2]>,
}
impl Rows<'_> {
    fn measure<K: DeviceKey, V: DeviceValue + PartialEq + Debug>(
        &mut self,
        key: impl Fn(u32) -> K + Sync,
        value: impl Fn(u32) -> V + Sync,
    ) -> Result<()> {
        let (stream, device, n) = (self.stream, self.stream.device(), self.n);
        let all = 0..n as u32;
        // An order of its own, of all numbers if `n` is a power of two.
        let asked = |i: u32| (u64::from(i) * 0x9E37_79B5 % n as u64) as u32;
        let keys = device.upload(&all.clone().into_par_iter().map(&key).collect::<Vec<_>>())?;
        let values = device.upload(&all.clone().into_par_iter().map(&value).collect::<Vec<_>>())?;
        let queries = all.clone().into_par_iter().map(|i| key(asked(i))).collect::<Vec<_>>();
        let queries = device.upload(&queries)?;
        let mut builder = MapBuilder::new(device, MapOptions::default())?;
        let mut map = builder.build(stream, keys.view(), values.view())?;
        let build =
            on_stream(stream, || builder.rebuild(&mut map, stream, keys.view(), values.view()))?;
        let (mut answers, mut found) = (device.alloc::<V>(n)?, device.alloc::<u8>(n)?);
        let find = on_stream(stream, || {
            map.get_into(stream, queries.view(), answers.view_mut(), found.view_mut())
        })?;
        let answers = answers.download()?;
        let verified = map.len()? == n
            && found.download()?.par_iter().all(|&found| found == 1)
            && all.into_par_iter().all(|i| answers[i as usize] == value(asked(i)));
        let of = *self.of.get_or_insert([build, find]);
        for ((op, times), of) in [("build", build), ("find", find)].into_iter().zip(of) {
            row![("op", op), ("key", name::<K>()), ("value", name::<V>()), ("n", n)]
                .and(&rate(n, times))
                .and(&row![
                    ("of_bits", decimals(of.median / times.median, 3)),
                    ("verified", verified)
                ])
                .print();
        }
        Ok(())
    }
}
