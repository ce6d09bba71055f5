//! Measures one table: every kind of build and lookup, verified.
use super::super::args::Op;
use super::super::contenders::{Built, Contender, Keeps};
use super::inputs::Inputs;
use super::{MAX_CALLS, Row, Session, Stop};
use koel::limits::Rates;
use koel_classic::Options;
use std::fmt::Display;

/// Seconds of the runs of a row; `None` if an answer was wrong.
struct Measured {
    op: Op,
    batch: Option<usize>,
    calls: usize,
    seconds: Option<Vec<f64>>,
}

impl Session {
    /// Measures builds and lookups of one table, and compares them with the machine's limit.
    ///
    /// `slots_before`: slots of this contender's table at the previous load.
    pub(super) fn measure_table(
        &mut self,
        contender: &Contender,
        load: Option<f64>,
        inputs: &mut Inputs<'_>,
        slots_before: &mut Option<usize>,
    ) -> Result<(), Stop> {
        let kind = &contender.kind;
        // Keys are distinct unless repeats are requested; the papers' tables rely on it.
        let options = Options::default()
            .with_load(load)
            .with_duplicates(inputs.policy.unwrap_or_default())
            .with_seed(self.settings.seed);
        self.progress.set_message(format!("{} · {}", contender.label(), Op::Build.name()));
        let (table, first) = inputs.build(kind, &options, false)?;
        let slots = table.report().slots;
        if slots_before.replace(slots) == Some(slots) {
            return Ok(()); // its layout fixes the load, which has been measured
        }
        let (table, mut measured) =
            self.measure_builds(contender, &options, inputs, table, first)?;
        let builds = measured.len();
        let mut whole = self.holds_every_key(contender, &table, inputs)?;
        for i in 0..inputs.queries.len() {
            whole &= self.measure_lookups(contender, &table, i, inputs, &mut measured)?;
        }
        // A build is right if exactly the inserted pairs were found.
        if let Some(last) = builds.checked_sub(1).filter(|_| !whole) {
            measured[last].seconds = None;
        }
        if let Some(fallback) = &table.report().fallback {
            let label = contender.label();
            self.note(format!("{label}: not as published: {fallback}"), inputs.place());
        }
        self.add_rows(contender, load, inputs, measured, table)
    }

