//! Charts of lines and marks. Each series is named at its end.
use crate::bench::plot::COLORS;
use crate::bench::plot::chart::{nice_scale, number, spread};
use crate::bench::plot::svg::{Anchor, FAINT, GREY, INK, Svg, png};
use crate::failure::Outcome;
use crate::output;
use std::fmt::Write;
use std::path::Path;

const SIZE: (f64, f64) = (900.0, 520.0);
const LEFT: f64 = 84.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 96.0;
const BOTTOM: f64 = 456.0;

/// How an axis maps values to positions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Scale {
    /// Linear, from the given value.
    From(f64),
    /// Logarithmic, with ticks at powers of ten, or of two where those would be few.
    Log,
}

/// An axis.
pub(super) struct Axis {
    pub label: String,
    pub scale: Scale,
    /// A value that the axis must reach, whatever the data.
    pub reach: Option<f64>,
}
impl Axis {
    pub(super) fn new(label: impl Into<String>, scale: Scale) -> Axis {
        Axis { label: label.into(), scale, reach: None }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// A line with marks: measurements.
    Line,
    /// A dashed line: theory or a model.
    Dashed,
    /// Marks only: figures from a paper.
    Marks,
}

/// A named series of points.
pub(super) struct Series {
    pub name: String,
    /// Index into the colours.
    pub color: usize,
    pub look: Look,
    pub points: Vec<(f64, f64)>,
}
impl Series {
    pub(super) fn new(
        name: impl Into<String>,
        color: usize,
        look: Look,
        points: Vec<(f64, f64)>,
    ) -> Series {
        Series { name: name.into(), color, look, points }
    }
}

/// A figure.
pub(super) struct Chart {
    pub title: String,
    pub subtitle: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// An axis with its range and its ticks.
struct Fitted {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<(f64, String)>,
}
impl Fitted {
    fn of(axis: &Axis, values: impl Iterator<Item = f64> + Clone, inset: bool) -> Fitted {
        let greatest = values.clone().chain(axis.reach).fold(f64::MIN, f64::max);
        match axis.scale {
            Scale::From(least) => {
                let (step, _) = nice_scale((greatest - least).max(1e-12));
                let top = least + ((greatest - least) / step - 1e-9).ceil().max(1.0) * step;
                let ticks =
                    (0..=((top - least) / step).round() as usize).map(|i| least + i as f64 * step);
                let ticks = ticks.map(|t| (t, number(t, step))).collect();
                // Along x, marks should not lie on the axis.
                let margin = if inset { 0.03 * (top - least) } else { 0.0 };
                Fitted { low: least - margin, high: top + margin, log: false, ticks }
            }
            Scale::Log => {
                // The logarithm needs positive values. If there are none, no point is drawn.
                let greatest = if greatest > 0.0 { greatest } else { 1.0 };
                let least = values.filter(|v| *v > 0.0).fold(greatest, f64::min);
                let (low, high) = (least.log10(), greatest.log10());
                let base = if high - low < 2.5 { 2f64 } else { 10.0 };
                let (first, last) = (
                    (least.ln() / base.ln() + 1e-9).floor(),
                    (greatest.ln() / base.ln() - 1e-9).ceil(),
                );
                let last = last.max(first + 1.0);
                let every = ((last - first) / 8.0).ceil().max(1.0) as usize;
                let ticks = (first as i32..=last as i32)
                    .step_by(every)
                    .map(|e| (base.powi(e), short(base.powi(e))));
                // The range ends with the data but includes at least two ticks.
                let (mut low, mut high) = (least.ln() - 0.05, greatest.ln() + 0.05);
                if last - first < 3.0 {
                    (low, high) = (base.powf(first).ln().min(low), base.powf(last).ln().max(high));
                }
                Fitted { low, high, log: true, ticks: ticks.collect() }
            }
        }
    }
    /// Maps a value to 0..=1 along the axis.
    fn part(&self, value: f64) -> f64 {
        let value = if self.log { value.ln() } else { value };
        (value - self.low) / (self.high - self.low)
    }
    fn shows(&self, value: f64) -> bool {
        value.is_finite()
            && (!self.log || value > 0.0)
            && (-1e-6..=1.0 + 1e-6).contains(&self.part(value))
    }
}
/// Formats with as few digits as possible.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 && v.log2().fract() == 0.0 => {
            format!("{}M", (v / 1_048_576.0 * 100.0).round() / 100.0)
        }
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1024.0 && v.log2().fract() == 0.0 => format!("{}K", v / 1024.0),
        v if v >= 1.0 => format!("{v:.0}"),
        v => format!("{v:.7}").trim_end_matches('0').to_owned(),
    }
}

impl Chart {
    /// Writes the figure as SVG and PNG, and its points as CSV, into a folder.
    pub(super) fn write(&self, folder: &Path, name: &str) -> Outcome {
        let svg = self.svg();
        output::write_file(&folder.join(format!("{name}.svg")), svg.as_bytes())?;
        output::write_file(&folder.join(format!("{name}.png")), &png(&svg)?)?;
        output::write_file(&folder.join(format!("{name}.csv")), self.csv().as_bytes())
    }

