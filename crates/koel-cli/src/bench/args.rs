//! Options of `koel bench`, and what combinations of them select.
use super::distinct;
use super::parameters::ParameterArgs;
use crate::failure::{Failure, Outcome};
use clap::ValueEnum;
use koel::Duplicates;
use koel_measure::{Arrangement, size};
use koel_spatial::Order;
use std::cmp::Ordering;
use std::path::PathBuf;
use std::str::FromStr;

/// Maximum number of random keys: at least as many others must remain absent.
pub(crate) const MAX_RANDOM: usize = 1 << 31;

const EXAMPLES: &str = "\
Examples:
  koel bench                                      insert every voxel of a scan and look it up
  koel bench --table all                          the same for every published structure
  koel bench --grid 512 --mesh bunny.ply          the voxels of your own mesh
  koel bench --order morton                       the same voxels under Morton keys
  koel bench --n 20,22,24 --load 0.8,0.9          2^20, 2^22 and 2^24 random keys, at two loads
  koel bench --table sorted,hashbrown --n 1000000 --op find_miss
  koel bench --keys ids.u32 --json rates.json --plot figures
  koel bench --table map --n 24 --hit-share 0,25,50,75,100 --plot figures
  koel bench --table map --n 24 --op find_hit --batch 8,12,16,20,24
  koel bench --table map --n 16,20,24 --op build_host,get_host
  koel bench --table map --n 24 --op rebuild --duplicates hot,zipf,1%,equal --policy keep_last
  koel bench --table single-level --n 22 --functions 2,3,4,5 --family mixed,linear2011
  koel bench --table bucketed-cuckoo --n 22 --bucket-slots 2,4,8 --load 0.8,0.9 --plot figures
  koel bench --table two-level-multi,single-level-multi,sorted-multi --n 22 --duplicates twice,zipf

Rates are in millions of operations per second: the median of the runs. Every answer is verified.
`of limit` is the rate divided by that of random reads from as much memory as the table takes,
measured in the same run (fastest of 7). `x sorted` is relative to radix sort and binary search,
`x hashbrown` to Rust's hash table (build_cold and rebuild to its build); the JSON also has
hashbrown-sharded. Each row may use an equal share of --budget plus what earlier rows left over.

Tables of lists (two-level-multi, two-level-compacting, single-level-set, single-level-compacting,
single-level-multi, sorted-multi) hold all pairs of repeated keys, or each key once; a lookup
returns the start and the length of a range. two-level has buckets of 512 pairs up to a load of
0.71, of 1024 above. A note names the tables that do not have a requested parameter.";