    /// Measures every requested kind of build that the contender has. Returns the last table and a
    /// row per kind. `table` was built in `first` seconds.
    fn measure_builds(
        &mut self,
        contender: &Contender,
        options: &Options,
        inputs: &mut Inputs<'_>,
        mut table: Built,
        first: f64,
    ) -> Result<(Built, Vec<Measured>), Stop> {
        let mut measured = vec![];
        let builds = self.settings.ops.iter().copied().filter(|op| op.is_build());
        // A table that keeps no memory cannot be rebuilt.
        let builds =
            builds.filter(|&op| op != Op::Rebuild || contender.keeps.is_some()).collect::<Vec<_>>();
        for (i, &op) in builds.iter().enumerate() {
            self.progress.set_message(format!("{} · {}", contender.label(), op.name()));
            let seconds;
            (table, seconds) = match (op, contender.keeps) {
                (Op::Rebuild, Some(keeps)) => {
                    drop(table);
                    self.time_rebuilds(keeps, options, inputs)?
                }
                _ => self.time_builds(contender, op, options, inputs, table, first)?,
            };
            // The last table is verified with the lookups that are measured later.
            let is_whole = i + 1 == builds.len() || self.is_whole(contender, &table, inputs)?;
            measured.push(Measured {
                op,
                batch: None,
                calls: 1,
                seconds: is_whole.then_some(seconds),
            });
        }
        Ok((table, measured))
    }
    /// Rebuilds one table repeatedly. Returns it and the seconds.
    fn time_rebuilds(
        &mut self,
        keeps: &dyn Keeps,
        options: &Options,
        inputs: &mut Inputs<'_>,
    ) -> Result<(Built, Vec<f64>), Stop> {
        keeps.forget();
        // The first build has values of no rebuild, so that a table that is never rebuilt is
        // detected.
        let (keys, other_values) = (inputs.keys.view(), inputs.keys.view());
        let mut standing = keeps.begin(inputs.stream, keys, other_values, options)?;
        let first = inputs.rebuild(&mut *standing, false)?;
        let seconds = self.repeat(first, |is_last| inputs.rebuild(&mut *standing, is_last))?;
        standing.update_report()?;
        Ok((Built::Pairs(standing), seconds))
    }
    /// Builds repeatedly, after a first build. Returns the last table and the seconds.
    fn time_builds(
        &mut self,
        contender: &Contender,
        op: Op,
        options: &Options,
        inputs: &mut Inputs<'_>,
        table: Built,
        first: f64,
    ) -> Result<(Built, Vec<f64>), Stop> {
        let mut table = Some(table);
        let mut build = |is_last| {
            table = None; // two of them might not fit
            if let (Op::BuildCold | Op::BuildHost, Some(keeps)) = (op, contender.keeps) {
                keeps.forget();
            }
            let (built, seconds) = match op {
                Op::BuildHost => inputs.build_from_host(&contender.kind, options, is_last)?,
                _ => inputs.build(&contender.kind, options, is_last)?,
            };
            table = Some(built);
            Ok(seconds)
        };
        let first = if op == Op::Build { first } else { build(false)? };
        let seconds = self.repeat(first, build)?;
        let Some(table) = table else { unreachable!("every run leaves its table") };
        Ok((table, seconds))
    }
    /// Measures query set `i` in one call and in the requested batches. Returns whether all answers
    /// were right.
    fn measure_lookups(
        &mut self,
        contender: &Contender,
        table: &Built,
        i: usize,
        inputs: &mut Inputs<'_>,
        measured: &mut Vec<Measured>,
    ) -> Result<bool, Stop> {
        let op = inputs.queries[i].0;
        self.progress.set_message(format!("{} · {}", contender.label(), op.name()));
        if op == Op::GetHost {
            return self.measure_gets(contender, table, i, inputs, measured);
        }
        inputs.spoil_answers()?;
        let first = inputs.find(table, i)?;
        let mut right = self.is_right(contender, table, i, inputs.n, inputs)?;
        if !self.settings.ops.contains(&op) {
            return Ok(right);
        }
        if self.settings.batches.is_empty() {
            let mut seconds = None;
            if right {
                let run = |_| inputs.spoil_answers().and_then(|()| inputs.find(table, i));
                seconds = Some(self.repeat(first, run)?);
                right = self.is_right(contender, table, i, inputs.n, inputs)?;
            }
            measured.push(Measured {
                op,
                batch: None,
                calls: 1,
                seconds: seconds.filter(|_| right),
            });
        }
        for batch in self.settings.batches.clone() {
            let calls = (inputs.n / batch).min(MAX_CALLS);
            if calls == 0 {
                let reason = format!("{batch} lookups per call need at least as many keys");
                self.note(
                    format!("{}, {}: left out: {reason}", contender.label(), op.name()),
                    inputs.place(),
                );
                continue;
            }
            let mut seconds = None;
            if right {
                inputs.spoil_answers()?;
                let first = inputs.find_in_calls(table, i, batch, calls)?;
                let run = |_| {
                    inputs
                        .spoil_answers()
                        .and_then(|()| inputs.find_in_calls(table, i, batch, calls))
                };
                seconds = Some(self.repeat(first, run)?);
                right = self.is_right(contender, table, i, batch * calls, inputs)?;
            }
            measured.push(Measured {
                op,
                batch: Some(batch),
                calls,
                seconds: seconds.filter(|_| right),
            });
        }
        Ok(right)
    }
    /// Measures lookups of query set `i` between arrays of the host. Every answer of every run is
    /// verified. Returns whether all were right.
    fn measure_gets(
        &mut self,
        contender: &Contender,
        table: &Built,
        i: usize,
        inputs: &Inputs<'_>,
        measured: &mut Vec<Measured>,
    ) -> Result<bool, Stop> {
        let mut wrong = None;
        let mut get = |_| {
            Ok(inputs.get_on_host(table, i)?.unwrap_or_else(|answer| {
                wrong.get_or_insert(answer);
                f64::INFINITY
            }))
        };
        let first = get(false)?;
        let seconds = self.repeat(first, get)?;
        if let Some(answer) = &wrong {
            self.wrong(contender, Some(Op::GetHost), answer, inputs);
        }
        let seconds = Some(seconds).filter(|_| wrong.is_none());
        measured.push(Measured { op: Op::GetHost, batch: None, calls: 1, seconds });
        Ok(wrong.is_none())
    }
    /// Adds a row for everything measured of one table, with the machine's limit.
    fn add_rows(
        &mut self,
        contender: &Contender,
        load_asked: Option<f64>,
        inputs: &Inputs<'_>,
        measured: Vec<Measured>,
        table: Built,
    ) -> Result<(), Stop> {
        let (report, held) = (table.report().clone(), table.held());
        drop(table); // the limit needs as much memory
        let has = report.pairs as f64 / report.slots.max(1) as f64;
        let load = load_asked
            .filter(|asked| (asked - has).abs() < 0.005)
            .unwrap_or((has * 1e4).round() / 1e4);
        let limit = self.place(contender.on_host).random_reads(report.bytes)?;
        let device = inputs.stream.device().name();
        for Measured { op, batch, calls, seconds } in measured {
            let work = (calls * batch.unwrap_or(inputs.n)) as f64;
            self.rows.push(Row {
                table: contender.name(),
                asked: contender.asked.clone(),
                parameters: contender.kind.parameters(),
                op,
                n: inputs.n,
                repeats: inputs.repeats,
                policy: inputs.policy,
                batch,
                calls,
                load,
                load_asked,
                rates: seconds.as_ref().map(|seconds| Rates::of(work, seconds)),
                verified: seconds.is_some(),
                runs: seconds.map_or(0, |seconds| seconds.len()),
                limit,
                held,
                report: report.clone(),
                device: device.clone(),
            });
        }
        Ok(())
    }

