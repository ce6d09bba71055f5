//! Rates against a quantity: one line per table, named at its end; rates of other programs as
//! lettered marks.
use super::svg::{Anchor, FAINT, GREY, INK, Svg};

/// Least width of the figure; the axes span `LEFT` to `RIGHT` and `TOP` to `BOTTOM`.
const WIDTH: f64 = 860.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 650.0;
const TOP: f64 = 96.0;
const BOTTOM: f64 = 456.0;
/// Top of the legend of marks, below the axis; `COLUMN` is the width of its columns.
const LEGEND: f64 = BOTTOM + 74.0;
const COLUMN: f64 = 272.0;
/// Minimum distance between two names.
const NAME_HEIGHT: f64 = 17.0;
/// Start of the names of lines, and the mean width of a letter.
const NAMES: f64 = RIGHT + 26.0;
const LETTER: f64 = 6.9;

/// Line of a table.
pub(crate) struct Series {
    pub name: String,
    pub color: &'static str,
    /// x and the median, slowest and fastest rate.
    pub points: Vec<(f64, [f64; 3])>,
    /// Draws a dashed line without marks: a bound or a constant.
    pub dashed: bool,
}

/// Rates of other programs.
pub(crate) struct Marks {
    /// Description of the marks.
    pub about: String,
    /// x, rate and name.
    pub points: Vec<(f64, f64, String)>,
}

/// A figure of lines.
pub(crate) struct Chart {
    pub title: String,
    pub subtitle: String,
    pub x_label: String,
    /// Positions on the x axis and their labels.
    pub x_ticks: Vec<(f64, String)>,
    /// Whether the axis of rates is logarithmic.
    pub log: bool,
    pub series: Vec<Series>,
    pub marks: Option<Marks>,
}

