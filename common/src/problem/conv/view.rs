//! How a convolution reads: its canonical command, its variables and its label.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::{ConvProblem, ConvShape, Layout, OPERATOR};
use crate::problem::data_type::write_types;
use crate::problem::{DataType, Operation, Operator, Problem, ProblemError, variables};
use crate::value::Value;

impl ConvProblem {
    /// The shape as its user asked for it: of a transposed convolution the other side, which is what MIOpen's tools read.
    #[must_use]
    pub fn as_asked(&self) -> ConvShape {
        if self.transposed.is_so() { (**self).clone().sides_swapped(self.output()) } else { (**self).clone() }
    }

    /// What a transposed convolution adds at the far end of each axis of its output; 0 for a plain one.
    #[must_use]
    pub fn asked_output_pads(&self) -> [u32; 3] {
        let pad = |axis| self.transposed_output_pad(axis).filter(|_| self.transposed.is_so()).unwrap_or(0);
        [0, 1, 2].map(pad)
    }
}

impl Operation for ConvProblem {
    fn operator(&self) -> &'static Operator {
        &OPERATOR
    }

    fn canonical(&self) -> String {
        let user = self.as_asked();
        let base = format!("conv{}", user.x_type.driver_suffix());
        let mut command = Command { text: base, three: user.spatial == 3 };
        command.flag("-n", user.n);
        command.flag("-c", user.c);
        command.sizes("--in_d", "-H", "-W", user.input);
        command.flag("-k", user.k);
        command.sizes("--fil_d", "-y", "-x", user.filter);
        command.sizes("--pad_d", "-p", "-q", user.pad);
        command.sizes("--conv_stride_d", "-u", "-v", user.stride);
        command.sizes("--dilation_d", "-l", "-j", user.dilation);
        command.flag("--spatial_dim", user.spatial);
        command.flag("--in_layout", user.x_layout.order());
        command.flag("--fil_layout", user.w_layout.order());
        command.flag("--out_layout", user.y_layout.order());
        if user.x_layout.vector_length() > 1 {
            command.flag("-Z", 1);
            command.flag("-L", user.x_layout.vector_length());
        }
        if user.w_type != user.x_type {
            command.flag("--wei_type", user.w_type);
        }
        if user.y_type != user.x_type.product() {
            command.flag("--out_type", user.y_type);
        }
        for (name, cast) in
            [("--in_cast_type", user.x_cast), ("--wei_cast_type", user.w_cast), ("--out_cast_type", user.y_cast)]
        {
            if let Some(data_type) = cast {
                command.flag(name, data_type.name().to_lowercase());
            }
        }
        command.flag("-m", if user.transposed.is_so() { "trans" } else { "conv" });
        if user.transposed.is_so() {
            command.sizes("--trans_output_pad_d", "-Y", "-X", self.asked_output_pads());
        }
        command.flag("-g", user.group);
        command.flag("-F", user.direction.driver_bit());
        command.text
    }

    /// In the forward sense.
    fn variables(&self) -> BTreeMap<String, Value> {
        let [d, h, w] = self.input;
        let [od, oh, ow] = self.output();
        let [fz, fy, fx] = self.filter;
        let [pd, ph, pw] = self.pad;
        let [sd, sh, sw] = self.stride;
        let [dd, dh, dw] = self.dilation;
        let mut all = variables([
            ("direction", self.direction.letter().into()),
            ("in_layout", self.x_layout.name().into()),
            ("wei_layout", self.w_layout.name().into()),
            ("out_layout", self.y_layout.name().into()),
            ("in_type", self.x_type.name().into()),
            ("wei_type", self.w_type.name().into()),
            ("out_type", self.y_type.name().into()),
            ("transposed", self.transposed.is_so().into()),
        ]);
        let sizes = [
            ("spatial", self.spatial),
            ("n", self.n),
            ("c", self.c),
            ("k", self.k),
            ("g", self.group),
            ("d", d),
            ("h", h),
            ("w", w),
            ("od", od),
            ("oh", oh),
            ("ow", ow),
            ("fz", fz),
            ("fy", fy),
            ("fx", fx),
            ("pd", pd),
            ("ph", ph),
            ("pw", pw),
            ("sd", sd),
            ("sh", sh),
            ("sw", sw),
            ("dd", dd),
            ("dh", dh),
            ("dw", dw),
        ];
        all.extend(sizes.into_iter().map(|(name, size)| (name.to_string(), size.into())));
        all
    }

    fn kind(&self) -> String {
        format!("conv {} {}", self.direction, self.x_type)
    }

    /// Two operations for each multiply-add, the same in every direction.
    fn flops(&self) -> f64 {
        let per_group = f64::from(self.c) / f64::from(self.group);
        let product = |sizes: [u32; 3]| sizes.into_iter().map(f64::from).product::<f64>();
        2.0 * f64::from(self.n) * f64::from(self.k) * product(self.output()) * per_group * product(self.filter)
    }

    /// For example `conv F 64x56x56 k64 3x3 s1 n1 FP32`: direction, x without its batch, and whatever is not plain.
    fn label(&self) -> String {
        let first = if self.spatial == 3 { 0 } else { 1 };
        let of_axes = |sizes: [u32; 3]| sizes.into_iter().skip(first).collect::<Vec<_>>();
        let product = |sizes: [u32; 3]| of_axes(sizes).iter().map(u32::to_string).collect::<Vec<_>>().join("x");
        // Equal along all axes is said once.
        let factor = |sizes: [u32; 3]| match of_axes(sizes).as_slice() {
            [one, rest @ ..] if rest.iter().all(|size| size == one) => one.to_string(),
            _ => product(sizes),
        };
        let mut label = format!(
            "conv {} {}x{} k{} {} s{}",
            self.direction,
            self.c,
            product(self.input),
            self.k,
            product(self.filter),
            factor(self.stride)
        );
        let mut part = |condition: bool, text: String| {
            if condition {
                label.push(' ');
                label.push_str(&text);
            }
        };
        part(self.dilation != [1; 3], format!("d{}", factor(self.dilation)));
        part(self.group != 1, format!("g{}", self.group));
        part(true, format!("n{}", self.n));
        let layouts = [self.x_layout, self.w_layout, self.y_layout];
        part(layouts != [Layout::default_for(self.spatial); 3], layout_text(layouts));
        part(true, Types([self.x_type, self.w_type, self.y_type]).to_string());
        part(self.transposed.is_so(), "trans".to_string());
        label
    }

    /// That of the input as its user sees it, and of the weights. The output gets the type that MIOpen gives it.
    fn with_type(&self, data_type: DataType) -> Option<Result<Problem, ProblemError>> {
        let mut own = self.clone();
        (own.shape.x_type, own.shape.w_type, own.shape.y_type) = if self.transposed.is_so() {
            (data_type.product(), data_type, data_type)
        } else {
            (data_type, data_type, data_type.product())
        };
        Some(Ok(Problem::Conv(own)))
    }

    fn with_batch(&self, n: u32) -> Option<Result<Problem, ProblemError>> {
        Some(Self::new(ConvShape { n, ..self.shape.clone() }).map(Problem::Conv))
    }
}

