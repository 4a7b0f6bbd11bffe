//! The solver that MIOpen takes first of a find record.

use std::cmp::Ordering;

use bluefin_miopen::db::find_db::FindEntry;
use bluefin_miopen::db::solvers::Solvers;

/// The entry that MIOpen sorts first, of those whose solver it has; of equals the first. It takes a time of 0 for less than any
/// other, and a negative one for an estimate, which is the worse the more negative it is (MIOpen 3.3,
/// src/ocl/convolutionocl.cpp).
pub(crate) fn winner<'a>(entries: &'a [FindEntry], solvers: &Solvers) -> Option<&'a FindEntry> {
    let known = entries.iter().filter(|entry| solvers.get(&entry.solver).is_some());
    known.min_by(|a, b| order(a.time_ms, b.time_ms))
}

fn order(a: f32, b: f32) -> Ordering {
    (a < 0.0).cmp(&(b < 0.0)).then_with(|| a.abs().total_cmp(&b.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_faster_than_0() {
        let solvers = Solvers::shipped();
        let first = |times: &[(&str, f32)]| {
            let entries: Vec<FindEntry> = times
                .iter()
                .map(|(solver, time)| FindEntry::new((*solver).into(), *time, 0, "miopenConvolutionFwdAlgoGEMM".into()))
                .collect();
            winner(&entries, solvers).map(|entry| entry.solver.to_string()).unwrap_or_default()
        };
        assert_eq!(first(&[("ConvAsm1x1U", 0.5), ("GemmFwdRest", 0.0)]), "GemmFwdRest");
        assert_eq!(first(&[("ConvAsm1x1U", -1.0), ("GemmFwdRest", 700.0)]), "GemmFwdRest");
        assert_eq!(first(&[("ConvAsm1x1U", -2.0), ("GemmFwdRest", -1.0)]), "GemmFwdRest");
        assert_eq!(first(&[("ConvAsm1x1U", 0.5), ("GemmFwdRest", 0.5)]), "ConvAsm1x1U");
        assert_eq!(first(&[("ConvNoSuch", 0.1), ("GemmFwdRest", 0.5)]), "GemmFwdRest");
        assert_eq!(first(&[("ConvNoSuch", 0.1)]), "");
    }
}
