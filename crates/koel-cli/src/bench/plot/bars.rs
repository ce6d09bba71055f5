//! Rates of one set of keys at one load: a panel per operation, a bar per table.
use super::chart::unit;
use super::svg::{Anchor, FAINT, GREY, INK, Svg};

const WIDTH: f64 = 860.0;
/// Least and greatest start of the bars, to the right of their names.
const LEFT: [f64; 2] = [170.0, 480.0];
const RIGHT: f64 = 770.0;
const TOP: f64 = 84.0;
const BAR: f64 = 16.0;
const PITCH: f64 = 24.0;
/// Width of a digit at the font size of numbers.
const DIGIT: f64 = 7.7;
/// Mean width of a letter of a name.
const LETTER: f64 = 6.9;
/// Space between panels, with room for a heading.
const GAP: f64 = 44.0;

/// A table's bar.
pub(super) struct Bar {
    pub name: String,
    pub color: &'static str,
    /// Operations per second.
    pub rate: f64,
    /// Random reads per second from as much memory.
    pub limit: Option<f64>,
}

/// A figure of bars.
pub(super) struct Bars {
    pub title: String,
    pub subtitle: String,
    /// Meaning of the dashes.
    pub limit_name: String,
    /// Headings and bars, longest first.
    pub panels: Vec<(String, Vec<Bar>)>,
}

impl Bars {
    /// Draws the figure as SVG.
    pub(super) fn svg(&self) -> String {
        let bars = || self.panels.iter().flat_map(|(_, bars)| bars);
        let (unit, unit_name) = unit(bars().map(|bar| bar.rate));
        let greatest = bars()
            .map(|bar| bar.rate.max(bar.limit.unwrap_or(0.0)))
            .fold(f64::MIN_POSITIVE, f64::max);
        let longest = bars().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let left = (34.0 + LETTER * longest as f64).clamp(LEFT[0], LEFT[1]);
        let x_at = |rate: f64| left + rate / greatest * (RIGHT - left);
        let rows = self.panels.iter().map(|(_, bars)| bars.len()).sum::<usize>();
        let height = TOP + rows as f64 * PITCH + (self.panels.len() - 1) as f64 * GAP + 50.0;

        let mut svg = Svg::new(WIDTH, height);
        svg.text((24.0, 30.0), 17.0, Anchor::Start, INK, &self.title);
        svg.text((24.0, 50.0), 12.0, Anchor::Start, GREY, &self.subtitle);
        let mut y = TOP;
        for (heading, bars) in &self.panels {
            svg.text((24.0, y), 13.0, Anchor::Start, INK, heading);
            svg.line(&[(24.0, y + 6.0), (WIDTH - 24.0, y + 6.0)], FAINT, 1.0, "");
            for bar in bars {
                y += PITCH;
                svg.text((left - 10.0, y), 12.0, Anchor::End, INK, &bar.name);
                svg.rect((left, y - 0.5 * BAR - 4.0), (x_at(bar.rate) - left, BAR), bar.color);
                let value = bar.rate / unit;
                let value =
                    if value < 9.995 { format!("{value:.2}") } else { format!("{value:.1}") };
                if let Some(limit) = bar.limit {
                    let (top, bottom) = (y - 0.5 * PITCH - 4.0, y + 0.5 * PITCH - 4.0);
                    svg.line(&[(x_at(limit), top), (x_at(limit), bottom)], GREY, 1.5, "4 3");
                }
                // A white background keeps the dashes off the number.
                let width = DIGIT * value.len() as f64;
                svg.rect(
                    (x_at(bar.rate) + 3.0, y - 0.5 * BAR - 4.0),
                    (width + 5.0, BAR),
                    "#ffffff",
                );
                svg.text((x_at(bar.rate) + 6.0, y), 12.0, Anchor::Start, INK, &value);
            }
            y += GAP;
        }
        let legend = format!("{unit_name} operations per second; dashed: {}", self.limit_name);
        svg.text((24.0, height - 20.0), 12.0, Anchor::Start, GREY, &legend);
        svg.finish()
    }
}