/// The axis of rates.
struct Rates {
    low: f64,
    high: f64,
    log: bool,
    ticks: Vec<(f64, String)>,
}
impl Rates {
    /// Fits the axis: linear from 0, or logarithmic over the range of the rates.
    fn of(rates: impl Iterator<Item = f64> + Clone, log: bool) -> Rates {
        let greatest = rates.clone().fold(0.0, f64::max);
        if !log {
            let (step, high) = nice_scale(greatest);
            let tick = |i: usize| (i as f64 * step, number(i as f64 * step, step));
            return Rates {
                low: 0.0,
                high,
                log,
                ticks: (0..=(high / step).round() as usize).map(tick).collect(),
            };
        }
        let least =
            rates.filter(|rate| *rate > 0.0).fold(greatest.max(f64::MIN_POSITIVE), f64::min);
        let powers = least.log10().floor() as i32..=greatest.max(least).log10().ceil() as i32;
        let steps: &[f64] = if powers.clone().count() <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all = powers
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .collect::<Vec<_>>();
        let low = all.iter().copied().filter(|at| *at <= least).fold(all[0], f64::max);
        let high =
            all.iter().copied().find(|at| *at >= greatest && *at > low).unwrap_or(10.0 * low);
        let tick = |at: &f64| (*at, format!("{}", (at * 1e9).round() / 1e9));
        Rates {
            low,
            high,
            log,
            ticks: all.iter().filter(|at| (low..=high).contains(*at)).map(tick).collect(),
        }
    }
    /// Maps a rate to 0..=1 along the axis.
    fn place(&self, rate: f64) -> f64 {
        match self.log {
            true => (rate.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => rate / self.high,
        }
    }
}

/// Mapping of x values and rates to positions in the drawing.
struct Axes {
    /// Operations per unit of the axis, and the unit's name.
    unit: (f64, &'static str),
    rates: Rates,
    /// Smallest x; `last` is the largest.
    first: f64,
    last: f64,
}
impl Axes {
    fn of(chart: &Chart) -> Axes {
        let marks = chart.marks.iter().flat_map(|marks| &marks.points);
        let all = chart.series.iter().flat_map(|s| &s.points).flat_map(|(_, rates)| rates);
        let all = all.copied().chain(marks.map(|(_, rate, _)| *rate));
        let unit = unit(all.clone());
        let rates = Rates::of(all.map(|rate| rate / unit.0), chart.log);
        let xs = chart.x_ticks.iter().map(|(x, _)| *x);
        let (first, last) = (xs.clone().fold(f64::MAX, f64::min), xs.fold(f64::MIN, f64::max));
        Axes { unit, rates, first, last }
    }
    fn x(&self, x: f64) -> f64 {
        // A margin inside the axes, so that no mark lies on one.
        let inset = 0.04 * (RIGHT - LEFT);
        match self.last > self.first {
            true => {
                let part = (x - self.first) / (self.last - self.first);
                LEFT + inset + part * (RIGHT - LEFT - 2.0 * inset)
            }
            false => 0.5 * (LEFT + RIGHT),
        }
    }
    /// Returns the position of a rate in units.
    fn y(&self, units: f64) -> f64 {
        BOTTOM - self.rates.place(units) * (BOTTOM - TOP)
    }
    fn y_of_rate(&self, rate: f64) -> f64 {
        self.y(rate / self.unit.0)
    }
}

impl Chart {
    /// Draws the figure as SVG.
    pub(crate) fn svg(&self) -> String {
        let axes = Axes::of(self);
        let names = self.mark_names();
        let legend = if names.is_empty() {
            0.0
        } else {
            10.0 + NAME_HEIGHT * (1 + names.len().div_ceil(legend_columns())) as f64
        };
        let longest = self.series.iter().map(|series| series.name.chars().count()).max();
        let width = WIDTH.max(NAMES + LETTER * longest.unwrap_or(0) as f64 + 10.0);
        let mut svg = Svg::new(width, BOTTOM + 64.0 + legend);
        self.draw_axes(&mut svg, &axes);
        self.draw_lines(&mut svg, &axes);
        self.draw_series_names(&mut svg, &axes);
        self.draw_marks(&mut svg, &axes, &names);
        svg.finish()
    }
    /// Returns the distinct names of the marks.
    fn mark_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = vec![];
        for (_, _, name) in self.marks.iter().flat_map(|marks| &marks.points) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
    /// Draws the title, the axes and their ticks.
    fn draw_axes(&self, svg: &mut Svg, axes: &Axes) {
        let rates_label = format!("{} per second", axes.unit.1);
        svg.text((24.0, 30.0), 17.0, Anchor::Start, INK, &self.title);
        svg.text((24.0, 50.0), 12.0, Anchor::Start, GREY, &self.subtitle);
        svg.text((24.0, TOP - 16.0), 12.0, Anchor::Start, INK, &rates_label);
        for (y, name) in &axes.rates.ticks {
            svg.line(&[(LEFT, axes.y(*y)), (RIGHT, axes.y(*y))], FAINT, 1.0, "");
            svg.text((LEFT - 8.0, axes.y(*y) + 4.0), 12.0, Anchor::End, INK, name);
        }
        svg.line(&[(LEFT, BOTTOM), (RIGHT, BOTTOM)], INK, 1.0, "");
        for (x, name) in &self.x_ticks {
            svg.line(&[(axes.x(*x), BOTTOM), (axes.x(*x), BOTTOM + 5.0)], INK, 1.0, "");
            svg.text((axes.x(*x), BOTTOM + 20.0), 12.0, Anchor::Middle, INK, name);
        }
        svg.text((0.5 * (LEFT + RIGHT), BOTTOM + 44.0), 12.0, Anchor::Middle, INK, &self.x_label);
    }
    /// Draws the line of every table, with a dot and a whisker at each rate.
    fn draw_lines(&self, svg: &mut Svg, axes: &Axes) {
        for series in &self.series {
            let line = series
                .points
                .iter()
                .map(|(x, r)| (axes.x(*x), axes.y_of_rate(r[0])))
                .collect::<Vec<_>>();
            if series.dashed {
                svg.line(&line, series.color, 1.5, "6 4");
                continue;
            }
            svg.line(&line, series.color, 2.0, "");
            for ((x, rates), at) in series.points.iter().zip(&line) {
                let whisker = [rates[1], rates[2]].map(|rate| (axes.x(*x), axes.y_of_rate(rate)));
                svg.line(&whisker, series.color, 1.0, "");
                svg.dot(*at, 3.5, series.color);
            }
        }
    }
    /// Draws the name of every table at the end of its line.
    fn draw_series_names(&self, svg: &mut Svg, axes: &Axes) {
        let mut ends =
            self.series.iter().filter_map(|s| Some((s, s.points.last()?))).collect::<Vec<_>>();
        ends.sort_by(|(_, a), (_, b)| b.1[0].total_cmp(&a.1[0]));
        let wished =
            ends.iter().map(|(_, (_, rates))| axes.y_of_rate(rates[0])).collect::<Vec<_>>();
        for ((series, (x, _)), (wish, y)) in
            ends.iter().zip(wished.iter().zip(spread(&wished, BOTTOM)))
        {
            svg.line(
                &[(axes.x(*x) + 6.0, *wish), (RIGHT + 6.0, *wish), (NAMES - 4.0, y)],
                series.color,
                0.75,
                "1 2",
            );
            svg.text((NAMES, y + 4.0), 12.0, Anchor::Start, series.color, &series.name);
        }
    }
    /// Draws the rates of other programs, and their letters and `names` below the axis.
    fn draw_marks(&self, svg: &mut Svg, axes: &Axes, names: &[&str]) {
        let letter = |i: usize| char::from(b'a' + (i % 26) as u8).to_string();
        let mut mark = |(x, y): (f64, f64), i: usize| {
            svg.dot((x, y), 8.0, GREY);
            svg.dot((x, y), 7.0, "#ffffff");
            svg.text((x, y + 3.5), 10.0, Anchor::Middle, INK, &letter(i));
        };
        for (x, rate, name) in self.marks.iter().flat_map(|marks| &marks.points) {
            let i = names.iter().position(|n| n == name).unwrap_or(0);
            mark((axes.x(*x), axes.y_of_rate(*rate)), i);
        }
        let columns = legend_columns();
        let place = |i: usize| {
            (32.0 + COLUMN * (i % columns) as f64, LEGEND + NAME_HEIGHT * (1 + i / columns) as f64)
        };
        for i in 0..names.len() {
            mark(place(i), i);
        }
        for (i, name) in names.iter().enumerate() {
            svg.text((place(i).0 + 14.0, place(i).1 + 4.0), 11.0, Anchor::Start, INK, name);
        }
        if let Some(marks) = self.marks.as_ref().filter(|_| !names.is_empty()) {
            svg.text((24.0, LEGEND), 12.0, Anchor::Start, GREY, &marks.about);
        }
    }
}

/// Returns the number of columns of the legend.
fn legend_columns() -> usize {
    ((WIDTH - 48.0) / COLUMN) as usize
}

/// Moves ascending positions by as little as needed so that names there do not touch.
pub(crate) fn spread(wished: &[f64], bottom: f64) -> Vec<f64> {
    let mut places = wished.to_vec();
    for i in 1..places.len() {
        places[i] = places[i].max(places[i - 1] + NAME_HEIGHT);
    }
    // Names pushed below the axis move back up.
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - NAME_HEIGHT;
    }
    places
}

/// Returns the operations per unit of the axis, and the unit's name.
pub(crate) fn unit(rates: impl Iterator<Item = f64>) -> (f64, &'static str) {
    if rates.fold(0.0, f64::max) >= 1e10 { (1e9, "billion") } else { (1e6, "million") }
}

/// Returns a step of 1, 2 or 5 times a power of ten, and its first multiple not below `greatest`: 4
/// to 8 steps.
pub(crate) fn nice_scale(greatest: f64) -> (f64, f64) {
    let greatest = if greatest > 0.0 { greatest } else { 1.0 };
    let power = 10f64.powf((greatest / 8.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .find(|s| greatest / s <= 8.0)
        .unwrap_or(10.0 * power);
    (step, (greatest / step).ceil() * step)
}
/// Formats with as many digits as the step has.
pub(crate) fn number(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round() {
        for (greatest, step, top) in
            [(8.0, 1.0, 8.0), (9.0, 2.0, 10.0), (283.0, 50.0, 300.0), (0.03, 0.005, 0.03)]
        {
            let (found_step, found_top) = nice_scale(greatest);
            assert!(
                (found_step - step).abs() < 1e-9 && (found_top - top).abs() < 1e-9,
                "{greatest}: {found_step}, {found_top}"
            );
        }
        assert_eq!(number(0.015, 0.005), "0.015");
        assert_eq!(number(250.0, 50.0), "250");
        assert_eq!(unit([1e9, 2e10].into_iter()).1, "billion");
    }

    #[test]
    fn logarithmic_scales_span_the_rates() {
        let names = |rates: &[f64]| {
            let scale = Rates::of(rates.iter().copied(), true);
            assert!(
                rates.iter().all(|rate| (0.0..=1.0).contains(&scale.place(*rate))),
                "{rates:?}"
            );
            assert!(scale.place(scale.low) == 0.0 && (scale.place(scale.high) - 1.0).abs() < 1e-9);
            scale.ticks.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&[0.03, 5.0, 40.0]), "0.01 0.1 1 10 100");
        assert_eq!(names(&[3.0, 40.0]), "2 5 10 20 50");
        assert_eq!(names(&[100.0, 1000.0]), "100 200 500 1000");
        assert!(!names(&[7.0]).is_empty() && !names(&[1.0]).is_empty());
    }

    #[test]
    fn names_do_not_touch() {
        let places = spread(&[100.0, 101.0, 102.0, BOTTOM - 1.0, BOTTOM], BOTTOM);
        assert_eq!(places[0], 100.0);
        assert!(places.windows(2).all(|w| w[1] - w[0] >= NAME_HEIGHT - 1e-9), "{places:?}");
        assert!(places[4] <= BOTTOM);
    }
}
