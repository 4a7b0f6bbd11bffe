//! The problem that a job's `config` describes, read as fin reads it.

use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction};
use serde_json::Value;

/// Reads `config`; `None` where fin would throw. Which keys it needs depends on the generation.
pub fn read(config: &Value, generation_2022: bool) -> Option<ConvProblem> {
    let int = |name: &str| config.get(name)?.as_u64().and_then(|value| u32::try_from(value).ok());
    let text = |name: &str| config.get(name)?.as_str();
    let data_type = match text("cmd")? {
        "conv" => DataType::Fp32,
        "convfp16" => DataType::Fp16,
        "convbfp16" => DataType::Bf16,
        "convint8" => DataType::Int8,
        _ => return None,
    };
    let spatial = int("spatial_dim")?;
    let depth = |name: &str, flat: u32| if spatial == 3 { int(name) } else { Some(flat) };
    let layout = |name: &str| {
        let default = if spatial == 3 { "NCDHW" } else { "NCHW" };
        let found = text(name).or(generation_2022.then_some(default))?;
        found.parse().ok()
    };
    let mode = text(if generation_2022 { "conv_mode" } else { "mode" }).or_else(|| text("mode"))?;
    let transposed = match mode {
        "conv" => false,
        "trans" => true,
        _ => return None,
    };
    let shape = ConvShape {
        direction: text("direction")?.parse().ok()?,
        spatial,
        n: int("batchsize")?,
        c: int("in_channels")?,
        k: int("out_channels")?,
        input: [depth("in_d", 1)?, int("in_h")?, int("in_w")?],
        filter: [depth("fil_d", 1)?, int("fil_h")?, int("fil_w")?],
        pad: [depth("pad_d", 0)?, int("pad_h")?, int("pad_w")?],
        stride: [depth("conv_stride_d", 1)?, int("conv_stride_h")?, int("conv_stride_w")?],
        dilation: [depth("dilation_d", 1)?, int("dilation_h")?, int("dilation_w")?],
        group: int("group_count")?.max(1),
        x_layout: layout("in_layout")?,
        w_layout: layout("wei_layout")?,
        y_layout: layout("out_layout")?,
        ..ConvShape::plain(Direction::Forward, data_type)
    };
    if transposed {
        let pads =
            ["trans_output_pad_d", "trans_output_pad_h", "trans_output_pad_w"].map(|name| int(name).unwrap_or(0));
        return ConvProblem::from_transposed(shape, pads).ok();
    }
    ConvProblem::new(shape).ok()
}
