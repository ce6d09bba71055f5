//! `koel match` and `koel models`: find images in images.
mod args;
mod draw;
mod finder;
#[cfg(feature = "bench")]
mod paper;
mod report;

use crate::apart::Files;
use crate::failure::{Failure, Outcome};
use crate::frames::{Frames, IMAGES, Pattern, numbered};
use crate::{Global, output};
use args::{Change, Method, Wanted};
pub(crate) use args::{MatchArgs, ModelsArgs};
use finder::{Finder, Outcomes, Sought};
use koel_vision::{Doubt, Found, Model, Models, Picture, TooFewEdges};
use report::{Match, MatchReport, PART, SHOWS_PART, Timings, matrix};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs `koel match`. Rejects bad arguments before the search starts.
pub(crate) fn run_match(global: &Global, args: MatchArgs) -> Outcome {
    let (wanted, scene) = args.sides()?;
    let frames = Frames::of(scene, &IMAGES)?;
    check_pictures(global, &args, &wanted, &frames)?;
    let json_file = global.json_file();
    json_file.map_or(Ok(()), output::check_writable)?;
    let sought = match wanted {
        Wanted::Models(db) => {
            let models = Models::load(db).map_err(Failure::input)?;
            Sought::Models { models, image: None }
        }
        Wanted::Model(path) => {
            let (name, picture) = (path.display().to_string(), read(path)?);
            match args.method {
                #[cfg(feature = "bench")]
                Method::Paper => Sought::Image { name, image: Box::new(picture) },
                Method::Default => match model_of(&picture) {
                    Ok(model) => {
                        let mut models = Models::default();
                        models.add(name, model).map_err(Failure::input)?;
                        Sought::Models { models, image: Some(Box::new(picture)) }
                    }
                    // Nothing can be found; report that for each scene.
                    Err(e) => return without_model(global, path, &frames, &e.to_string()),
                },
            }
        }
    };
    let search = Search { finder: Finder::new(global, &args, sought)?, args: &args };
    let printer = Printer::new(global, json_file, matches!(frames, Frames::Many(_)));
    search.all(frames, printer)
}

/// Rejects pictures that lack a pattern, would overwrite a file, or cannot be written.
fn check_pictures(
    global: &Global,
    args: &MatchArgs,
    wanted: &Wanted<'_>,
    frames: &Frames,
) -> Outcome {
    let many = matches!(frames, Frames::Many(_));
    let drawn = [("--overlay", args.overlay.as_deref()), ("--votes", args.votes.as_deref())];
    let drawn = || drawn.iter().filter_map(|&(option, path)| Some((option, path?)));
    if let Some((option, _)) = drawn().find(|(_, path)| many && Pattern::of(path).is_none()) {
        return Err(Failure::Usage(format!(
            "{option}: expected a pattern such as out-%04d.png for a sequence"
        )));
    }
    check_apart(global, args, wanted, frames)?;
    drawn().try_for_each(|(_, path)| output::check_writable(path))
}

/// Rejects pictures and reports that would replace an image or one another.
fn check_apart(global: &Global, args: &MatchArgs, wanted: &Wanted<'_>, frames: &Frames) -> Outcome {
    let scenes = match frames {
        Frames::One(path) => vec![(None, path)],
        Frames::Many(frames) => frames.iter().map(|(number, path)| (Some(*number), path)).collect(),
    };
    let drawn = [("--overlay", &args.overlay), ("--votes", &args.votes)];
    let drawn = drawn.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)));
    let of_scenes =
        |(option, path)| scenes.iter().map(move |(number, _)| (option, numbered(path, *number)));
    let drawn = drawn.flat_map(of_scenes).collect::<Vec<(&str, PathBuf)>>();
    let files = match wanted {
        Wanted::Model(path) => Files::default().reads("MODEL", path),
        Wanted::Models(db) => Files::default().reads("--models", db),
    };
    let files = scenes.iter().fold(files, |files, (_, path)| files.reads("SCENE", path));
    let files = drawn.iter().fold(files, |files, (option, path)| files.writes(option, Some(path)));
    files.writes_json(global.json.as_deref()).check_apart()
}

/// Reports no match for a model without structure.
fn without_model(global: &Global, model: &Path, frames: &Frames, reason: &str) -> Outcome {
    let mut printer = Printer::new(global, global.json_file(), matches!(frames, Frames::Many(_)));
    let paths = match frames {
        Frames::One(path) => {
            read(path)?;
            vec![path]
        }
        Frames::Many(frames) => frames.iter().map(|(_, path)| path).collect(),
    };
    for path in paths {
        let (scene, name) = (path.display().to_string(), model.display().to_string());
        let reason = format!("{name}: {reason}");
        printer.print(&MatchReport::nothing(scene, Some(name), 0.0, reason))?;
    }
    printer.finish()
}

