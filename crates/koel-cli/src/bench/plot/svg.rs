//! Drawings as SVG and PNG.
use crate::failure::Failure;
use resvg::{tiny_skia, usvg};
use std::fmt::Write;
use std::sync::Arc;

/// Colours of text and axes, and of what is behind the data.
pub(crate) const INK: &str = "#222222";
pub(crate) const FAINT: &str = "#dddddd";
pub(crate) const GREY: &str = "#666666";

/// Pixels of the PNG per unit of the drawing.
const PNG_SCALE: f32 = 2.0;

/// The part of a text at its position.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under construction. Units are pixels on a screen; y grows downwards.
pub(crate) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    pub(crate) fn new(width: f64, height: f64) -> Svg {
        let mut svg = Svg { body: String::new(), width, height };
        svg.rect((0.0, 0.0), (width, height), "#ffffff");
        svg
    }
    pub(crate) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{fill}\"/>"
        ));
    }
    /// Draws a line through points; `dash` as in SVG, empty for none.
    pub(crate) fn line(&mut self, points: &[(f64, f64)], stroke: &str, width: f64, dash: &str) {
        let points =
            points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ");
        let dash =
            if dash.is_empty() { String::new() } else { format!(r#" stroke-dasharray="{dash}""#) };
        self.add(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{stroke}\" \
             stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>"
        ));
    }
    pub(crate) fn dot(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        self.add(format_args!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{fill}"/>"#));
    }
    pub(crate) fn text(
        &mut self,
        (x, y): (f64, f64),
        size: f64,
        anchor: Anchor,
        fill: &str,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" \
             fill=\"{fill}\">{text}</text>"
        ));
    }
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{element}"); // writing to a `String` cannot fail
    }

    /// Returns the SVG file.
    pub(crate) fn finish(self) -> String {
        let Svg { body, width, height } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" \
             font-family=\"DejaVu Sans, Verdana, sans-serif\">\n{body}</svg>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Renders the drawing as PNG. Text uses DejaVu Sans, which is inside the program, so no font needs
/// to be installed.
pub(crate) fn png(svg: &str) -> Result<Vec<u8>, Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::Other(format!("drawing a figure: {e}"));
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(dejavu::sans::regular().to_vec());
    let options = usvg::Options {
        font_family: "DejaVu Sans".into(),
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|e| failed(&e))?;
    let size =
        tree.size().to_int_size().scale_by(PNG_SCALE).ok_or_else(|| failed(&"it has no size"))?;
    let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height())
        .ok_or_else(|| failed(&"it is too large"))?;
    resvg::render(
        &tree,
        tiny_skia::Transform::from_scale(PNG_SCALE, PNG_SCALE),
        &mut pixels.as_mut(),
    );
    pixels.encode_png().map_err(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_pixels_without_installed_fonts() {
        let draw = |text| {
            let mut svg = Svg::new(100.0, 40.0);
            svg.text((5.0, 20.0), 12.0, Anchor::Start, INK, text);
            tiny_skia::Pixmap::decode_png(&png(&svg.finish()).unwrap()).unwrap()
        };
        let pixels = draw("2²² <&>");
        assert_eq!((pixels.width(), pixels.height()), (200, 80));
        let dark = |p: &tiny_skia::Pixmap| p.pixels().iter().filter(|p| p.red() < 128).count();
        assert!(dark(&pixels) > 100);
        assert_eq!(dark(&draw("")), 0);
    }
}
