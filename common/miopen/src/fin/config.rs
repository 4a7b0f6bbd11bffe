//! Convolutions and batch norms as fin's jobs describe them.

use bluefin_common::problem::{BatchNormProblem, ConvProblem, DataType};
use serde::Serialize;
use serde_json::json;

/// Why fin can not be asked about a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fin has no way to say {what}")]
pub struct Inexpressible {
    what: String,
}

impl Inexpressible {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }
}

/// The object `config` of a job: every field that fin reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConvConfig {
    cmd: &'static str,
    direction: &'static str,
    spatial_dim: u32,
    batchsize: u32,
    in_channels: u32,
    in_d: u32,
    in_h: u32,
    in_w: u32,
    out_channels: u32,
    fil_d: u32,
    fil_h: u32,
    fil_w: u32,
    pad_d: u32,
    pad_h: u32,
    pad_w: u32,
    conv_stride_d: u32,
    conv_stride_h: u32,
    conv_stride_w: u32,
    dilation_d: u32,
    dilation_h: u32,
    dilation_w: u32,
    group_count: u32,
    mode: &'static str,
    pad_mode: &'static str,
    trans_output_pad_d: u32,
    trans_output_pad_h: u32,
    trans_output_pad_w: u32,
    in_layout: String,
    wei_layout: String,
    out_layout: String,
}

impl ConvConfig {
    /// # Errors
    /// A type that fin has no word for, or three that differ from what it derives, or values that are cast.
    pub fn new(problem: &ConvProblem) -> Result<Self, Inexpressible> {
        let user = problem.as_asked();
        let cmd = match user.x_type {
            DataType::Fp32 => "conv",
            DataType::Fp16 => "convfp16",
            DataType::Bf16 => "convbfp16",
            DataType::Int8 => "convint8",
            other => return Err(Inexpressible::new(format!("a convolution of {other}"))),
        };
        if user.w_type != user.x_type || user.y_type != user.x_type.product() {
            let what =
                format!("types {}, {} and {} of input, weights and output", user.x_type, user.w_type, user.y_type);
            return Err(Inexpressible::new(what));
        }
        if [user.x_cast, user.w_cast, user.y_cast].iter().any(Option::is_some) {
            return Err(Inexpressible::new("what its values are cast to"));
        }
        // Without a depth its sizes are 1 and its attributes 0, as in MIOpen's own tables.
        let depth = |[d, _, _]: [u32; 3]| if user.spatial == 3 { d } else { 0 };
        let pads = problem.asked_output_pads();
        Ok(Self {
            cmd,
            direction: user.direction.letter(),
            spatial_dim: user.spatial,
            batchsize: user.n,
            in_channels: user.c,
            in_d: user.input[0],
            in_h: user.input[1],
            in_w: user.input[2],
            out_channels: user.k,
            fil_d: user.filter[0],
            fil_h: user.filter[1],
            fil_w: user.filter[2],
            pad_d: depth(user.pad),
            pad_h: user.pad[1],
            pad_w: user.pad[2],
            conv_stride_d: depth(user.stride),
            conv_stride_h: user.stride[1],
            conv_stride_w: user.stride[2],
            dilation_d: depth(user.dilation),
            dilation_h: user.dilation[1],
            dilation_w: user.dilation[2],
            group_count: user.group,
            mode: if user.transposed.is_so() { "trans" } else { "conv" },
            pad_mode: "default",
            trans_output_pad_d: depth(pads),
            trans_output_pad_h: pads[1],
            trans_output_pad_w: pads[2],
            in_layout: user.x_layout.to_string(),
            wei_layout: user.w_layout.to_string(),
            out_layout: user.y_layout.to_string(),
        })
    }
}