    /// Checks that the table reports as many pairs as there are distinct keys, and its list if it
    /// has one.
    fn holds_every_key(
        &mut self,
        contender: &Contender,
        table: &Built,
        inputs: &Inputs<'_>,
    ) -> Result<bool, Stop> {
        let (pairs, distinct) = (table.report().pairs, inputs.distinct);
        let mut right = inputs.check_list(table)?;
        if pairs != distinct {
            right = Err(format!("holds {pairs} pairs, distinct keys: {distinct}"));
        }
        if let Err(wrong) = &right {
            self.wrong(contender, None, wrong, inputs);
        }
        Ok(right.is_ok())
    }
    /// Verifies all queries.
    fn is_whole(
        &mut self,
        contender: &Contender,
        table: &Built,
        inputs: &mut Inputs<'_>,
    ) -> Result<bool, Stop> {
        let mut whole = self.holds_every_key(contender, table, inputs)?;
        for i in 0..inputs.queries.len() {
            inputs.spoil_answers()?;
            inputs.find(table, i)?;
            whole &= self.is_right(contender, table, i, inputs.n, inputs)?;
        }
        Ok(whole)
    }
    /// Verifies the first `asked` answers to query set `i`; notes the first wrong one.
    fn is_right(
        &mut self,
        contender: &Contender,
        table: &Built,
        i: usize,
        asked: usize,
        inputs: &Inputs<'_>,
    ) -> Result<bool, Stop> {
        let right = inputs.check(table, i, asked)?;
        if let Err(wrong) = &right {
            self.wrong(contender, Some(inputs.queries[i].0), wrong, inputs);
        }
        Ok(right.is_ok())
    }
    fn wrong(
        &mut self,
        contender: &Contender,
        op: Option<Op>,
        wrong: &dyn Display,
        inputs: &Inputs<'_>,
    ) {
        self.wrong += 1;
        let op = op.map_or("table".into(), Op::name);
        self.note(format!("WRONG ANSWER: {}, {op}: {wrong}", contender.label()), inputs.place());
    }
}
