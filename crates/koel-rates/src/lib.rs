//! What the measuring programs share: their arguments, and the rows that they print.

use koel::limits::Rates;
use koel::{Device, DeviceKind, Error, Result, Stream, limits};
pub use koel_measure::*;
use koel_provenance::Provenance;
use rayon::prelude::*;
use serde::{Serialize, Serializer};
pub use serde_json::{Value, json};
use std::collections::HashMap;

/// Arguments of a program: sizes, words, and lists `name=value,value`. What is asked for is taken
/// out; [`sizes`](Arguments::sizes) takes the rest.
pub struct Arguments {
    left: Vec<String>,
    /// What was asked for.
    names: Vec<String>,
}
impl Arguments {
    /// Reads those of this process.
    pub fn read() -> Arguments {
        Arguments { left: std::env::args().skip(1).collect(), names: vec![] }
    }
    /// Takes a word out. Returns whether it was there.
    pub fn has(&mut self, word: &str) -> bool {
        self.names.push(word.into());
        let before = self.left.len();
        self.left.retain(|arg| arg != word);
        self.left.len() < before
    }
    /// Takes a word out, and the number after it if there is one, else `default`. `None` if the
    /// word is not there.
    pub fn numbered(&mut self, word: &str, default: usize) -> Option<usize> {
        self.names.push(format!("{word} with a number"));
        let at = self.left.iter().position(|arg| arg == word)?;
        self.left.remove(at);
        let number = self.left.get(at).and_then(|arg| size(arg));
        number.inspect(|_| drop(self.left.remove(at))).or(Some(default))
    }
    /// Takes the list `name=` out, or that in `default`.
    ///
    /// # Errors
    /// Fails on a value that `read` does not know.
    pub fn list<T>(
        &mut self,
        name: &str,
        default: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>> {
        self.names.push(format!("{name}="));
        let of_name = |arg: &String| Some(arg.strip_prefix(name)?.strip_prefix('=')?.to_string());
        let given = self.left.iter().find_map(of_name);
        self.left.retain(|arg| of_name(arg).is_none());
        let list = given.unwrap_or(default.into());
        let values = list.split(',').filter(|value| !value.is_empty());
        let expected = || format!("{name}= with a list, such as {default}");
        values.map(|value| read(value).ok_or_else(|| wrong(value, expected()))).collect()
    }
    /// Takes the kind of a device out, `cpu` or `cuda`, and opens it; the best one if none is
    /// named. Prints the first line of a record.
    ///
    /// # Errors
    /// Fails if there is no such device.
    pub fn device(&mut self) -> Result<Device> {
        let device = match (self.has("cpu") || self.has("device=cpu"), self.has("cuda")) {
            (true, _) => Device::cpu()?,
            (_, true) => Device::cuda(0)?,
            _ => Device::best()?,
        };
        eprintln!("{}", device.name());
        print_provenance(&device);
        Ok(device)
    }
    /// Returns the sizes that are left, or others if there are none.
    ///
    /// # Errors
    /// Fails on an argument that nobody has taken and that is no [size].
    pub fn sizes(self, others: &[usize]) -> Result<Vec<usize>> {
        let expected = || format!("a number, 2^k, {}", self.names.join(", "));
        let sizes = self.left.iter().map(|arg| size(arg).ok_or_else(|| wrong(arg, expected())));
        let sizes = sizes.collect::<Result<Vec<_>>>()?;
        Ok(if sizes.is_empty() { others.to_vec() } else { sizes })
    }
}
/// Parses the bits of a key: 32, 64 or 128.
pub fn bits(text: &str) -> Option<usize> {
    size(text).filter(|bits| [32, 64, 128].contains(bits))
}
fn wrong(found: &str, expected: String) -> Error {
    Error::Setting { field: "argument", found: found.into(), expected }
}
/// Prints the first line of a record: its provenance.
pub fn print_provenance(device: &Device) {
    #[derive(Serialize)]
    struct Line {
        #[serde(flatten)]
        provenance: Provenance,
        machine: String,
    }
    let provenance =
        Provenance::of_this_run(env!("KOEL_COMMIT"), device.kind() == DeviceKind::Cuda);
    let line = Line { provenance, machine: device.name() };
    println!("{}", serde_json::json!(line));
}
/// Returns the CPU time of all threads of this process, in seconds. Next to other programs, its
/// differences say more than those of the clock.
///
/// # Panics
/// If the system has no such clock.
pub fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` can be written.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(code, 0, "the system measures CPU time");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
/// Returns the seconds of a run on a stream, and of its CPU time.
///
/// # Errors
/// Those of the run.
pub fn both_clocks(stream: &Stream, run: impl FnOnce() -> Result<()>) -> Result<[f64; 2]> {
    let before = cpu_seconds();
    let (_, seconds) = stream.time(run)?;
    Ok([seconds, cpu_seconds() - before])
}
/// Builds tables on a stream, [`RUNS`] times, one after the other. Returns the last, the times, and
/// the CPU times.
///
/// # Errors
/// The first error of a build.
pub fn built<T>(stream: &Stream, mut build: impl FnMut() -> Result<T>) -> Result<(T, [Times; 2])> {
    let mut table = None;
    let times = on_both_clocks(stream, || {
        table = None; // two of them might not fit
        table = Some(build()?);
        Ok(())
    })?;
    let Some(table) = table else { unreachable!("every run leaves its table") };
    Ok((table, times))
}
/// Returns the times of [`RUNS`] runs on a stream, and their CPU times.
///
/// # Errors
/// The first error of a run.
pub fn on_both_clocks(stream: &Stream, mut run: impl FnMut() -> Result<()>) -> Result<[Times; 2]> {
    repeat(RUNS, || both_clocks(stream, &mut run))
}
/// Members of a JSON object, in their order.
#[derive(Clone)]
pub struct Row(Vec<(&'static str, Value)>);
impl Row {
    /// For [`row!`](crate::row).
    #[doc(hidden)]
    pub fn new(members: Vec<(&'static str, Value)>) -> Row {
        Row(members)
    }
    /// Appends the members of another row.
    #[must_use]
    pub fn and(mut self, other: &Row) -> Row {
        self.0.extend_from_slice(&other.0);
        self
    }
    /// Prints the object as a line.
    pub fn print(&self) {
        println!("{}", serde_json::to_string(self).expect("names and values are plain"));
    }
}
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
/// Makes a [`Row`] of names and values that serde can serialize.
#[macro_export]
macro_rules! row {
    ($(($name:literal, $value:expr)),+ $(,)?) => {
        $crate::Row::new(vec![$(($name, $crate::json!($value))),+])
    };
}
/// Prints the rate of copies on the device, the first row of most records.
///
/// # Errors
/// As for [`limits::copies`].
pub fn print_copies(stream: &Stream) -> Result<()> {
    let copies = limits::copies(stream, 1 << 28, RUNS)?;
    row![("op", "copy"), ("bytes_per_s", digits(copies.rates.median, 5))].print();
    Ok(())
}
/// Returns the rates of `count` items, in 10^9 per second: of the median run, the slowest and the
/// fastest.
fn rates(count: usize, times: Times) -> Row {
    let Rates { median, min, max } = times.rates(count as f64 / 1e9);
    row![("gps", digits(median, 4)), ("gps_min", digits(min, 4)), ("gps_max", digits(max, 4))]
}
/// Returns the rates of `count` items, and the time of the median run.
pub fn rate(count: usize, times: Times) -> Row {
    rates(count, times).and(&row![("us", decimals(times.median * 1e6, 1))])
}
/// Returns the rates of `count` lookups, and the median's share of `limit`, the random reads per
/// second.
pub fn rate_of_limit(count: usize, times: Times, limit: f64) -> Row {
    let of_limit = count as f64 / times.median / limit;
    rates(count, times)
        .and(&row![("limit_gps", decimals(limit / 1e9, 2)), ("of_limit", decimals(of_limit, 3))])
}
/// Returns the milliseconds of the median run, the fastest and the slowest.
pub fn ms(times: Times) -> Row {
    let [median, min, max] =
        [times.median, times.min, times.max].map(|seconds| decimals(seconds * 1e3, 4));
    row![("ms", median), ("ms_min", min), ("ms_max", max)]
}
/// Rounds each number to this many decimal places.
pub fn all_decimals(numbers: &[f64], places: i32) -> Vec<f64> {
    numbers.iter().map(|&x| decimals(x, places)).collect()
}
/// Returns `n` numbers below `distinct`, drawn at random; `0..n` if that many.
pub fn drawn(n: usize, distinct: usize) -> Vec<u32> {
    let distinct = distinct.max(1);
    let draw = |i: usize| random_word(3, i as u64) % distinct as u64;
    (0..n).into_par_iter().map(|i| if distinct == n { i as u32 } else { draw(i) as u32 }).collect()
}
/// Returns for each number the place of its first occurrence among the first occurrences: the ids
/// of an index. Returns the number of ids, too.
pub fn ids_of(numbers: &[u32]) -> (Vec<u32>, usize) {
    let mut first = HashMap::new();
    let ids = numbers.iter().map(|&number| {
        let next = first.len() as u32;
        *first.entry(number).or_insert(next)
    });
    (ids.collect(), first.len())
}
