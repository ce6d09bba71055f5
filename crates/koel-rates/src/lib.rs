//! Helpers shared by the measuring programs.

use koel::{Device, DeviceKind, Error, Result, Stream, limits};
use koel_provenance::Provenance;
use serde::{Serialize, Serializer};
pub use serde_json::{Value, json};

/// Number of runs per median.
pub const RUNS: usize = 7;

/// Parses `4194304` or `2^22`.
///
/// # Errors
/// Fails on any other text.
pub fn size(text: &str) -> Result<usize> {
    let n = match text.split_once('^') {
        Some(("2", log)) => log.parse().ok().and_then(|log| 1usize.checked_shl(log)),
        _ => text.parse().ok(),
    };
    n.ok_or_else(|| Error::Setting {
        field: "size",
        found: text.into(),
        expected: "a number, or 2^k".into(),
    })
}
/// Returns the sizes that are the program's arguments, or others if there are none.
///
/// # Errors
/// Fails on an argument that is no [size](size()).
pub fn sizes_or(others: &[usize]) -> Result<Vec<usize>> {
    let given = std::env::args().skip(1).map(|arg| size(&arg)).collect::<Result<Vec<_>>>()?;
    Ok(if given.is_empty() { others.to_vec() } else { given })
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
/// Returns the median device time of [`RUNS`] runs after two warm-up runs, in seconds.
pub fn median(stream: &Stream, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    (0..2).try_for_each(|_| run())?;
    median_of(|| Ok(stream.time(&mut run)?.1))
}
/// Returns the median of [`RUNS`] times.
pub fn median_of(mut time: impl FnMut() -> Result<f64>) -> Result<f64> {
    let mut seconds = (0..RUNS).map(|_| time()).collect::<Result<Vec<f64>>>()?;
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[RUNS / 2])
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
/// Returns the rate of `count` items in `seconds`, in 10^9 per second, and the time.
pub fn rate(count: usize, seconds: f64) -> Row {
    let gps = count as f64 / seconds / 1e9;
    row![("gps", decimals(gps, 2)), ("us", decimals(seconds * 1e6, 1))]
}
/// Returns the rate of `count` lookups, and its share of `limit`, the random reads per second.
pub fn rate_of_limit(count: usize, seconds: f64, limit: f64) -> Row {
    let rate = count as f64 / seconds;
    row![
        ("gps", decimals(rate / 1e9, 2)),
        ("limit_gps", decimals(limit / 1e9, 2)),
        ("of_limit", decimals(rate / limit, 3))
    ]
}
/// Rounds to this many decimal places; to tens, hundreds and so on if negative.
pub fn decimals(x: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places.abs());
    if places < 0 { (x / scale).round() * scale } else { (x * scale).round() / scale }
}
/// Rounds each number to this many decimal places.
pub fn all_decimals(numbers: &[f64], places: i32) -> Vec<f64> {
    numbers.iter().map(|&x| decimals(x, places)).collect()
}
/// Rounds to this many significant digits.
pub fn digits(x: f64, count: i32) -> f64 {
    match x.abs().log10().floor() {
        log if log.is_finite() => decimals(x, count - 1 - log as i32),
        _ => x,
    }
}
