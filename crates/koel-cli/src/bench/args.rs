//! What `koel bench` understands, and what a combination of options asks for.
use super::repeats::Repeats;
use crate::failure::{Failure, Outcome};
use koel::Duplicates;
use std::cmp::Ordering;
use std::path::PathBuf;
use std::str::FromStr;

/// The most random keys: as many others are left to be absent.
pub const MAX_RANDOM: usize = 1 << 31;

const EXAMPLES: &str = "\
Examples:
  koel bench                                      every voxel of a scan into the main tables, and found again
  koel bench --table all                          into every published structure too
  koel bench --grid 512 --mesh bunny.ply          the voxels of a mesh of yours
  koel bench --n 20,22,24 --load 0.8,0.9          random keys: 2^20, 2^22 and 2^24 of them, at two loads
  koel bench --table sorted,hashbrown --n 1000000 --op find_miss
  koel bench --keys ids.u32 --json rates.json --plot figures
  koel bench --table map --n 24 --hit-share 0,25,50,75,100 --plot figures
  koel bench --table map --n 24 --op find_hit --batch 8,12,16,20,24
  koel bench --table map --n 24 --op rebuild --duplicates unique,twice,hot,zipf,1%,equal --policy keep_last

Rates are millions of operations a second: the median of the runs. Every answer is compared with the right one.
`of limit` is the rate over that of random reads from as much memory as the table takes, measured in the same run (the
fastest of 7); `x sorted` is over the rate of radix sort and binary search, `x hashbrown` over that of Rust's hash table
(build_cold and rebuild over its build; the JSON has hashbrown-sharded's too).
Each row may take an equal share of --budget and what earlier rows left of theirs.";

/// Rates of every table on this machine: builds and lookups, measured and verified
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Tables: names, `main` (koel's, the papers' own and the yardsticks), or `all` that fit the
    /// device (the CPU's yardsticks run beside a GPU only if named)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "main")]
    pub table: Vec<String>,
    /// Keys: random; voxels; a file of 32-bit little-endian words (.u32) or a scan to voxelise
    /// (.ply, .obj) [default: random with --n, else voxels]
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
    /// Operations: build, find_hit, find_half, find_miss (`find` is the last three); build_cold,
    /// with no memory kept from a build before; rebuild, into the table that is there
    /// [default: build,find_hit,find_miss, unless --hit-share says which lookups]
    #[arg(long, value_name = "OP,...", value_delimiter = ',')]
    pub op: Vec<String>,
    /// Lookups of which this many of a hundred are present: 100 is find_hit, 50 find_half, 0
    /// find_miss
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=100))]
    pub hit_share: Vec<u8>,
    /// Lookups in one call, below 48 a power of two; as many calls as all keys need, but 4,096 at
    /// the most, follow each other [default: all in one call]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = key_count)]
    pub batch: Vec<usize>,
    /// Equal keys among random ones: unique; twice, each key; hot, one key has every tenth pair;
    /// zipf, the i-th key 1/i of the first one's; 0.1%, that share of the pairs has the key of
    /// another; equal, all [default: unique]
    #[arg(long, value_name = "KEYS,...", value_delimiter = ',')]
    pub duplicates: Vec<Repeats>,
    /// What builds do with equal keys: unchecked (where there are none), keep_last, keep_first
    /// [default: unchecked, where keys are equal keep_last]
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', value_parser = policy)]
    pub policy: Vec<Duplicates>,
    /// Runs of which the median counts, after two that do not
    #[arg(long, value_name = "RUNS", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Seconds for all measurements together: slow rows get fewer runs, the slowest just one
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0, value_parser = seconds)]
    pub budget: f64,
    /// Draw figures into this folder, as SVG and PNG: rates against N, load, hit share, batch or
    /// equal keys, whichever varies
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// Rates of other programs, to be drawn beside: CSV with the columns op, n, load, peer, mops
    #[arg(long, value_name = "FILE", requires = "plot")]
    pub peers: Option<PathBuf>,
}

