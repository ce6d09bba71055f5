//! What `koel bench` understands, and what a combination of options asks for.
use crate::failure::{Failure, Outcome};
use std::path::PathBuf;
use std::str::FromStr;

/// The most random keys: as many others are left to be absent.
pub const MOST_RANDOM: usize = 1 << 31;

const EXAMPLES: &str = "\
Examples:
  koel bench                                      every voxel of a scan into the main tables, and found again
  koel bench --table all                          into every published structure too
  koel bench --grid 512 --mesh bunny.ply          the voxels of a mesh of yours
  koel bench --n 20,22,24 --load 0.8,0.9          random keys: 2^20, 2^22 and 2^24 of them, at two loads
  koel bench --table sorted,hashbrown --n 1000000 --op find_miss
  koel bench --keys ids.u32 --json rates.json --plot figures

Rates are millions of operations a second: the median of the runs. Every answer is compared with the right one.
`of limit` is the rate over that of random reads from as much memory as the table takes, measured in the same run (the
fastest of 7); `x sorted` is over the rate of radix sort and binary search, `x hashbrown` over that of Rust's hash table.
Each row may take an equal share of --budget and what earlier rows left of theirs.";

/// Rates of every table on this machine: builds and lookups, measured and verified
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Tables: names, `main` (koel's, the papers' own and the yardsticks), or `all` that fit the device (the CPU's yardsticks run beside
    /// a GPU only if named)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "main")]
    pub table: Vec<String>,
    /// Keys: random; voxels; a file of 32-bit little-endian words (.u32) or a scan to voxelise (.ply, .obj)
    /// [default: random with --n, else voxels]
    #[arg(long, value_name = "random|voxels|FILE")]
    pub keys: Option<String>,
    /// The scan whose voxels are the keys (.ply, .obj) [default: the one inside the program]
    #[arg(long, value_name = "FILE")]
    pub mesh: Option<PathBuf>,
    /// Voxels along a side of the grid [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub grid: Option<u32>,
    /// How many random keys: below 48 a power of two (22 is 2^22), else a count [default: 22]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = key_count)]
    pub n: Vec<usize>,
    /// Pairs per slot [default: what each table's paper has]
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',', value_parser = load)]
    pub load: Vec<f64>,
    /// Operations: build, find_hit, find_half, find_miss; `find` is the last three [default: build,find_hit,find_miss]
    #[arg(long, value_name = "OP,...", value_delimiter = ',')]
    pub op: Vec<String>,
    /// Runs of which the median counts, after two that do not
    #[arg(long, value_name = "RUNS", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Seconds for all measurements together: slow rows get fewer runs, the slowest just one
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0, value_parser = seconds)]
    pub budget: f64,
    /// Draw figures into this folder: rates against N, rates against load, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
}

/// An operation that is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Op {
    /// A table from pairs.
    Build,
    /// Lookups of keys that are all present.
    FindHit,
    /// Lookups of which half are present.
    FindHalf,
    /// Lookups of keys that are all absent.
    FindMiss,
}
impl Op {
    pub const ALL: [Op; 4] = [Op::Build, Op::FindHit, Op::FindHalf, Op::FindMiss];
    /// Operations of the contract that no table has yet.
    const LATER: [&str; 5] = ["insert", "erase", "build_multi", "retrieve_multi", "unique"];

    pub fn name(self) -> &'static str {
        match self {
            Op::Build => "build",
            Op::FindHit => "find_hit",
            Op::FindHalf => "find_half",
            Op::FindMiss => "find_miss",
        }
    }
    /// For people.
    pub fn about(self) -> &'static str {
        match self {
            Op::Build => "build a table",
            Op::FindHit => "look up keys that are present",
            Op::FindHalf => "look up keys of which half are present",
            Op::FindMiss => "look up keys that are absent",
        }
    }
}
impl FromStr for Op {
    type Err = String;
    fn from_str(text: &str) -> Result<Op, String> {
        let available = "available are build, find_hit, find_half, find_miss";
        match Op::ALL.into_iter().find(|op| op.name() == text) {
            Some(op) => Ok(op),
            None if Op::LATER.contains(&text) => Err(format!("operation '{text}' is not available yet; {available}")),
            None => Err(format!("there is no operation '{text}'; {available}")),
        }
    }
}

/// Where keys come from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// This many distinct random keys.
    Random(usize),
    /// The voxels of a scan (`None`: the one inside the program) on a grid.
    Voxels(Option<PathBuf>, u32),
    /// 32-bit little-endian words.
    Words(PathBuf),
}

impl Args {
    /// The operations asked for, each once, builds first.
    pub fn ops(&self) -> Outcome<Vec<Op>> {
        if self.op.is_empty() {
            return Ok(vec![Op::Build, Op::FindHit, Op::FindMiss]);
        }
        let mut ops = Vec::new();
        for text in &self.op {
            match text.as_str() {
                "find" => ops.extend([Op::FindHit, Op::FindHalf, Op::FindMiss]),
                _ => ops.push(text.parse::<Op>().map_err(|e| Failure::Usage(format!("--op: {e}")))?),
            }
        }
        ops.sort();
        ops.dedup();
        Ok(ops)
    }

    /// The loads asked for, ascending, each once.
    pub fn loads(&self) -> Vec<f64> {
        let mut loads = self.load.clone();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        loads
    }