fn model_of(picture: &Picture) -> Result<Model, TooFewEdges> {
    Ok(Model::of(&picture.grey)?.with_colours(picture.colours.as_ref()))
}
fn read(path: &Path) -> Outcome<Picture> {
    let picture = koel_vision::read(path).map_err(Failure::input)?;
    if let Some(note) = &picture.note {
        output::say(format_args!("note: {}: {note}", path.display()));
    }
    Ok(picture)
}

struct Search<'a> {
    finder: Finder,
    args: &'a MatchArgs,
}
impl Search<'_> {
    /// Searches every scene for all models and prints the results. In a sequence, a frame that
    /// cannot be read is reported as not found.
    fn all(&self, frames: Frames, mut printer: Printer<'_>) -> Outcome {
        match frames {
            Frames::One(path) => {
                let begin = Instant::now();
                let picture = koel_vision::read(&path).map_err(Failure::input)?;
                let report = self.scene(&path, &picture, None, begin)?;
                printer.print(&report)?;
            }
            Frames::Many(frames) => {
                let length = Some(frames.len() as u64);
                let progress =
                    output::progress_bar(length, "{bar:30} {pos}/{len} frames, {eta} left");
                for (number, path) in frames {
                    let begin = Instant::now();
                    let report = match koel_vision::read(&path) {
                        Ok(picture) => self.scene(&path, &picture, Some(number), begin)?,
                        Err(e) => MatchReport::nothing(
                            path.display().to_string(),
                            self.only_name(),
                            0.0,
                            e.to_string(),
                        ),
                    };
                    progress.suspend(|| printer.print(&report))?;
                    progress.inc(1);
                }
                progress.finish_and_clear();
            }
        }
        printer.finish()
    }
    /// Returns the name of the model, if there is only one.
    fn only_name(&self) -> Option<String> {
        match self.finder.sought.models().as_slice() {
            [(name, _)] => Some((*name).to_owned()),
            _ => None,
        }
    }
    /// Searches one image for all models, and draws the pictures that are wanted.
    fn scene(
        &self,
        path: &Path,
        picture: &Picture,
        number: Option<u64>,
        begin: Instant,
    ) -> Outcome<MatchReport> {
        let read = begin.elapsed();
        let Outcomes { of_models, features, is_blank } = self.finder.search(picture)?;
        let results = self.collect(of_models);
        let total = begin.elapsed();
        let mut report = self.report(path.display().to_string(), is_blank, &results);
        let inside =
            results.found.first().map(|of| of.note((picture.grey.width, picture.grey.height)));
        let notes = inside.flatten().map(str::to_owned).into_iter().chain(picture.note.clone());
        report.note = notes.reduce(|first, second| format!("{first}; {second}"));
        let ms = |seconds: f64| 1e3 * seconds;
        report.timings_ms = Timings {
            read: ms(read.as_secs_f64()),
            features: ms(features),
            vote: ms(results.seconds[0]),
            refine: ms(results.seconds[1]),
            verdict: ms(results.seconds[2]),
            total: ms(total.as_secs_f64()),
        };
        self.draw(picture, number, &results)?;
        Ok(report)
    }
    /// Merges the outcomes of all models.
    fn collect(&self, outcomes: Vec<koel_vision::MatchOutcome>) -> Results<'_> {
        let mut results = Results {
            found: vec![],
            hypotheses: vec![],
            evidence: f32::MIN,
            doubt: None,
            colour: None,
            seconds: [0.0; 3],
        };
        let models = self.finder.sought.models();
        // Of one model, there may be several instances.
        for ((name, size), mut outcome) in models.into_iter().cycle().zip(outcomes) {
            results.seconds.iter_mut().zip(outcome.seconds).for_each(|(all, s)| *all += s);
            if outcome.evidence > results.evidence {
                (results.evidence, results.doubt) = (outcome.evidence, outcome.doubt);
                results.colour = outcome.colour;
            }
            results.hypotheses.append(&mut outcome.hypotheses);
            if let Some(found) = outcome.found.clone() {
                results.found.push(FoundModel { name, size, outcome, found });
            }
        }
        results.found.sort_by(|a, b| b.outcome.evidence.total_cmp(&a.outcome.evidence));
        results
    }
    /// Makes the report of one scene, without its timings.
    fn report(&self, name: String, is_blank: bool, results: &Results<'_>) -> MatchReport {
        let evidence = results.evidence;
        let mut report = match results.found.first() {
            Some(best) => MatchReport::found(name, best.name.into(), &best.outcome, &best.found),
            None => {
                let reason = match is_blank {
                    true => "the scene has no edges".into(),
                    false if self.finder.sought.models().is_empty() => "there are no models".into(),
                    false => match results.doubt {
                        Some(doubt) => format!("{doubt} ({evidence:.0} nats)"),
                        None => format!("not enough evidence for it ({evidence:.0} nats)"),
                    },
                };
                MatchReport::nothing(
                    name,
                    self.only_name(),
                    if results.hypotheses.is_empty() { 0.0 } else { evidence },
                    reason,
                )
                .with_colour(results.colour)
            }
        };
        report.instances = self.args.all.then_some(results.found.len());
        if self.args.all || self.only_name().is_none() {
            let one = |of: &FoundModel<'_>| Match {
                model: of.name.into(),
                matrix: matrix(&of.found),
                homography: of.found.homography.map(|h| h.rows),
                negative: of.found.negative,
                votes: of.found.votes,
                rmse_px: of.found.rmse,
                inliers: of.found.inliers,
                evidence: of.outcome.evidence,
                agreement: of.outcome.agreement.map(|a| a.share()),
                colour_agreement: of.outcome.colour,
            };
            report.matches = results.found.iter().map(one).collect();
        }
        report
    }
    /// Draws the pictures that are wanted.
    fn draw(&self, picture: &Picture, number: Option<u64>, results: &Results<'_>) -> Outcome {
        if let Some(path) = &self.args.overlay {
            let most = if self.args.all { results.found.len() } else { 1 };
            let drawn = results.found.iter().take(most).map(|of| (&of.found, of.size));
            draw::write(&numbered(path, number), &draw::overlay(&picture.color, drawn))?;
        }
        if let Some(path) = &self.args.votes {
            draw::write(&numbered(path, number), &draw::votes(&picture.grey, &results.hypotheses))?;
        }
        Ok(())
    }
}