/// An operation that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// A table from pairs.
    Build,
    /// A table from pairs, with no memory kept from a build before.
    BuildCold,
    /// Pairs into the table that is there.
    Rebuild,
    /// Lookups of which this many of a hundred are present.
    Find(u8),
}
impl Op {
    /// Lookups of keys that are all present.
    pub const FIND_HIT: Op = Op::Find(100);
    /// Lookups of which half are present.
    pub const FIND_HALF: Op = Op::Find(50);
    /// Lookups of keys that are all absent.
    pub const FIND_MISS: Op = Op::Find(0);
    /// Those that have a name of their own.
    const NAMED: [Op; 6] =
        [Op::Build, Op::FIND_HIT, Op::FIND_HALF, Op::FIND_MISS, Op::BuildCold, Op::Rebuild];
    pub fn name(self) -> String {
        match self {
            Op::Build => "build".into(),
            Op::BuildCold => "build_cold".into(),
            Op::Rebuild => "rebuild".into(),
            Op::FIND_HIT => "find_hit".into(),
            Op::FIND_HALF => "find_half".into(),
            Op::FIND_MISS => "find_miss".into(),
            Op::Find(share) => format!("find_{share}"),
        }
    }
    /// For people.
    pub fn about(self) -> String {
        match self {
            Op::Build => "build a table".into(),
            Op::BuildCold => "build a table, no memory kept".into(),
            Op::Rebuild => "build into the table that is there".into(),
            Op::FIND_HIT => "look up keys that are present".into(),
            Op::FIND_HALF => "look up keys of which half are present".into(),
            Op::FIND_MISS => "look up keys that are absent".into(),
            Op::Find(share) => format!("look up keys of which {share} % are present"),
        }
    }
    pub fn is_build(self) -> bool {
        self.hit_share().is_none()
    }
    /// How many of a hundred keys that are looked up are present; `None` of builds.
    pub fn hit_share(self) -> Option<u8> {
        if let Op::Find(share) = self { Some(share) } else { None }
    }
    /// Builds first, then lookups from hits to misses.
    fn place(self) -> u8 {
        match self {
            Op::Build => 0,
            Op::BuildCold => 1,
            Op::Rebuild => 2,
            Op::Find(share) => 103 - share,
        }
    }
}
impl Ord for Op {
    fn cmp(&self, other: &Op) -> Ordering {
        self.place().cmp(&other.place())
    }
}
impl PartialOrd for Op {
    fn partial_cmp(&self, other: &Op) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl FromStr for Op {
    type Err = String;
    fn from_str(text: &str) -> Result<Op, String> {
        let of_share = || {
            text.strip_prefix("find_")?
                .parse::<u8>()
                .ok()
                .filter(|share| *share <= 100)
                .map(Op::Find)
        };
        if let Some(op) = Op::NAMED.into_iter().find(|op| op.name() == text).or_else(of_share) {
            return Ok(op);
        }
        let available = Op::NAMED.map(Op::name).join(", ");
        Err(format!("there is no operation '{text}'; available are {available}"))
    }
}

/// The name of a policy on the command line and in reports.
pub fn policy_name(policy: Duplicates) -> &'static str {
    match policy {
        Duplicates::KeepLast => "keep_last",
        Duplicates::KeepFirst => "keep_first",
        Duplicates::Reject => "reject",
        Duplicates::Unchecked => "unchecked",
    }
}

/// Where keys come from.
#[derive(Clone, PartialEq, Debug)]
pub enum Source {
    /// This many random keys.
    Random(usize, Repeats),
    /// The voxels of a scan (`None`: the one inside the program) on a grid.
    Voxels(Option<PathBuf>, u32),
    /// 32-bit little-endian words.
    Words(PathBuf),
}

