//! What plotters draws on: SVG elements with classes instead of colours, and titles that say what they are.

use std::convert::Infallible;
use std::fmt::Write as _;

use plotters::element::{Drawable, PointCollection};
use plotters::style::{Color, RGBColor, ShapeStyle};
use plotters_backend::text_anchor::HPos;
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind};

/// Colours, as the style of the page knows them: [`crate::style`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Ink,
    Faint,
    First,
    Second,
    Third,
}

impl Colour {
    /// plotters knows colours by their parts: the last one is the number of the class.
    pub fn rgb(self) -> RGBColor {
        RGBColor(0, 0, self as u8)
    }

    pub fn line(self) -> ShapeStyle {
        Color::stroke_width(&self.rgb(), 1)
    }
}

/// Writes SVG.
pub struct Surface<'a> {
    out: &'a mut String,
    size: (u32, u32),
    /// Whether marks say their values.
    tells: bool,
    title: String,
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl<'a> Surface<'a> {
    pub fn new(out: &'a mut String, size: (u32, u32), tells: bool) -> Self {
        Self { out, size, tells, title: String::new() }
    }

    /// An element of this class and colour, whose attributes `attributes` writes.
    fn element(&mut self, name: &str, class: &str, colour: BackendColor, attributes: std::fmt::Arguments<'_>) -> Drawn {
        // Nothing is drawn in a colour that can not be seen.
        if colour.alpha == 0.0 {
            return Ok(());
        }
        let number = colour.rgb.2;
        _ = write!(self.out, "<{name} class=\"{class} c{number}\" {attributes}");
        if colour.alpha < 1.0 {
            _ = write!(self.out, " opacity=\"{:.2}\"", colour.alpha);
        }
        if self.title.is_empty() {
            self.out.push_str("/>");
        } else {
            self.out.push_str("><title>");
            escape(&self.title, self.out);
            _ = write!(self.out, "</title></{name}>");
        }
        Ok(())
    }
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

impl DrawingBackend for Surface<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Drawn {
        self.element("rect", "f", color, format_args!("x=\"{x}\" y=\"{y}\" width=\"1\" height=\"1\""))
    }

    fn draw_line<S: BackendStyle>(&mut self, (x1, y1): BackendCoord, (x2, y2): BackendCoord, style: &S) -> Drawn {
        self.element("line", "l", style.color(), format_args!("x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\""))
    }

    fn draw_rect<S: BackendStyle>(&mut self, a: BackendCoord, b: BackendCoord, style: &S, fill: bool) -> Drawn {
        let (x, y) = (a.0.min(b.0), a.1.min(b.1));
        let (width, height) = (a.0.abs_diff(b.0).max(1), a.1.abs_diff(b.1).max(1));
        let class = if fill { "f" } else { "l" };
        let attributes = format_args!("x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"");
        self.element("rect", class, style.color(), attributes)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        let points: Vec<String> = path.into_iter().map(|(x, y)| format!("{x},{y}")).collect();
        self.element("polyline", "l", style.color(), format_args!("points=\"{}\"", points.join(" ")))
    }

    fn draw_circle<S: BackendStyle>(&mut self, (x, y): BackendCoord, radius: u32, style: &S, fill: bool) -> Drawn {
        let class = if fill { "f" } else { "l" };
        self.element("circle", class, style.color(), format_args!("cx=\"{x}\" cy=\"{y}\" r=\"{radius}\""))
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, vert: I, style: &S) -> Drawn {
        let points: Vec<String> = vert.into_iter().map(|(x, y)| format!("{x},{y}")).collect();
        self.element("polygon", "f", style.color(), format_args!("points=\"{}\"", points.join(" ")))
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, (x, y): BackendCoord) -> Drawn {
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        // All anchors that are used are near the middle of the line.
        let y = y + (style.size() / 3.0) as i32;
        let number = style.color().rgb.2;
        _ = write!(self.out, "<text class=\"t c{number}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">");
        escape(text, self.out);
        self.out.push_str("</text>");
        Ok(())
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let size = style.size();
        Ok(((text.chars().count() as f64 * size * 0.55) as u32, size as u32))
    }
}

/// What a mark looks like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Around its point.
    Dot,
    Ring,
    Square,
    /// From its first point to its second.
    Bar {
        /// Of its colour, 0 to 1.
        strength: f64,
    },
    Line,
}

impl Shape {
    /// Its class in the style of the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dot => "dot",
            Self::Ring => "ring",
            Self::Square => "square",
            Self::Bar { .. } => "bar",
            Self::Line => "line",
        }
    }
}

/// A mark that says what it is where a pointer rests on it.
pub struct Mark<C> {
    points: Vec<C>,
    shape: Shape,
    colour: Colour,
    title: String,
}

impl<C> Mark<C> {
    pub fn new(points: Vec<C>, shape: Shape, colour: Colour) -> Self {
        Self { points, shape, colour, title: String::new() }
    }

    pub fn telling(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }
}

impl<'a, C: 'a> PointCollection<'a, C> for &'a Mark<C> {
    type Point = &'a C;
    type IntoIter = &'a [C];

    fn point_iter(self) -> &'a [C] {
        &self.points
    }
}

impl<C> Drawable<Surface<'_>> for Mark<C> {
    fn draw<I: Iterator<Item = BackendCoord>>(&self, pos: I, surface: &mut Surface<'_>, _: (u32, u32)) -> Drawn {
        if surface.tells {
            surface.title.clone_from(&self.title);
        }
        let points: Vec<BackendCoord> = pos.collect();
        let style = self.colour.rgb();
        let drawn = match (self.shape, points.as_slice()) {
            (Shape::Dot, [at, ..]) => surface.draw_circle(*at, 4, &style, true),
            (Shape::Ring, [at, ..]) => surface.draw_circle(*at, 4, &style, false),
            (Shape::Square, [(x, y), ..]) => surface.draw_rect((x - 4, y - 4), (x + 4, y + 4), &style, true),
            (Shape::Bar { strength }, [a, b, ..]) => surface.draw_rect(*a, *b, &style.mix(strength), true),
            (Shape::Line, points) => surface.draw_path(points.iter().copied(), &style),
            _ => Ok(()),
        };
        surface.title.clear();
        drawn
    }
}
