//! Repeated runs, and the seconds that they take.
use koel::Stream;
use koel::limits::Rates;
use std::hint::black_box;
use std::time::Instant;

/// Runs that are not counted, before those that are.
pub const WARM_UP: usize = 2;
/// Usual number of runs that are counted.
pub const RUNS: usize = 7;

/// Seconds of the runs of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// The median run; for an even number of runs, the slower of the middle two.
    pub median: f64,
    /// The fastest run.
    pub min: f64,
    /// The slowest run.
    pub max: f64,
}
impl Times {
    /// Returns the times of runs that took these seconds. A run too short for the clock counts as
    /// 1 ns.
    pub fn of(seconds: &[f64]) -> Times {
        Times::of_rates(1.0, Rates::of(1.0, seconds))
    }
    /// Returns the times of runs that each did `work` at these rates.
    pub fn of_rates(work: f64, rates: Rates) -> Times {
        Times { median: work / rates.median, min: work / rates.max, max: work / rates.min }
    }
    /// Returns the rates of runs that each did `work`.
    pub fn rates(self, work: f64) -> Rates {
        Rates { median: work / self.median, min: work / self.max, max: work / self.min }
    }
}

/// Calls `run` [`WARM_UP`] times, then `runs` times, at least once, and returns the times of the
/// latter. A run returns the seconds of each thing that it measures: of several calls made in turn,
/// or of one call by several clocks.
///
/// # Errors
/// The first error of a run.
pub fn repeat<const N: usize, E>(
    runs: usize,
    mut run: impl FnMut() -> Result<[f64; N], E>,
) -> Result<[Times; N], E> {
    let mut seconds = [const { vec![] }; N];
    for i in 0..WARM_UP + runs.max(1) {
        let of_run = run()?;
        if i >= WARM_UP {
            seconds.iter_mut().zip(of_run).for_each(|(all, one)| all.push(one));
        }
    }
    Ok(seconds.map(|all| Times::of(&all)))
}
/// Returns the times of [`RUNS`] runs on a stream: device time on a GPU, wall clock on the CPU.
///
/// # Errors
/// The first error of a run.
pub fn on_stream(
    stream: &Stream,
    mut run: impl FnMut() -> koel::Result<()>,
) -> koel::Result<Times> {
    repeat(RUNS, || Ok([stream.time(&mut run)?.1])).map(|[times]| times)
}
/// Returns the times of [`RUNS`] runs by the host's clock. Dropping the results does not count.
///
/// # Errors
/// The first error of a run.
pub fn on_clock<R, E>(mut run: impl FnMut() -> Result<R, E>) -> Result<Times, E> {
    repeat(RUNS, || Ok([seconds_of(&mut run)?.1])).map(|[times]| times)
}
/// Returns what a call returns, and its seconds by the host's clock.
///
/// # Errors
/// Those of the call.
pub fn seconds_of<R, E>(call: impl FnOnce() -> Result<R, E>) -> Result<(R, f64), E> {
    let start = Instant::now();
    let result = black_box(call()?);
    Ok((result, start.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_runs_do_not_count() {
        let mut run = 0;
        let times = repeat(3, || {
            run += 1;
            Ok::<_, ()>([[100.0, 200.0, 4.0, 1.0, 2.0][run - 1], 8.0])
        });
        let [of_first, of_second] = times.unwrap();
        assert_eq!(of_first, Times { median: 2.0, min: 1.0, max: 4.0 });
        assert_eq!(of_second, Times { median: 8.0, min: 8.0, max: 8.0 });
        let Rates { median, min, max } = of_first.rates(8.0);
        assert_eq!([median, min, max], [4.0, 2.0, 8.0]);
        assert_eq!(repeat(3, || Err::<[f64; 1], _>("failed")), Err("failed"));
    }

    #[test]
    fn of_an_even_number_of_runs_the_slower_middle_counts() {
        assert_eq!(Times::of(&[8.0, 1.0, 4.0, 2.0]).median, 4.0);
        assert_eq!(Times::of(&[0.0]).max, 1e-9);
    }
}