/// Merged outcomes of all models in one scene.
struct Results<'a> {
    /// Models that were found, sorted by evidence, most first.
    found: Vec<FoundModel<'a>>,
    /// Hypotheses of all models.
    hypotheses: Vec<((f32, f32), f32)>,
    /// Greatest evidence for any model.
    evidence: f32,
    /// Doubt about that model's pose.
    doubt: Option<Doubt>,
    /// Agreement of its colours.
    colour: Option<f32>,
    /// Sums over all models: tables and votes, refinement, verdict.
    seconds: [f64; 3],
}
struct FoundModel<'a> {
    name: &'a str,
    /// Size of the model's image in pixels.
    size: (usize, usize),
    outcome: koel_vision::MatchOutcome,
    found: Found,
}

impl FoundModel<'_> {
    /// Returns what is to be said about a scene, of the given size, that shows a part of the model.
    fn note(&self, (width, height): (usize, usize)) -> Option<&'static str> {
        if !self.found.part {
            return None;
        }
        let back = self.found.map.inverse()?;
        let (right, bottom) = (self.size.0 as f32, self.size.1 as f32);
        let inside = |&(x, y): &(f32, f32)| x > -1.0 && y > -1.0 && x < right && y < bottom;
        let is_inside = back.outline(width, height).iter().all(inside);
        Some(if is_inside { PART } else { SHOWS_PART })
    }
}

/// Prints reports as text or JSON; for a sequence, one JSON object per line.
struct Printer<'a> {
    json: bool,
    file: Option<&'a Path>,
    lines: bool,
    kept: String,
}
impl<'a> Printer<'a> {
    fn new(global: &Global, file: Option<&'a Path>, lines: bool) -> Printer<'a> {
        Printer { json: global.json.is_some(), file, lines, kept: String::new() }
    }
    fn print(&mut self, report: &MatchReport) -> Outcome {
        if self.json {
            let text = match self.lines {
                true => output::json_line(report)?,
                false => output::json(report)?,
            };
            match self.file {
                Some(_) => self.kept.push_str(&text),
                None => return output::print(&text),
            }
        }
        output::print(&report.line())
    }
    fn finish(self) -> Outcome {
        match self.file {
            Some(file) => output::write_file(file, self.kept.as_bytes()),
            None => Ok(()),
        }
    }
}

/// Runs `koel models`.
pub(crate) fn run_models(global: &Global, args: ModelsArgs) -> Outcome {
    if global.json.is_some() {
        return Err(Failure::Usage("--json: koel models has no result to report".into()));
    }
    match args.change {
        Change::Add { db, images } => {
            let files =
                images.iter().fold(Files::default(), |files, image| files.reads("IMAGES", image));
            files.writes("DB", Some(&db)).check_apart()?;
            let mut models = if db.exists() {
                Models::load(&db).map_err(Failure::input)?
            } else {
                Models::default()
            };
            output::check_replaceable(&db)?;
            for path in images {
                let picture = read(&path)?;
                let refused =
                    |e: &dyn std::fmt::Display| Failure::Usage(format!("{}: {e}", path.display()));
                let model = model_of(&picture).map_err(|e| refused(&e))?;
                let name =
                    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                models.add(name, model).map_err(|e| refused(&e))?;
            }
            output::write_file(&db, &models.to_bytes())
        }
        Change::List { db } => {
            let models = Models::load(&db).map_err(Failure::input)?;
            let line = |(name, model): (&str, &Model)| {
                let (width, height) = model.size();
                format!("{name}\t{width} x {height}\t{} points\n", model.points())
            };
            output::print(&models.iter().map(line).collect::<String>())
        }
        Change::Remove { db, names } => {
            let mut models = Models::load(&db).map_err(Failure::input)?;
            for name in names {
                models.remove(&name).map_err(Failure::input)?;
            }
            output::write_file(&db, &models.to_bytes())
        }
    }
}