/// The `config` of a job for a batch norm; the job's own `direction` is [`NormDirection::bit`].
#[must_use]
pub fn of_batch_norm(norm: &BatchNormProblem) -> serde_json::Value {
    let [in_d, in_h, in_w] = norm.input;
    json!({
        "cmd": norm.base_word(),
        "in_layout": norm.layout.name(),
        // The name on the branches where batch norm works.
        "layout": norm.layout.name(),
        "spatial_dim": norm.layout.spatial(),
        "batchsize": norm.n,
        "in_channels": norm.c,
        "in_d": in_d,
        "in_h": in_h,
        "in_w": in_w,
        "mode": norm.mode.number(),
        "save": u8::from(norm.save),
        "run": u8::from(norm.run),
        "forw": norm.direction.bit() & 3,
        "back": norm.direction.bit() >> 2,
        "direction": norm.direction.bit(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bluefin_common::problem::{ConvShape, Direction, Layout, NormDirection, NormMode};

    fn shape() -> ConvShape {
        ConvShape {
            n: 128,
            c: 1024,
            k: 2048,
            input: [1, 14, 14],
            stride: [1, 2, 2],
            ..ConvShape::plain(Direction::BackwardData, DataType::Fp16)
        }
    }

    #[test]
    fn the_example_of_the_protocol() {
        let config = ConvConfig::new(&ConvProblem::new(shape()).unwrap()).unwrap();
        let expected = r#"{"cmd":"convfp16","direction":"B","spatial_dim":2,"batchsize":128,"in_channels":1024,"in_d":1,"in_h":14,"in_w":14,"out_channels":2048,"fil_d":1,"fil_h":1,"fil_w":1,"pad_d":0,"pad_h":0,"pad_w":0,"conv_stride_d":0,"conv_stride_h":2,"conv_stride_w":2,"dilation_d":0,"dilation_h":1,"dilation_w":1,"group_count":1,"mode":"conv","pad_mode":"default","trans_output_pad_d":0,"trans_output_pad_h":0,"trans_output_pad_w":0,"in_layout":"NCHW","wei_layout":"NCHW","out_layout":"NCHW"}"#;
        assert_eq!(serde_json::to_string(&config).unwrap(), expected);
    }

    #[test]
    fn what_fin_can_not_say_is_refused() {
        let refused = |shape| ConvConfig::new(&ConvProblem::new(shape).unwrap()).unwrap_err().to_string();
        let cast = ConvShape { x_cast: Some(DataType::Fp8), ..shape() };
        assert!(refused(cast).contains("cast"));
        let mixed = ConvShape { y_type: DataType::Fp32, ..shape() };
        assert!(refused(mixed).contains("FP16, FP16 and FP32"));
        let odd = ConvShape::plain(Direction::Forward, DataType::Fp64);
        assert!(refused(odd).contains("FP64"));
    }

    #[test]
    fn a_transposed_one_is_described_as_it_was_asked_for() {
        let user =
            ConvShape { c: 8, k: 4, input: [1, 7, 7], filter: [1, 3, 3], direction: Direction::Forward, ..shape() };
        let problem = ConvProblem::from_transposed(user, [0, 1, 1]).unwrap();
        let config = ConvConfig::new(&problem).unwrap();
        assert_eq!((config.mode, config.direction, config.in_channels, config.in_h), ("trans", "F", 8, 7));
        assert_eq!((config.trans_output_pad_h, config.trans_output_pad_w, config.conv_stride_d), (1, 1, 0));
    }

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
    fn fin_is_told_one_direction() {
        for (direction, forw, back, bit) in [
            (NormDirection::Training, 1, 0, 1),
            (NormDirection::Inference, 2, 0, 2),
            (NormDirection::Backward, 0, 1, 4),
        ] {
            let config = of_batch_norm(&BatchNormProblem { direction, ..norm() });
            let shown = ["forw", "back", "direction"].map(|field| config[field].as_u64().unwrap());
            assert_eq!(shown, [forw, back, bit]);
            assert_eq!((&config["cmd"], &config["mode"], &config["save"]), (&json!("bnormfp16"), &json!(1), &json!(1)));
        }
    }
}
