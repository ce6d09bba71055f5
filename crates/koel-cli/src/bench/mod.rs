//! `koel bench`: rates of every table on this machine.
//!
//! Makes keys ([`keys`]), inserts them into every table and looks them up ([`measure`], with the
//! tables in [`contenders`]), verifies every answer ([`verify`]), and reports the results as text
//! ([`report`]), figures ([`plot`]) and JSON ([`json`]).
pub(crate) mod args;
pub(crate) mod contenders;
mod json;
pub(crate) mod keys;
pub(crate) mod machine;
mod measure;
mod parameters;
mod peers;
pub(crate) mod plot;
mod report;
pub(crate) mod verify;

use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::{Global, device, output};
pub(crate) use args::Args;
use args::{Op, Source};
use keys::Workload;
use koel::DeviceKind;
use koel_measure::Arrangement;
use machine::Machine;
use measure::{Session, Settings};
use peers::Peers;
use std::path::Path;

/// Runs `koel bench`. Rejects bad arguments before anything is measured.
pub(crate) fn run(global: &Global, args: Args) -> Outcome {
    let (ops, sources, asked) = (args.ops()?, args.sources()?, args.parameters.asked());
    contenders::check(&args.table, &asked)?;
    for source in &sources {
        check_memory(source, &ops, contenders::have_lists(&args.table))?;
    }
    check_files(global, &args)?;
    let peers = args.peers.as_deref().map(Peers::read).transpose().map_err(Failure::input)?;
    // The bar moves only between rows: a thread that redraws it would be measured too.
    let progress = output::progress_bar(Some(0), output::STEPS);
    progress.set_message("making keys");
    progress.tick();
    // The first source is read now, to detect a bad file early; later sources are random keys.
    let mut first = Some(Workload::of(&sources[0], global.seed)?);

    let device::Opened { device, fallback } = device::open(global.device, global.threads)?;
    let host = if device.kind() == DeviceKind::Cpu {
        device.clone()
    } else {
        device::cpu(global.threads)?
    };
    let (contenders, without) = contenders::choose(&args.table, &asked, device.kind());
    let tables = contenders.len() * sources.len() * args.load.len().max(1);
    let runs = args.runs.into();
    let (policies, batches) = (args.policies(), args.batches());
    let (loads, budget, seed) = (args.loads(), args.budget, global.seed);
    let settings = Settings { ops, loads, policies, batches, runs, budget, seed };
    let mut session =
        Session::new(settings, device.stream()?, host.stream()?, tables, progress.clone());
    let mut keys = vec![];
    for source in &sources {
        let workload = match first.take() {
            Some(workload) => workload,
            None => Workload::of(source, global.seed)?,
        };
        session.run(&contenders, &workload)?;
        workload.about.notes.iter().for_each(|note| output::say(format_args!("note: {note}")));
        keys.push((workload.n(), workload.about));
    }
    let limits = session.limits()?;
    progress.finish_and_clear();

    let machine = Machine::of(&device, fallback)?;
    let of_keys = keys.iter().flat_map(|(_, about)| about.notes.iter().cloned());
    let notes = of_keys.chain(without).chain(session.notes()).collect::<Vec<String>>();
    let text = report::text(&machine, &keys, &session.rows, &limits, runs, &notes);
    let report = json::Report::new(&machine, &limits, &session.rows, &keys, &notes, global.seed);
    output::result(global, &report, &text)?;
    if let Some(folder) = &args.plot {
        let drawn = plot::draw(folder, &machine, &keys, &session.rows, peers.as_ref())?;
        drawn.iter().for_each(|name| output::tell_drawn(folder, name, ".svg"));
    }
    match session.wrong {
        0 => Ok(()),
        n => Err(Failure::Other(format!("{n} operations gave wrong answers"))),
    }
}

/// Rejects outputs that overwrite an input or one another, and files that cannot be written.
fn check_files(global: &Global, args: &Args) -> Outcome {
    let scan_or_words =
        args.keys.as_deref().filter(|keys| !["random", "voxels"].contains(keys)).map(Path::new);
    let files =
        Files::default().may_read("--keys", scan_or_words).may_read("--mesh", args.mesh.as_deref());
    let files =
        files.may_read("--peers", args.peers.as_deref()).writes_json(global.json.as_deref());
    files.writes_into("--plot", args.plot.as_deref(), &["svg", "png"]).check_apart()?;
    global.json_file().map_or(Ok(()), output::check_writable)?;
    if let Some(folder) = &args.plot {
        output::check_folder(folder)?;
    }
    Ok(())
}

/// Rejects a number of keys that does not fit host memory along with a table on the CPU. Otherwise
/// the system would kill the process. `lists`: some tables list their entries.
fn check_memory(source: &Source, ops: &[Op], lists: bool) -> Outcome {
    let Source::Random(n, repeats) = source else { return Ok(()) };
    // Keys, values of two builds, absent keys; queries and expected answers; answers; a large
    // table; and, with repeated keys, temporaries to find which pair is kept.
    let of_copies = if *repeats == Arrangement::Unique { 0 } else { 12 };
    // Numbers of pairs, a sorted copy, and the list with the key of each entry.
    let of_lists = if lists { 40 } else { 0 };
    let bytes_per_key = 16 + 8 * ops.len().max(2) as u64 + 5 + 32 + of_copies + of_lists;
    let needed = *n as u64 * bytes_per_key;
    match machine::available_memory() {
        Some(available) if needed > available => Err(Failure::Usage(format!(
            "--n: {n} keys need about {:.0} GB of host memory, {:.1} GB are available",
            needed as f64 / 1e9,
            available as f64 / 1e9
        ))),
        _ => Ok(()),
    }
}

/// Returns the distinct elements, in order of first occurrence.
fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    all.into_iter().fold(vec![], |mut distinct, one| {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
        distinct
    })
}