    /// Where the keys come from: one source for each number of keys.
    pub fn sources(&self) -> Outcome<Vec<Source>> {
        let grid = self.grid.unwrap_or(1024);
        let source = match self.keys.as_deref() {
            None if self.n.is_empty() => Source::Voxels(self.mesh.clone(), grid),
            None | Some("random") => Source::Random(1 << 22),
            Some("voxels") => Source::Voxels(self.mesh.clone(), grid),
            Some(file) => {
                let path = PathBuf::from(file);
                match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
                    Some("u32") => Source::Words(path),
                    Some("u64") => {
                        return Err(Failure::Usage(format!(
                            "--keys {file}: there are no tables of 64-bit keys yet, expected 32-bit keys (.u32)"
                        )));
                    }
                    Some("ply" | "obj") => Source::Voxels(Some(path), grid),
                    _ => {
                        return Err(Failure::Usage(format!(
                            "--keys {file}: expected random, voxels, or a file named .u32, .ply or .obj"
                        )));
                    }
                }
            }
        };
        let is_scan_file = self.keys.as_deref().is_some_and(|k| k != "random" && k != "voxels");
        let clash = match &source {
            Source::Voxels(..) if !self.n.is_empty() => {
                Some("--n goes with random keys: a scan has as many voxels as it has")
            }
            Source::Voxels(..) if is_scan_file && self.mesh.is_some() => {
                Some("--keys FILE and --mesh FILE: expected one scan")
            }
            Source::Random(_) | Source::Words(_) if self.mesh.is_some() => Some("--mesh goes with --keys voxels"),
            Source::Random(_) | Source::Words(_) if self.grid.is_some() => Some("--grid goes with --keys voxels"),
            Source::Words(_) if !self.n.is_empty() => {
                Some("--n goes with random keys: a file has as many keys as it has")
            }
            _ => None,
        };
        if let Some(clash) = clash {
            return Err(Failure::Usage(clash.into()));
        }
        if self.n.is_empty() {
            return Ok(vec![source]);
        }
        let mut counts = self.n.clone();
        counts.sort();
        counts.dedup();
        Ok(counts.into_iter().map(Source::Random).collect())
    }
}

fn key_count(text: &str) -> Result<usize, String> {
    let n = text.parse::<usize>().map_err(|_| "expected a whole number".to_string())?;
    let count = if n < 48 { 1 << n } else { n };
    match count <= MOST_RANDOM {
        true => Ok(count),
        false => Err(format!("{count} keys: at most 2^31, so that as many 32-bit keys are left that are absent")),
    }
}
fn load(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|l| *l > 0.0 && *l < 1.0)
        .ok_or_else(|| "expected a number above 0 and below 1".into())
}
fn seconds(text: &str) -> Result<f64, String> {
    text.parse::<f64>().ok().filter(|s| s.is_finite() && *s > 0.0).ok_or_else(|| "expected a number above 0".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    fn args(line: &str) -> Args {
        Line::try_parse_from(std::iter::once("bench").chain(line.split_whitespace())).unwrap().args
    }
    fn refused(line: &str) -> String {
        match args(line).sources() {
            Err(Failure::Usage(message)) => message,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn counts_below_48_are_powers_of_two() {
        assert_eq!(key_count("0"), Ok(1));
        assert_eq!(key_count("22"), Ok(1 << 22));
        assert_eq!(key_count("48"), Ok(48));
        assert_eq!(key_count("31"), Ok(1 << 31));
        assert!(key_count("32").is_err() && key_count("47").is_err() && key_count("2147483649").is_err());
        assert!(key_count("-1").is_err() && key_count("1e6").is_err() && key_count("").is_err());
    }

    #[test]
    fn options_say_where_keys_come_from() {
        assert_eq!(args("").sources().unwrap(), [Source::Voxels(None, 1024)]);
        assert_eq!(args("--grid 64 --mesh a.obj").sources().unwrap(), [Source::Voxels(Some("a.obj".into()), 64)]);
        assert_eq!(args("--keys a.PLY").sources().unwrap(), [Source::Voxels(Some("a.PLY".into()), 1024)]);
        assert_eq!(args("--n 100,10,100").sources().unwrap(), [Source::Random(100), Source::Random(1024)]);
        assert_eq!(args("--keys random").sources().unwrap(), [Source::Random(1 << 22)]);
        assert_eq!(args("--keys k.u32").sources().unwrap(), [Source::Words("k.u32".into())]);
        assert!(refused("--keys k.u64").contains("no tables of 64-bit keys yet"));
        assert!(refused("--keys k.csv").contains(".u32, .ply or .obj"));
        assert!(refused("--keys voxels --n 5").contains("--n"));
        assert!(refused("--keys k.u32 --n 5").contains("--n"));
        assert!(refused("--keys random --grid 64").contains("--grid"));
        assert!(refused("--n 5 --mesh a.ply").contains("--mesh"));
        assert!(refused("--keys a.ply --mesh b.ply").contains("one scan"));
    }

    #[test]
    fn operations_are_sorted_and_distinct() {
        assert_eq!(args("").ops().unwrap(), [Op::Build, Op::FindHit, Op::FindMiss]);
        assert_eq!(args("--op find_miss,find,build").ops().unwrap(), Op::ALL);
        assert!(matches!(args("--op insert").ops(), Err(Failure::Usage(m)) if m.contains("not available yet")));
        assert!(matches!(args("--op fnd").ops(), Err(Failure::Usage(m)) if m.contains("no operation 'fnd'")));
    }
}
