//! Provenance of a record: commit, command, driver and date. Every JSON file under `results/` has
//! these fields; a file of JSON lines has them in its first line.
mod commit;

pub use commit::embed_commit;

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use serde::Serialize;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Fields that every record has. `null` means unknown.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Provenance {
    /// The commit that the program was built from.
    pub commit: String,
    /// The command that repeats the measurement.
    pub command: String,
    /// The version of NVIDIA's driver, if a GPU was measured.
    pub driver: Option<String>,
    /// UTC, to the second.
    pub date: String,
}
impl Provenance {
    /// Describes this process, built from `commit`.
    pub fn of_this_run(commit: &str, on_gpu: bool) -> Provenance {
        Provenance {
            commit: commit.into(),
            command: command(std::env::args(), |name| std::env::var(name).ok()),
            driver: on_gpu.then(driver).flatten(),
            date: date(
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            ),
        }
    }
}

/// Options that say where results go or what to draw next to them. Each takes a path, as the next
/// word or after `=`.
const NOT_MEASURED: [&str; 3] = ["--json", "--plot", "--peers"];
/// Environment variables that change what is measured.
const MEASURED: [&str; 2] = ["CUDA_CACHE_DISABLE", "RAYON_NUM_THREADS"];

/// Returns the command line that repeats the measurement.
fn command(
    words: impl Iterator<Item = String>,
    variable: impl Fn(&str) -> Option<String>,
) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:@%^".contains(c);
    let quoted = |word: String| match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let name = |path: String| {
        Path::new(&path).file_name().map_or(path.clone(), |n| n.display().to_string())
    };
    let set =
        MEASURED.iter().filter_map(|&name| Some(format!("{name}={}", quoted(variable(name)?))));
    let (mut told, mut words) = (set.collect::<Vec<_>>(), words.enumerate());
    while let Some((i, word)) = words.next() {
        let option = word.split_once('=').map_or(word.as_str(), |(option, _)| option);
        if !NOT_MEASURED.contains(&option) {
            told.push(quoted(if i == 0 { name(word) } else { word }));
        } else if option == word {
            words.next();
        }
    }
    told.join(" ")
}

/// Returns the version of NVIDIA's kernel module, if Linux exposes it.
fn driver() -> Option<String> {
    let told = |path| std::fs::read_to_string(path).ok();
    version(&told("/sys/module/nvidia/version").or_else(|| told("/proc/driver/nvidia/version"))?)
}
/// Returns the first word made of numbers joined by dots.
fn version(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.split_whitespace().find(is_version).map(str::to_owned)
}

/// Returns the date and time `seconds` after the start of 1970, UTC.
fn date(seconds: u64) -> String {
    // Counts days in 400-year eras that begin in March (Howard Hinnant, chrono-compatible low-level
    // date algorithms).
    let day = seconds / 86_400 + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) =
        (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = 400 * era + year + u64::from(month < 3);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_typed_again() {
        let told = |words: &[&str], variable: fn(&str) -> Option<String>| {
            command(words.iter().map(|word| word.to_string()), variable)
        };
        let words = [
            "/usr/bin/koel",
            "bench",
            "--keys",
            "my keys.u32",
            "--json",
            "/a/b.json",
            "it's",
            "",
            "--plot=/c",
        ];
        assert_eq!(told(&words, |_| None), r"koel bench --keys 'my keys.u32' 'it'\''s' ''");
        let set = |name: &str| (name == "CUDA_CACHE_DISABLE").then(|| "1".into());
        assert_eq!(
            told(&["first_call", "--n=1,2"], set),
            "CUDA_CACHE_DISABLE=1 first_call --n=1,2"
        );
    }

    #[test]
    fn dates_are_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_795_490_881), "2026-11-24T03:28:01Z");
        assert_eq!(date(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(date(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_drivers_version_is_found() {
        assert_eq!(version("580.159.04\n").as_deref(), Some("580.159.04"));
        let told = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  \
                    Release Build\nGCC version: 13.2.0";
        assert_eq!(version(told).as_deref(), Some("580.159.04"));
        assert_eq!(version("no driver"), None);
    }
}