/// Measure and verify the rates of builds and lookups of every table on this machine
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Tables to measure: names, `main` (koel's map, the papers' tables and the baselines), or
    /// `all`; on a GPU, `main` and `all` omit the baselines that run on the CPU
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "main")]
    pub table: Vec<String>,
    /// Keys: random, voxels, a file of 32-bit little-endian words (.u32), or a scan to voxelize
    /// (.ply, .obj) [default: random with --n, else voxels]
    #[arg(long, value_name = "random|voxels|FILE")]
    pub keys: Option<String>,
    /// Scan whose voxels are the keys (.ply, .obj) [default: a scan inside the program]
    #[arg(long, value_name = "FILE")]
    pub mesh: Option<PathBuf>,
    /// Voxels per side of the grid, 1 to 1024 [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub grid: Option<u32>,
    /// Layout of a voxel's key: row-major (or linear: x, y, z), or morton (their bits in turn);
    /// perfect-spatial-3d takes keys for row-major [default: row-major]
    #[arg(long, value_enum, value_name = "row-major|morton", hide_possible_values = true)]
    pub order: Option<OrderName>,
    /// Numbers of random keys; below 48, powers of two (22 is 2^22) [default: 22]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = key_count)]
    pub n: Vec<usize>,
    /// Load factors: pairs per slot [default: as in each table's paper]
    #[arg(long, value_name = "LOAD,...", value_delimiter = ',', value_parser = load)]
    pub load: Vec<f64>,
    /// Operations: build; build_cold, which reuses no memory; rebuild, into the existing table;
    /// find_hit, find_half, find_miss; find, all three; build_host and get_host, from and to arrays
    /// in host memory, copies included [default: build,find_hit,find_miss; with --hit-share, only
    /// its lookups]
    #[arg(long, value_name = "OP,...", value_delimiter = ',')]
    pub op: Vec<String>,
    /// Percentages of lookups whose key is present: 100 is find_hit, 50 find_half, 0 find_miss
    #[arg(
        long, value_name = "PERCENT,...", value_delimiter = ',',
        value_parser = clap::value_parser!(u8).range(0..=100)
    )]
    pub hit_share: Vec<u8>,
    /// Lookups per call; below 48, powers of two. A run makes at most 4,096 calls [default: all
    /// lookups in one call]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = key_count)]
    pub batch: Vec<usize>,
    /// Repeated keys among random ones: unique; twice, every key occurs twice; hot, one key has 10%
    /// of the pairs; zipf, the i-th key has 1/i of the first one's pairs; 0.1%, that share of the
    /// pairs has another pair's key; equal, all pairs have one key; near<D>x<S>, runs<L>,
    /// blocks<B>, concat<C>, sorted<S> and reversed<S>: equal keys at a distance, in runs, in
    /// repeated blocks or inputs, or sorted [default: unique]
    #[arg(long, value_name = "KEYS,...", value_delimiter = ',')]
    pub duplicates: Vec<Arrangement>,
    /// How builds treat equal keys: unchecked (assumes that there are none), keep_last or
    /// keep_first; tables of lists keep all [default: unchecked; keep_last if keys repeat]
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', value_parser = policy)]
    pub policy: Vec<Duplicates>,
    /// Runs per row, after two warm-up runs; the median counts
    #[arg(
        long, value_name = "RUNS", default_value_t = 7,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub runs: u16,
    /// Time for all measurements, in seconds; slow rows get fewer runs, at least one
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0, value_parser = seconds)]
    pub budget: f64,
    /// Draw figures into this folder, as SVG and PNG: rates against N, load, hit share, batch or
    /// repeated keys, whichever varies
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// Rates of other programs to draw for comparison: CSV with columns op, n, load, peer, mops
    #[arg(long, value_name = "FILE", requires = "plot")]
    pub peers: Option<PathBuf>,
    #[command(flatten)]
    pub parameters: ParameterArgs,
}

/// An operation to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// Builds a table from pairs.
    Build,
    /// Builds a table from pairs, without memory kept from an earlier build.
    BuildCold,
    /// Builds from pairs into the existing table.
    Rebuild,
    /// Builds a table from slices in host memory, without memory kept from an earlier build.
    BuildHost,
    /// Looks up keys, this percentage of them present.
    Find(u8),
    /// Looks up keys in a slice of host memory, all of them present; the answers are a new array of
    /// the host.
    GetHost,
}
impl Op {
    /// Lookups of keys that are all present.
    pub(crate) const FIND_HIT: Op = Op::Find(100);
    /// Lookups of which half are present.
    pub(crate) const FIND_HALF: Op = Op::Find(50);
    /// Lookups of keys that are all absent.
    pub(crate) const FIND_MISS: Op = Op::Find(0);
    /// Operations with names of their own.
    const NAMED: [Op; 8] = [
        Op::Build,
        Op::FIND_HIT,
        Op::FIND_HALF,
        Op::FIND_MISS,
        Op::BuildCold,
        Op::Rebuild,
        Op::BuildHost,
        Op::GetHost,
    ];
    pub(crate) fn name(self) -> String {
        match self {
            Op::Build => "build".into(),
            Op::BuildCold => "build_cold".into(),
            Op::Rebuild => "rebuild".into(),
            Op::BuildHost => "build_host".into(),
            Op::GetHost => "get_host".into(),
            Op::FIND_HIT => "find_hit".into(),
            Op::FIND_HALF => "find_half".into(),
            Op::FIND_MISS => "find_miss".into(),
            Op::Find(share) => format!("find_{share}"),
        }
    }
    /// Describes the operation for people.
    pub(crate) fn about(self) -> String {
        match self {
            Op::Build => "build a table".into(),
            Op::BuildCold => "build a table, no memory kept".into(),
            Op::Rebuild => "build into the existing table".into(),
            Op::BuildHost => "build a table from arrays of the host".into(),
            Op::GetHost => "look up an array of the host, all keys present".into(),
            Op::FIND_HIT => "look up keys that are present".into(),
            Op::FIND_HALF => "look up keys, half of them present".into(),
            Op::FIND_MISS => "look up keys that are absent".into(),
            Op::Find(share) => format!("look up keys, {share} % of them present"),
        }
    }
    pub(crate) fn is_build(self) -> bool {
        self.hit_share().is_none()
    }
    /// Returns whether it works on arrays of the host, copies included.
    pub(crate) fn is_of_host(self) -> bool {
        matches!(self, Op::BuildHost | Op::GetHost)
    }
    /// Returns the percentage of lookups whose key is present; `None` for builds.
    pub(crate) fn hit_share(self) -> Option<u8> {
        match self {
            Op::Find(share) => Some(share),
            Op::GetHost => Some(100),
            _ => None,
        }
    }
    /// Sort key: builds first, then lookups from hits to misses.
    fn place(self) -> u8 {
        match self {
            Op::Build => 0,
            Op::BuildCold => 1,
            Op::Rebuild => 2,
            Op::BuildHost => 3,
            Op::Find(share) => 104 - share,
            Op::GetHost => 105,
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

/// Returns the name of a policy on the command line and in reports; `None` keeps all pairs.
pub(crate) fn policy_name(policy: Option<Duplicates>) -> &'static str {
    match policy {
        None => "keep_all",
        Some(Duplicates::KeepLast) => "keep_last",
        Some(Duplicates::KeepFirst) => "keep_first",
        Some(Duplicates::Reject) => "reject",
        Some(Duplicates::Unchecked) => "unchecked",
    }
}

/// `--order`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum OrderName {
    /// x, y, z: neighbours along z have adjacent keys
    #[value(alias = "linear")]
    RowMajor,
    /// Bits of x, y and z in turn: voxels close in space have close keys
    Morton,
}
impl OrderName {
    /// Returns the name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            OrderName::RowMajor => "row-major",
            OrderName::Morton => "morton",
        }
    }
    /// Converts to the library's type.
    pub(crate) fn order(self) -> Order {
        match self {
            OrderName::RowMajor => Order::RowMajor,
            OrderName::Morton => Order::Morton,
        }
    }
}

