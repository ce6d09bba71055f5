//! JSON results: the fields of the agreed format first, then the rest.
use super::args::policy_name;
use super::keys::KeysAbout;
use super::machine::Machine;
use super::measure::{Limits, Row};
use koel_classic::SchemeReport;
use koel_provenance::Provenance;
use serde::Serialize;
use serde_json::{Map, Value};

const MILLION: f64 = 1e6;

/// The JSON report.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    machine: &'a Machine,
    limit: Limit,
    rows: Vec<JsonRow<'a>>,
    keys: Vec<Keys<'a>>,
    seed: u64,
    #[serde(flatten)]
    provenance: Provenance,
    notes: &'a [String],
}

/// Limits of the machine.
#[derive(Serialize)]
struct Limit {
    /// Million random reads per second, by the size of the memory read from.
    random_reads: Vec<Reads>,
    /// 10^9 bytes per second, read and written.
    copy_gb_per_s: Option<f64>,
    /// 10^9 bytes per second from pinned host memory to the device, and back; `null` without rows
    /// of host memory, or on a device that has the host's memory.
    to_device_gb_per_s: Option<f64>,
    to_host_gb_per_s: Option<f64>,
}
#[derive(Serialize)]
struct Reads {
    table_bytes: usize,
    read_bytes: usize,
    mops: f64,
    mops_min: f64,
    mops_max: f64,
}

/// The keys of the rows with this `n`.
#[derive(Serialize)]
struct Keys<'a> {
    n: usize,
    #[serde(flatten)]
    about: &'a KeysAbout,
}

#[derive(Serialize)]
struct JsonRow<'a> {
    table: &'static str,
    op: String,
    /// Number of keys.
    n: usize,
    load: f64,
    /// Million operations per second in the median run. `null` if an answer was wrong.
    mops: Option<f64>,
    mops_min: Option<f64>,
    mops_max: Option<f64>,
    bytes_per_pair: f64,
    limit_ratio: Option<f64>,
    verified: bool,
    load_asked: Option<f64>,
    runs: usize,
    /// Million random reads per second in the fastest run, from as much memory as the table takes.
    limit_mops: Option<f64>,
    sorted_ratio: Option<f64>,
    hashbrown_ratio: Option<f64>,
    hashbrown_sharded_ratio: Option<f64>,
    /// Percentage of lookups whose key is present.
    hit_share: Option<u8>,
    /// Lookups per call; `null`: all in one call.
    batch: Option<usize>,
    /// Sequential calls per run.
    calls: usize,
    /// How keys repeat.
    duplicates: String,
    policy: &'static str,
    /// Parameters of the table, by the names of their options.
    parameters: Map<String, Value>,
    device: &'a str,
    build: Build<'a>,
}
/// How the table was built.
#[derive(Serialize)]
struct Build<'a> {
    pairs: usize,
    slots: usize,
    bytes: usize,
    attempts: u32,
    stashed: usize,
    /// `null` where the table does not count it.
    largest_bucket: Option<usize>,
    family: &'a str,
    fallback: Option<&'a str>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        limits: &Limits,
        rows: &'a [Row],
        keys: &'a [(usize, KeysAbout)],
        notes: &'a [String],
        seed: u64,
    ) -> Report<'a> {
        let Limits { reads, copies, host_copies } = limits;
        let random_reads = reads.iter().map(|reads| Reads {
            table_bytes: reads.table_bytes,
            read_bytes: reads.read_bytes,
            mops: reads.rates.median / MILLION,
            mops_min: reads.rates.min / MILLION,
            mops_max: reads.rates.max / MILLION,
        });
        Report {
            machine,
            limit: Limit {
                random_reads: random_reads.collect(),
                copy_gb_per_s: copies.map(|copies| copies.rates.median / 1e9),
                to_device_gb_per_s: host_copies.map(|copies| copies.to_device.median / 1e9),
                to_host_gb_per_s: host_copies.map(|copies| copies.to_host.median / 1e9),
            },
            rows: rows.iter().map(|row| json_row(row, rows)).collect(),
            keys: keys.iter().map(|(n, about)| Keys { n: *n, about }).collect(),
            seed,
            provenance: Provenance::of_this_run(env!("KOEL_COMMIT"), machine.kind == "cuda"),
            notes,
        }
    }
}

fn json_row<'a>(row: &'a Row, rows: &[Row]) -> JsonRow<'a> {
    let SchemeReport { pairs, slots, bytes, attempts, stashed, largest_bucket, .. } = row.report;
    JsonRow {
        table: row.table,
        op: row.op.name(),
        n: row.n,
        load: row.load,
        mops: row.rates.map(|r| r.median / MILLION),
        mops_min: row.rates.map(|r| r.min / MILLION),
        mops_max: row.rates.map(|r| r.max / MILLION),
        bytes_per_pair: row.bytes_per_pair(),
        limit_ratio: row.limit_ratio(),
        verified: row.verified,
        load_asked: row.load_asked,
        runs: row.runs,
        limit_mops: row.limit_rate().map(|rate| rate / MILLION),
        sorted_ratio: row.times("sorted", rows),
        hashbrown_ratio: row.times("hashbrown", rows),
        hashbrown_sharded_ratio: row.times("hashbrown-sharded", rows),
        hit_share: row.op.hit_share(),
        batch: row.batch,
        calls: row.calls,
        duplicates: row.repeats.to_string(),
        policy: policy_name(row.policy),
        parameters: row.parameters.iter().map(|p| (p.name().into(), p.value())).collect(),
        device: &row.device,
        build: Build {
            pairs,
            slots,
            bytes,
            attempts,
            stashed,
            largest_bucket,
            family: row.report.family,
            fallback: row.report.fallback.as_deref(),
        },
    }
}