impl Args {
    /// The operations asked for, each once, builds first.
    pub fn ops(&self) -> Outcome<Vec<Op>> {
        let mut ops = self.hit_share.iter().map(|&share| Op::Find(share)).collect::<Vec<Op>>();
        if self.op.is_empty() && ops.is_empty() {
            return Ok(vec![Op::Build, Op::FIND_HIT, Op::FIND_MISS]);
        }
        for text in &self.op {
            match text.as_str() {
                "find" => ops.extend([Op::FIND_HIT, Op::FIND_HALF, Op::FIND_MISS]),
                _ => {
                    ops.push(text.parse::<Op>().map_err(|e| Failure::Usage(format!("--op: {e}")))?)
                }
            }
        }
        ops.sort();
        ops.dedup();
        Ok(ops)
    }

    /// The batches asked for, ascending, each once.
    pub fn batches(&self) -> Vec<usize> {
        let mut batches = self.batch.clone();
        batches.sort_unstable();
        batches.dedup();
        batches
    }
    /// The policies asked for, each once.
    pub fn policies(&self) -> Vec<Duplicates> {
        distinct(&self.policy)
    }

    /// The loads asked for, ascending, each once.
    pub fn loads(&self) -> Vec<f64> {
        let mut loads = self.load.clone();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        loads
    }