/// Source of the keys.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Source {
    /// A number of random keys.
    Random(usize, Arrangement),
    /// The voxels of a scan (`None`: the one inside the program) on a grid, in an order.
    Voxels(Option<PathBuf>, u32, OrderName),
    /// A file of 32-bit little-endian words.
    Words(PathBuf),
}

impl Args {
    /// Returns the selected operations, distinct, builds first.
    pub(crate) fn ops(&self) -> Outcome<Vec<Op>> {
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

    /// Returns the selected batch sizes, ascending and distinct.
    pub(crate) fn batches(&self) -> Vec<usize> {
        let mut batches = distinct(self.batch.iter().copied());
        batches.sort_unstable();
        batches
    }
    /// Returns the selected policies, distinct.
    pub(crate) fn policies(&self) -> Vec<Duplicates> {
        distinct(self.policy.iter().copied())
    }

    /// Returns the selected loads, ascending and distinct.
    pub(crate) fn loads(&self) -> Vec<f64> {
        let mut loads = distinct(self.load.iter().copied());
        loads.sort_by(f64::total_cmp);
        loads
    }

    /// Returns one source of keys for each number of keys and each way to repeat them.
    pub(crate) fn sources(&self) -> Outcome<Vec<Source>> {
        let grid = self.grid.unwrap_or(1024);
        let order = self.order.unwrap_or(OrderName::RowMajor);
        let voxels = |scan: Option<PathBuf>| Source::Voxels(scan, grid, order);
        let source = match self.keys.as_deref() {
            None if self.n.is_empty() => voxels(self.mesh.clone()),
            None | Some("random") => Source::Random(1 << 22, Arrangement::Unique),
            Some("voxels") => voxels(self.mesh.clone()),
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
                            "--keys {file}: koel bench measures tables of 32-bit keys, \
                             expected a file named .u32"
                        )));
                    }
                    Some("ply" | "obj") => voxels(Some(path)),
                    _ => {
                        return Err(Failure::Usage(format!(
                            "--keys {file}: expected random, voxels, \
                             or a file named .u32, .ply or .obj"
                        )));
                    }
                }
            }
        };
        let is_scan_file = self.keys.as_deref().is_some_and(|k| k != "random" && k != "voxels");
        let clash = match &source {
            Source::Voxels(..) if !self.n.is_empty() => {
                Some("--n requires random keys: a scan has a fixed number of voxels")
            }
            Source::Voxels(..) if is_scan_file && self.mesh.is_some() => {
                Some("--keys FILE and --mesh FILE: expected one scan")
            }
            Source::Random(..) | Source::Words(_) if self.mesh.is_some() => {
                Some("--mesh requires --keys voxels")
            }
            Source::Random(..) | Source::Words(_) if self.grid.is_some() => {
                Some("--grid requires --keys voxels")
            }
            Source::Random(..) | Source::Words(_) if self.order.is_some() => {
                Some("--order requires --keys voxels")
            }
            Source::Words(_) if !self.n.is_empty() => {
                Some("--n requires random keys: a file has a fixed number of keys")
            }
            Source::Voxels(..) | Source::Words(_) if !self.duplicates.is_empty() => Some(
                "--duplicates requires random keys: the keys of a scan or of a file are distinct",
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
        let repeats = if self.duplicates.is_empty() {
            vec![unique]
        } else {
            distinct(self.duplicates.iter().copied())
        };
        Ok(counts
            .iter()
            .flat_map(|&n| repeats.iter().map(move |&repeats| Source::Random(n, repeats)))
            .collect())
    }
}

