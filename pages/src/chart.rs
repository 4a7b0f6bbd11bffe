//! Charts: laid out by plotters, written as SVG whose colours are classes of the page's style, so that they follow light, dark
//! and paper, and whose marks say their values.

mod axes;
mod surface;

pub use axes::{ABOVE, FRAME, TITLED, UNTITLED, logarithmic, spans, wholes};
pub use surface::{Colour, Mark, Shape, Surface};

use maud::{Markup, PreEscaped, html};
use plotters::chart::{ChartBuilder, MeshStyle};
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::style::{FontDesc, IntoFont as _, TRANSPARENT};

/// What goes wrong while drawing: nothing, in what a surface does.
pub type Trouble = DrawingAreaErrorKind<std::convert::Infallible>;

/// Width of every chart in its own units.
pub const WIDTH: u32 = 900;

/// What a mark means.
pub type Meaning = (Shape, Colour, &'static str);

/// A chart `height` high with its name, and in words what it shows. `table` holds its values.
pub fn chart(
    height: u32,
    name: &str,
    says: &str,
    legend: &[Meaning],
    table: Option<Markup>,
    draw: impl FnOnce(&DrawingArea<Surface<'_>, Shift>) -> Result<(), Trouble>,
) -> Markup {
    let mut marks = String::new();
    let drawn = draw(&Surface::new(&mut marks, WIDTH, height).into_drawing_area());
    html! {
        figure {
            figcaption { (name) }
            @if !legend.is_empty() { ul.legend {
                @for (shape, colour, meaning) in legend { li { span class=(format!("mark {} c{}", shape.name(), *colour as u8)) {} (meaning) } }
            } }
            @if drawn.is_ok() {
                div.scroll tabindex="0" role="group" aria-label=(format!("chart: {name}")) {
                    svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(format!("{name}: {says}")) {
                        title { (name) }
                        desc { (says) }
                        (PreEscaped(marks))
                    }
                }
            } @else {
                p { "There is nothing to draw." }
            }
            @if let Some(table) = table {
                details {
                    summary { "Values: " (name) }
                    div.scroll tabindex="0" role="group" aria-label=(format!("values: {name}")) { (table) }
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
        let drawn = chart(100, "<b>", "\"<script>\"", &[], None, |root| {
            let mark = Mark::new(vec![(10, 10)], Shape::Dot, Colour::First).telling("<script>alert(1)</script>");
            root.draw(&mark)
        });
        let text = drawn.into_string();
        assert!(text.contains("<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>"), "{text}");
        assert!(!text.contains("<script") && !text.contains("<b>"), "{text}");
    }

    #[test]
    fn a_single_value_has_a_range() {
        let (low, high) = around([2.0].into_iter()).unwrap();
        assert!(low < 2.0 && high > 2.0);
        assert_eq!(around([0.0, f64::NAN].into_iter()), None);
    }
}
