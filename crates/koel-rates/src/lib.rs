//! Helpers shared by the measuring programs.

use koel::{Device, DeviceKind, Error, Result, Stream};
use provenance::Provenance;
use serde::Serialize;

#[path = "../../koel/src/map/tests/arrangements.rs"]
pub mod arrangements;
#[path = "../../koel-cli/src/provenance.rs"]
pub mod provenance;

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