fn key_count(text: &str) -> Result<usize, String> {
    let n = size(text).ok_or("expected a whole number, or 2^k")?;
    let count = if n < 48 && !text.contains('^') { 1 << n } else { n };
    match count <= MAX_RANDOM {
        true => Ok(count),
        false => Err(format!(
            "{count} keys: at most 2^31, so that at least as many 32-bit keys remain absent"
        )),
    }
}
fn policy(text: &str) -> Result<Duplicates, String> {
    [Duplicates::Unchecked, Duplicates::KeepLast, Duplicates::KeepFirst]
        .into_iter()
        .find(|&policy| policy_name(Some(policy)) == text)
        .ok_or_else(|| "expected unchecked, keep_last or keep_first".into())
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
        assert_eq!(["31", "2^31", "2^3"].map(key_count), [1 << 31, 1 << 31, 8].map(Ok));
        assert!(
            key_count("32").is_err()
                && key_count("47").is_err()
                && key_count("2147483649").is_err()
        );
        assert!(key_count("-1").is_err() && key_count("1e6").is_err() && key_count("").is_err());
    }

    #[test]
    fn options_say_where_keys_come_from() {
        let row_major = OrderName::RowMajor;
        assert_eq!(args("").sources().unwrap(), [Source::Voxels(None, 1024, row_major)]);
        for (name, order) in
            [("linear", row_major), ("row-major", row_major), ("morton", OrderName::Morton)]
        {
            let sources = args(&format!("--grid 64 --order {name}")).sources().unwrap();
            assert_eq!(sources, [Source::Voxels(None, 64, order)]);
        }
        assert!(refused("--n 5 --order morton").contains("--order requires --keys voxels"));
        assert!(refused("--keys k.u32 --order morton").contains("--order requires --keys voxels"));
        assert_eq!(
            args("--grid 64 --mesh a.obj").sources().unwrap(),
            [Source::Voxels(Some("a.obj".into()), 64, row_major)]
        );
        assert_eq!(
            args("--keys a.PLY").sources().unwrap(),
            [Source::Voxels(Some("a.PLY".into()), 1024, row_major)]
        );
        assert_eq!(
            args("--n 100,10,100").sources().unwrap(),
            [100, 1024].map(|n| Source::Random(n, Arrangement::Unique))
        );
        assert_eq!(
            args("--keys random").sources().unwrap(),
            [Source::Random(1 << 22, Arrangement::Unique)]
        );
        assert_eq!(
            args("--n 6,100 --duplicates zipf,unique,zipf").sources().unwrap(),
            [64, 100]
                .map(|n| [Arrangement::Zipf, Arrangement::Unique]
                    .map(|repeats| Source::Random(n, repeats)))
                .concat()
        );
        assert!(refused("--duplicates zipf").contains("--duplicates requires random keys"));
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
        let builds = [Op::Build, Op::BuildCold, Op::Rebuild, Op::BuildHost];
        let finds = [Op::FIND_HIT, Op::FIND_HALF, Op::FIND_MISS, Op::GetHost];
        let all = [builds, finds].concat();
        let line = "--op get_host,find_miss,rebuild,build_host,find,build_cold,build";
        assert_eq!(args(line).ops().unwrap(), all);
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
        assert!(matches!(args("--op insert").ops(),
                Err(Failure::Usage(m)) if m.contains("no operation 'insert'")));
        assert!(matches!(args("--op fnd").ops(),
                Err(Failure::Usage(m)) if m.contains("no operation 'fnd'")));
    }
}
