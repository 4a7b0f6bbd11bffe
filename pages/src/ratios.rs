//! A chart of ratios, a dot for each problem.

use maud::Markup;

use crate::chart::{Chart, Colour, Mark, ROOM, Shape, UNTITLED, around, framed, logarithmic, plain, wholes};
use crate::words::{counted, times};

/// How one problem's time stands to another of it; above 1 is faster.
pub struct Ratio {
    pub value: f64,
    /// From where to where it may be.
    pub doubt: Option<(f64, f64)>,
    /// What the dot says.
    pub says: String,
}

/// All `ratios`, the largest first. `legend` says what a dot is, and what the line at 1.
pub fn ratios(name: &str, [dot, one]: [&str; 2], mut ratios: Vec<Ratio>) -> Markup {
    ratios.sort_by(|a, b| b.value.total_cmp(&a.value));
    let edge = |at: Option<&Ratio>| at.map_or_else(String::new, |ratio| times(ratio.value));
    let (most, least) = (edge(ratios.first()), edge(ratios.last()));
    let says = format!("{}, from {most} down to {least}", counted(ratios.len() as u64, "problem"));
    let legend = [(Shape::Dot, Colour::First, dot), (Shape::Line, Colour::Second, one)];
    let axis = "problems, the largest ratio first; the values are in the list of problems";
    Chart { height: 240, name, says: &says, legend: &legend, axis, table: None }.drawn(|root, size| {
        let values = || ratios.iter().map(|ratio| ratio.value).chain([1.0]);
        let Some((low, high)) = around(values()) else { return Ok(()) };
        // What is in doubt by more than that is drawn as far as there is room.
        let doubts = ratios.iter().filter_map(|ratio| ratio.doubt);
        let ends = doubts.flat_map(|(least, most)| [least.max(low / 1.5), most.min(high * 1.5)]);
        let Some((low, high)) = around(values().chain(ends)) else { return Ok(()) };
        let end = ratios.len() as f64 + 1.0;
        let mut builder = framed(root);
        let mut plot = builder
            .x_label_area_size(UNTITLED)
            .y_label_area_size(60)
            .build_cartesian_2d(wholes(0.0, end, size.ticks()), logarithmic(low, high, ROOM))?;
        plain(&mut plot.configure_mesh())
            .x_label_formatter(&|value| format!("{value:.0}"))
            .y_label_formatter(&|value| times(*value))
            .draw()?;
        plot.draw_series([Mark::new(vec![(0.0, 1.0), (end, 1.0)], Shape::Line, Colour::Second).telling(one)])?;
        let all = || ratios.iter().enumerate().map(|(index, ratio)| (index as f64 + 1.0, ratio));
        plot.draw_series(all().filter_map(|(at, ratio)| {
            let (least, most) = ratio.doubt?;
            Some(Mark::new(vec![(at, least.max(low)), (at, most.min(high))], Shape::Line, Colour::First))
        }))?;
        plot.draw_series(all().map(|(at, ratio)| {
            Mark::new(vec![(at, ratio.value)], Shape::Dot, Colour::First).telling(ratio.says.clone())
        }))?;
        Ok(())
    })
}
