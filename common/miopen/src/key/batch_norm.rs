//! The keys of batch norms in MIOpen's perf databases, which have files of their own.

use bluefin_common::problem::{BatchNormProblem, Layout, NormDirection, NormMode, ProblemError};
use bluefin_common::value::Value;

use super::find_db::parse_size;

/// What precedes the base name of a perf db of batch norms.
pub const PERF_DB_PREFIX: &str = "batchnorm_";

/// 13 fields in the order of MIOpen 3.3, src/include/miopen/batchnorm/problem_description.hpp.
fn fields(norm: &BatchNormProblem) -> [(&'static str, Value); 13] {
    let [d, h, w] = norm.input;
    let training = norm.direction == NormDirection::Training;
    let backward = norm.direction == NormDirection::Backward;
    let flag = |set: bool| Value::from(u32::from(set));
    [
        ("spatial_dim", norm.layout.spatial().into()),
        ("batchsize", norm.n.into()),
        ("in_channels", norm.c.into()),
        ("in_h", h.into()),
        ("in_w", w.into()),
        ("in_d", d.into()),
        ("resultsave", flag(training && norm.save)),
        ("resultrunning", flag(training && norm.run)),
        ("useSaved", flag(backward && norm.save)),
        ("layout", norm.layout.name().into()),
        ("direction", norm.direction.name().into()),
        ("data_type", norm.data_type.name().into()),
        ("mode", norm.mode.number().into()),
    ]
}

/// The key in the text form.
#[must_use]
pub fn perf_db_key(norm: &BatchNormProblem) -> String {
    fields(norm).map(|(_, value)| value.to_string()).join("x")
}

/// The problem of a key in the text form. Whether the statistics are of another type is not part of a key.
///
/// # Errors
/// The first field that is not as MIOpen prints it, or values that make no problem.
pub fn problem(text: &str) -> Result<BatchNormProblem, ProblemError> {
    let fields: Vec<&str> = text.split('x').collect();
    let Ok([spatial, n, c, h, w, d, save, run, saved, layout, direction, data_type, mode]) =
        <[&str; 13]>::try_from(fields)
    else {
        let fields = text.split('x').count();
        return Err(ProblemError::new("perf-db key of a batch norm", format!("{fields} fields"), "13"));
    };
    let number = |field: &'static str, text: &str| {
        parse_size(text).ok_or_else(|| ProblemError::new(field, format!("{text:?}"), "a decimal number"))
    };
    let flag = |field: &'static str, text: &str| match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(ProblemError::new(field, format!("{text:?}"), "0 or 1")),
    };
    let direction = NormDirection::ALL
        .into_iter()
        .find(|known| known.name() == direction)
        .ok_or_else(|| ProblemError::new("direction", format!("{direction:?}"), "Trn, Inf or Bwd"))?;
    let layout: Layout = layout.parse().map_err(|_| ProblemError::new("layout", format!("{layout:?}"), "a layout"))?;
    if number("spatial_dim", spatial)? != layout.spatial() {
        return Err(ProblemError::new("spatial_dim", spatial, format!("{}, as {layout} has", layout.spatial())));
    }
    let (save, run, saved) = (flag("resultsave", save)?, flag("resultrunning", run)?, flag("useSaved", saved)?);
    let data_type = data_type.parse().map_err(|_| ProblemError::new("data_type", format!("{data_type:?}"), "a type"));
    let problem = BatchNormProblem {
        direction,
        mode: if flag("mode", mode)? { NormMode::Spatial } else { NormMode::PerActivation },
        n: number("batchsize", n)?,
        c: number("in_channels", c)?,
        input: [number("in_d", d)?, number("in_h", h)?, number("in_w", w)?],
        layout,
        data_type: data_type?,
        mixed: false,
        save: if direction == NormDirection::Backward { saved } else { save },
        run,
    };
    let problem = problem.checked()?;
    let printed = perf_db_key(&problem);
    if printed != text {
        return Err(ProblemError::new("perf-db key of a batch norm", text, printed));
    }
    Ok(problem)
}

#[cfg(test)]
mod tests {
    use bluefin_common::problem::DataType;

    use super::*;

    fn norm() -> BatchNormProblem {
        BatchNormProblem {
            direction: NormDirection::Training,
            mode: NormMode::Spatial,
            n: 256,
            c: 64,
            input: [1, 56, 28],
            layout: Layout::Nchw,
            data_type: DataType::Fp16,
            mixed: false,
            save: true,
            run: true,
        }
    }

    #[test]
    fn keys_have_thirteen_fields() {
        assert_eq!(perf_db_key(&norm()), "2x256x64x56x28x1x1x1x0xNCHWxTrnxFP16x1");
        let back = BatchNormProblem { direction: NormDirection::Backward, ..norm() };
        assert_eq!(perf_db_key(&back), "2x256x64x56x28x1x0x0x1xNCHWxBwdxFP16x1");
        let deep = BatchNormProblem { layout: Layout::Ncdhw, direction: NormDirection::Inference, ..norm() };
        let deep = BatchNormProblem { mode: NormMode::PerActivation, input: [3, 4, 5], ..deep };
        assert_eq!(perf_db_key(&deep), "3x256x64x4x5x3x0x0x0xNCDHWxInfxFP16x0");
        assert_eq!(problem(&perf_db_key(&norm())), Ok(norm()));
        assert_eq!(perf_db_key(&problem(&perf_db_key(&back)).unwrap()), perf_db_key(&back));
        for (wrong, message) in [
            ("2x256", "perf-db key of a batch norm: found 2 fields, expected 13"),
            ("2x256x64x56x28x1x1x1x0xNCHWxFwdxFP16x1", "direction: found \"Fwd\", expected Trn, Inf or Bwd"),
            ("3x256x64x56x28x1x1x1x0xNCHWxTrnxFP16x1", "spatial_dim: found 3, expected 2, as NCHW has"),
            ("2x256x64x56x28x1x1x1x1xNCHWxTrnxFP16x1", "perf-db key of a batch norm: found 2x256"),
        ] {
            let error = problem(wrong).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