    /// Where the keys come from: one source for each number of keys and each way to repeat them.
    pub fn sources(&self) -> Outcome<Vec<Source>> {
        let grid = self.grid.unwrap_or(1024);
        let source = match self.keys.as_deref() {
            None if self.n.is_empty() => Source::Voxels(self.mesh.clone(), grid),
            None | Some("random") => Source::Random(1 << 22, Repeats::Unique),
            Some("voxels") => Source::Voxels(self.mesh.clone(), grid),
            Some(file) => {
                let path = PathBuf::from(file);
                match path
                    .extension()
                    .and_then(|e| e.to_str())
                    .map(str::to_ascii_lowercase)
                    .as_deref()
                {
                    Some("u32") => Source::Words(path),
                    Some("u64") => {
                        return Err(Failure::Usage(format!(
                            "--keys {file}: koel bench measures tables of 32-bit keys, expected a file named .u32"
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
            Source::Random(..) | Source::Words(_) if self.mesh.is_some() => {
                Some("--mesh goes with --keys voxels")
            }
            Source::Random(..) | Source::Words(_) if self.grid.is_some() => {
                Some("--grid goes with --keys voxels")
            }
            Source::Words(_) if !self.n.is_empty() => {
                Some("--n goes with random keys: a file has as many keys as it has")
            }
            Source::Voxels(..) | Source::Words(_) if !self.duplicates.is_empty() => Some(
                "--duplicates goes with random keys: those of a scan or a file are what they are, each once",
            ),
            _ => None,
        };
        if let Some(clash) = clash {
            return Err(Failure::Usage(clash.into()));
        }
        let Source::Random(default, unique) = source else { return Ok(vec![source]) };
        let mut counts = if self.n.is_empty() { vec![default] } else { self.n.clone() };
        counts.sort();
        counts.dedup();
        let repeats =
            if self.duplicates.is_empty() { vec![unique] } else { distinct(&self.duplicates) };
        Ok(counts
            .iter()
            .flat_map(|&n| repeats.iter().map(move |&repeats| Source::Random(n, repeats)))
            .collect())
    }
}

fn key_count(text: &str) -> Result<usize, String> {
    let n = text.parse::<usize>().map_err(|_| "expected a whole number".to_string())?;
    let count = if n < 48 { 1 << n } else { n };
    match count <= MAX_RANDOM {
        true => Ok(count),
        false => Err(format!(
            "{count} keys: at most 2^31, so that as many 32-bit keys are left that are absent"
        )),
    }
}
fn policy(text: &str) -> Result<Duplicates, String> {
    [Duplicates::Unchecked, Duplicates::KeepLast, Duplicates::KeepFirst]
        .into_iter()
        .find(|&policy| policy_name(policy) == text)
        .ok_or_else(|| "expected unchecked, keep_last or keep_first".into())
}
/// Each once, in the order in which they come first.
fn distinct<T: Copy + PartialEq>(all: &[T]) -> Vec<T> {
    let mut distinct = vec![];
    for one in all {
        if !distinct.contains(one) {
            distinct.push(*one);
        }
    }
    distinct
}
fn load(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|l| *l > 0.0 && *l < 1.0)
        .ok_or_else(|| "expected a number above 0 and below 1".into())
}
fn seconds(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|s| s.is_finite() && *s > 0.0)
        .ok_or_else(|| "expected a number above 0".into())
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
        assert!(
            key_count("32").is_err()
                && key_count("47").is_err()
                && key_count("2147483649").is_err()
        );
        assert!(key_count("-1").is_err() && key_count("1e6").is_err() && key_count("").is_err());
    }

    #[test]
    fn options_say_where_keys_come_from() {
        assert_eq!(args("").sources().unwrap(), [Source::Voxels(None, 1024)]);
        assert_eq!(
            args("--grid 64 --mesh a.obj").sources().unwrap(),
            [Source::Voxels(Some("a.obj".into()), 64)]
        );
        assert_eq!(
            args("--keys a.PLY").sources().unwrap(),
            [Source::Voxels(Some("a.PLY".into()), 1024)]
        );
        assert_eq!(
            args("--n 100,10,100").sources().unwrap(),
            [100, 1024].map(|n| Source::Random(n, Repeats::Unique))
        );
        assert_eq!(
            args("--keys random").sources().unwrap(),
            [Source::Random(1 << 22, Repeats::Unique)]
        );
        assert_eq!(
            args("--n 6,100 --duplicates zipf,unique,zipf").sources().unwrap(),
            [64, 100]
                .map(|n| [Repeats::Zipf, Repeats::Unique].map(|repeats| Source::Random(n, repeats)))
                .concat()
        );
        assert!(refused("--duplicates zipf").contains("--duplicates goes with random keys"));
        assert_eq!(args("--keys k.u32").sources().unwrap(), [Source::Words("k.u32".into())]);
        assert!(refused("--keys k.u64").contains("measures tables of 32-bit keys"));
        assert!(refused("--keys k.csv").contains(".u32, .ply or .obj"));
        assert!(refused("--keys voxels --n 5").contains("--n"));
        assert!(refused("--keys k.u32 --n 5").contains("--n"));
        assert!(refused("--keys random --grid 64").contains("--grid"));
        assert!(refused("--n 5 --mesh a.ply").contains("--mesh"));
        assert!(refused("--keys a.ply --mesh b.ply").contains("one scan"));
    }

    #[test]
    fn batches_and_policies_are_distinct() {
        let args = args("--batch 8,100,256,3 --policy keep_first,unchecked,keep_first");
        assert_eq!(args.batches(), [8, 100, 256]);
        assert_eq!(args.policies(), [Duplicates::KeepFirst, Duplicates::Unchecked]);
        assert!(policy("reject").is_err() && policy("").is_err());
    }

    #[test]
    fn operations_are_sorted_and_distinct() {
        assert_eq!(args("").ops().unwrap(), [Op::Build, Op::FIND_HIT, Op::FIND_MISS]);
        let all =
            [Op::Build, Op::BuildCold, Op::Rebuild, Op::FIND_HIT, Op::FIND_HALF, Op::FIND_MISS];
        assert_eq!(args("--op find_miss,rebuild,find,build_cold,build").ops().unwrap(), all);
        let shares = [Op::FIND_HIT, Op::Find(75), Op::Find(3), Op::FIND_MISS];
        assert_eq!(args("--hit-share 0,75,100,3,75").ops().unwrap(), shares);
        assert_eq!(
            args("--hit-share 75 --op rebuild,find_75").ops().unwrap(),
            [Op::Rebuild, Op::Find(75)]
        );
        for op in all.into_iter().chain((0..=100).map(Op::Find)) {
            assert_eq!(op.name().parse(), Ok(op));
        }
        assert!("find_101".parse::<Op>().is_err() && "find_".parse::<Op>().is_err());
        assert!(
            matches!(args("--op insert").ops(), Err(Failure::Usage(m)) if m.contains("no operation 'insert'"))
        );
        assert!(
            matches!(args("--op fnd").ops(), Err(Failure::Usage(m)) if m.contains("no operation 'fnd'"))
        );
    }
}