    /// Formats the points as CSV lines: series, x, y. The headings are the axis labels.
    fn csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let mut csv = format!("series,{},{}\n", quoted(&self.x.label), quoted(&self.y.label));
        for series in &self.series {
            for (x, y) in &series.points {
                // Writing to a `String` cannot fail.
                let _ = writeln!(csv, "{},{x},{y}", quoted(&series.name));
            }
        }
        csv
    }

    /// Draws the figure as SVG.
    fn svg(&self) -> String {
        let points = self.series.iter().flat_map(|s| &s.points);
        let x_axis = Fitted::of(&self.x, points.clone().map(|p| p.0), true);
        let y_axis = Fitted::of(&self.y, points.map(|p| p.1), false);
        let x_at = |x: f64| LEFT + x_axis.part(x) * (RIGHT - LEFT);
        let y_at = |y: f64| BOTTOM - y_axis.part(y) * (BOTTOM - TOP);

        let mut svg = Svg::new(SIZE.0, SIZE.1);
        svg.text((24.0, 30.0), 17.0, Anchor::Start, INK, &self.title);
        svg.text((24.0, 50.0), 12.0, Anchor::Start, GREY, &self.subtitle);
        svg.text((24.0, TOP - 16.0), 12.0, Anchor::Start, INK, &self.y.label);
        for (y, name) in y_axis.ticks.iter().filter(|(y, _)| y_axis.shows(*y)) {
            svg.line(&[(LEFT, y_at(*y)), (RIGHT, y_at(*y))], FAINT, 1.0, "");
            svg.text((LEFT - 8.0, y_at(*y) + 4.0), 12.0, Anchor::End, INK, name);
        }
        svg.line(&[(LEFT, BOTTOM), (RIGHT, BOTTOM)], INK, 1.0, "");
        for (x, name) in x_axis.ticks.iter().filter(|(x, _)| x_axis.shows(*x)) {
            svg.line(&[(x_at(*x), BOTTOM), (x_at(*x), BOTTOM + 5.0)], INK, 1.0, "");
            svg.text((x_at(*x), BOTTOM + 20.0), 12.0, Anchor::Middle, INK, name);
        }
        svg.text((0.5 * (LEFT + RIGHT), BOTTOM + 44.0), 12.0, Anchor::Middle, INK, &self.x.label);

        let mut ends = vec![];
        for series in &self.series {
            let color = COLORS[series.color % COLORS.len()];
            let shown = series.points.iter().filter(|(x, y)| x_axis.shows(*x) && y_axis.shows(*y));
            let line = shown.map(|(x, y)| (x_at(*x), y_at(*y))).collect::<Vec<_>>();
            match series.look {
                Look::Line => svg.line(&line, color, 2.0, ""),
                Look::Dashed => svg.line(&line, color, 1.5, "6 4"),
                Look::Marks => {}
            }
            if series.look != Look::Dashed {
                line.iter().for_each(|at| {
                    svg.dot(*at, if series.look == Look::Marks { 4.5 } else { 3.5 }, color)
                });
            }
            ends.extend(line.last().map(|end| (series.name.as_str(), color, *end)));
        }
        ends.sort_by(|a, b| a.2.1.total_cmp(&b.2.1));
        let wished = ends.iter().map(|(_, _, (_, y))| *y).collect::<Vec<f64>>();
        for ((name, color, (x, wish)), y) in ends.iter().zip(spread(&wished, BOTTOM)) {
            let text_at = RIGHT + 26.0;
            svg.line(
                &[(x + 6.0, *wish), (RIGHT + 6.0, *wish), (text_at - 4.0, y)],
                color,
                0.75,
                "1 2",
            );
            svg.text((text_at, y + 4.0), 12.0, Anchor::Start, color, name);
        }
        svg.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_values() {
        for (scale, values) in [
            (Scale::From(0.0), vec![0.1, 3.0, 7.5]),
            (Scale::From(0.4), vec![0.5, 0.977]),
            (Scale::Log, vec![1.0, 2.0, 900.0]),
            (Scale::Log, vec![0.0003, 0.2]),
            (Scale::Log, vec![65_536.0, 1_048_576.0]),
            (Scale::Log, vec![5.0]),
            (Scale::Log, vec![]),
            (Scale::From(0.0), vec![0.0]),
        ] {
            let fitted = Fitted::of(&Axis::new("", scale), values.iter().copied(), false);
            assert!(values.iter().all(|v| fitted.shows(*v)), "{scale:?} {values:?}");
            assert!(
                (2..=11).contains(&fitted.ticks.len()),
                "{scale:?} {values:?}: {:?}",
                fitted.ticks
            );
        }
        assert!(!Fitted::of(&Axis::new("", Scale::Log), [1.0, 10.0].into_iter(), false).shows(0.0));
    }

    #[test]
    fn tables_of_points_are_quoted() {
        let chart = Chart {
            title: String::new(),
            subtitle: String::new(),
            x: Axis::new("load, pairs per slot", Scale::From(0.0)),
            y: Axis::new("ms", Scale::From(0.0)),
            series: vec![Series::new("a \"b\"", 0, Look::Line, vec![(0.5, 1.0)])],
        };
        assert_eq!(chart.csv(), "series,\"load, pairs per slot\",\"ms\"\n\"a \"\"b\"\"\",0.5,1\n");
        assert!(chart.svg().contains("a \"b\""));
    }
}
