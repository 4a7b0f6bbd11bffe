//! Charts: laid out by plotters, written as SVG whose colours are classes of the page's style, so that they follow light, dark
//! and paper, and whose marks say their values.

mod axes;
mod surface;

pub use axes::{ABOVE, FRAME, ROOM, TICKS, UNTITLED, logarithmic, spans, wholes};
pub use surface::{Colour, Mark, Shape, Surface};

use maud::{Markup, PreEscaped, html};
use plotters::chart::{ChartBuilder, MeshStyle};
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::style::{FontDesc, IntoFont as _, TRANSPARENT};

/// What goes wrong while drawing: nothing, in what a surface does.
pub type Trouble = DrawingAreaErrorKind<std::convert::Infallible>;

/// How wide a chart is drawn: each is there twice, and the style shows the one that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Wide,
    /// On a phone, where no pointer asks marks for their values.
    Narrow,
}

impl Size {
    /// In the units of the chart, in which letters are 12 high.
    pub fn width(self) -> u32 {
        if self == Self::Wide { 900 } else { 360 }
    }

    /// Most ticks of a horizontal axis.
    pub fn ticks(self) -> usize {
        if self == Self::Wide { TICKS } else { TICKS - 2 }
    }

    /// Labels that a horizontal axis has room for side by side.
    pub fn room(self) -> f64 {
        if self == Self::Wide { ROOM } else { 4.0 }
    }

    /// Letters that there is room for, of those that a wide chart has room for.
    pub fn letters(self, wide: usize) -> usize {
        if self == Self::Wide { wide } else { wide.min(44) }
    }

    fn class(self) -> &'static str {
        if self == Self::Wide { "wide" } else { "narrow" }
    }
}

/// What a mark means.
pub type Meaning<'a> = (Shape, Colour, &'a str);

/// What there is to a chart beside its marks.
pub struct Chart<'a> {
    pub height: u32,
    pub name: &'a str,
    /// What it shows, in words.
    pub says: &'a str,
    pub legend: &'a [Meaning<'a>],
    /// What its horizontal axis is, where that is not plain.
    pub axis: &'a str,
    /// Holds its values.
    pub table: Option<Markup>,
}

impl Chart<'_> {
    /// It with the marks that `draw` makes at each size.
    pub fn drawn(self, draw: impl Fn(&DrawingArea<Surface<'_>, Shift>, Size) -> Result<(), Trouble>) -> Markup {
        let Self { height, name, says, legend, axis, table } = self;
        let marks = |size: Size| {
            let mut marks = String::new();
            let surface = Surface::new(&mut marks, (size.width(), height), size == Size::Wide);
            let drawn = draw(&surface.into_drawing_area(), size);
            drawn.is_ok().then_some((size, marks))
        };
        let sizes: Vec<(Size, String)> = [Size::Wide, Size::Narrow].into_iter().filter_map(marks).collect();
        html! {
            figure {
                figcaption { (name) }
                @if !legend.is_empty() { ul.legend {
                    @for (shape, colour, meaning) in legend { li { span class=(format!("mark {} c{}", shape.name(), *colour as u8)) {} (meaning) } }
                } }
                @for (size, marks) in &sizes {
                    svg class=(size.class()) viewBox=(format!("0 0 {} {height}", size.width())) role="img" aria-label=(format!("{name}: {says}")) {
                        title { (name) }
                        desc { (says) }
                        (PreEscaped(marks))
                    }
                }
                @if sizes.is_empty() { p { "There is nothing to draw." } } @else if !axis.is_empty() { p.axis.faint { (axis) } }
                @if let Some(table) = table {
                    details {
                        summary { "Values: " (name) }
                        div.scroll tabindex="0" role="group" aria-label=(format!("values: {name}")) { (table) }
                    }
                }
            }
        }
    }
}

/// What is written in charts.
pub fn ink() -> FontDesc<'static> {
    ("sans-serif", 12).into_font()
}

/// A chart with the margins that every one has.
pub fn framed<'a, 'b, 's>(root: &'a DrawingArea<Surface<'s>, Shift>) -> ChartBuilder<'a, 'b, Surface<'s>> {
    let mut builder = ChartBuilder::on(root);
    builder.margin(ABOVE).margin_bottom(axes::BELOW);
    builder
}

/// Axes and grid as every chart has them.
pub fn plain<'m, 'a, 'b, 's, X: Ranged, Y: Ranged>(
    mesh: &'m mut MeshStyle<'a, 'b, X, Y, Surface<'s>>,
) -> &'m mut MeshStyle<'a, 'b, X, Y, Surface<'s>> {
    let faint = Colour::Faint.line();
    mesh.axis_style(faint).bold_line_style(faint).light_line_style(TRANSPARENT).label_style(ink())
}

/// A range that is wide enough to be drawn, around `values`.
pub fn around(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let values = values.filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    (high > 0.0).then(|| (low / 1.05, (high * 1.05).max(low * 1.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_wrote_stays_text() {
        let chart = Chart { height: 100, name: "<b>", says: "\"<script>\"", legend: &[], axis: "<i>", table: None };
        let drawn = chart.drawn(|root, _| {
            let mark = Mark::new(vec![(10, 10)], Shape::Dot, Colour::First).telling("<script>alert(1)</script>");
            root.draw(&mark)
        });
        let text = drawn.into_string();
        let told = text.matches("<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>").count();
        assert_eq!((told, text.matches("<circle").count()), (1, 2), "{text}");
        assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains("<i>"), "{text}");
    }

    #[test]
    fn a_single_value_has_a_range() {
        let (low, high) = around([2.0].into_iter()).unwrap();
        assert!(low < 2.0 && high > 2.0);
        assert_eq!(around([0.0, f64::NAN].into_iter()), None);
    }
}