/// A driver command in the making.
struct Command {
    text: String,
    three: bool,
}

impl Command {
    fn flag(&mut self, name: &str, value: impl fmt::Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.text, " {name} {value}");
    }

    fn sizes(&mut self, depth: &str, height: &str, width: &str, [d, h, w]: [u32; 3]) {
        if self.three {
            self.flag(depth, d);
        }
        self.flag(height, h);
        self.flag(width, w);
    }
}

fn layout_text([x, w, y]: [Layout; 3]) -> String {
    if x == w && x == y { x.to_string() } else { format!("{x}-{w}-{y}") }
}

struct Types([DataType; 3]);

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_types(f, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Direction;

    fn shape() -> ConvShape {
        ConvShape {
            c: 64,
            k: 64,
            input: [1, 56, 56],
            filter: [1, 3, 3],
            pad: [0, 1, 1],
            ..ConvShape::plain(Direction::Forward, DataType::Fp32)
        }
    }

    #[test]
    fn labels_are_short() {
        let label = |shape| ConvProblem::new(shape).unwrap().label();
        assert_eq!(label(shape()), "conv F 64x56x56 k64 3x3 s1 n1 FP32");
        let grouped = ConvShape { group: 32, stride: [1, 2, 1], x_layout: Layout::Nhwc, ..shape() };
        assert_eq!(label(grouped), "conv F 64x56x56 k64 3x3 s2x1 g32 n1 NHWC-NCHW-NCHW FP32");
    }

    #[test]
    fn the_canonical_form_is_fixed() {
        let canonical = |shape| ConvProblem::new(shape).unwrap().canonical();
        assert_eq!(
            canonical(shape()),
            "conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 --spatial_dim 2 \
             --in_layout NCHW --fil_layout NCHW --out_layout NCHW -m conv -g 1 -F 1"
        );
        // 2 (28 - 1) + 1 + 2 - 2 = 55 rows from 28, so 56 need an output pad of 1.
        let user = ConvShape { k: 32, input: [1, 28, 28], stride: [1, 2, 2], ..shape() };
        let problem = ConvProblem::from_transposed(user.clone(), [0, 1, 1]).unwrap();
        assert_eq!((problem.direction, problem.c, problem.k), (Direction::BackwardData, 32, 64));
        assert_eq!((problem.input, problem.output()), ([1, 56, 56], [1, 28, 28]));
        assert_eq!(ConvProblem::from_transposed(user, [0, 2, 1]).unwrap_err().field, "trans_output_pad_h");
        assert_eq!(
            problem.canonical(),
            "conv -n 1 -c 64 -H 28 -W 28 -k 32 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 --spatial_dim 2 \
             --in_layout NCHW --fil_layout NCHW --out_layout NCHW -m trans -Y 1 -X 1 -g 1 -F 1"
        );
    }

    #[test]
    fn every_variable_of_the_spec_format_is_there() {
        let names = "spatial direction n c d h w k g fz fy fx od oh ow pd ph pw sd sh sw dd dh dw \
                     in_layout wei_layout out_layout in_type wei_type out_type transposed";
        let mut expected: Vec<&str> = names.split_whitespace().collect();
        expected.sort_unstable();
        let all = ConvProblem::new(shape()).unwrap().variables();
        assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), expected);
        assert_eq!((&all["fz"], &all["pd"], &all["oh"]), (&Value::Int(1), &Value::Int(0), &Value::Int(56)));
    }
}
