//! Properties of the driver grammar and the keys, for problems of any kind.

use bluefin_common::problem::driver::parse;
use bluefin_common::problem::{
    BatchNormProblem, ConvProblem, ConvShape, DataType, Direction, GemmProblem, KernelProblem, Layout, NormDirection,
    NormMode, Operation as _, Problem, Transposed,
};
use bluefin_common::value::Value;
use bluefin_miopen::key::{FindDbKey, PerfDbKey};
use bluefin_producer::input::{Overrides, read_problems};
use proptest::prelude::*;

fn data_type() -> impl Strategy<Value = DataType> {
    prop::sample::select(DataType::ALL.to_vec())
}

fn cast() -> impl Strategy<Value = Option<DataType>> {
    prop::option::weighted(0.2, data_type())
}

fn sizes(range: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = [u32; 3]> {
    prop::array::uniform3(range)
}

/// Layouts of x, w and y that can go together, and what channels must be multiples of.
fn layouts() -> impl Strategy<Value = (u32, [Layout; 3])> {
    let families: [(u32, &[Layout]); 4] = [
        (2, &[Layout::Nchw, Layout::Nhwc, Layout::Chwn]),
        (3, &[Layout::Ncdhw, Layout::Ndhwc]),
        (2, &[Layout::NchwC4, Layout::ChwnC4]),
        (2, &[Layout::NchwC8, Layout::ChwnC8]),
    ];
    prop::sample::select(families.to_vec()).prop_flat_map(|(spatial, family)| {
        let one = || prop::sample::select(family.to_vec());
        (Just(spatial), [one(), one(), one()])
    })
}

/// The shape as its user sees it, with output pads for when it is transposed.
fn shape() -> impl Strategy<Value = (ConvShape, [u32; 3])> {
    let channels = (1_u32..=4, 1_u32..=5, 1_u32..=5);
    let types = (data_type(), data_type(), data_type(), cast(), cast(), cast());
    let windows = (sizes(1..=20), sizes(1..=5), sizes(0..=4), sizes(1..=3), sizes(1..=3), sizes(0..=2));
    let direction = prop::sample::select(Direction::ALL.to_vec());
    (direction, layouts(), 1_u32..=3, channels, types, windows).prop_map(
        |(direction, (spatial, layouts), n, (group, c, k), types, windows)| {
            let [x_layout, w_layout, y_layout] = layouts;
            let (x_type, w_type, y_type, x_cast, w_cast, y_cast) = types;
            let (input, filter, pad, stride, dilation, output_pad) = windows;
            let vector = x_layout.vector_length();
            let shape = ConvShape {
                direction,
                spatial,
                n,
                c: c * group * vector,
                k: k * group * vector,
                input,
                filter,
                pad,
                stride,
                dilation,
                group,
                x_layout,
                w_layout,
                y_layout,
                x_type,
                w_type,
                y_type,
                x_cast,
                w_cast,
                y_cast,
                transposed: Transposed::No,
            };
            (shape, output_pad)
        },
    )
}

fn conv() -> impl Strategy<Value = ConvProblem> {
    (shape(), any::<bool>()).prop_filter_map("not a transposed convolution", |((shape, output_pad), transposed)| {
        if transposed {
            ConvProblem::from_transposed(shape, output_pad).ok()
        } else {
            Some(ConvProblem::new(shape).unwrap())
        }
    })
}

fn gemm() -> impl Strategy<Value = GemmProblem> {
    (1_u32..=5000, 1_u32..=5000, 1_u32..=5000, 1_u32..=9, any::<[bool; 3]>(), [data_type(), data_type(), data_type()])
        .prop_map(|(m, n, k, batch, [trans_a, trans_b, col_major], [a_type, b_type, c_type])| GemmProblem {
            m,
            n,
            k,
            batch,
            trans_a,
            trans_b,
            col_major,
            a_type,
            b_type,
            c_type,
        })
}

fn size() -> impl Strategy<Value = Value> {
    let word = "[A-Za-z][A-Za-z0-9_.-]{0,9}".prop_filter("is a truth value", |word| word != "true" && word != "false");
    prop_oneof![any::<i64>().prop_map(Value::Int), any::<bool>().prop_map(Value::Bool), word.prop_map(Value::Text)]
}

fn kernel() -> impl Strategy<Value = KernelProblem> {
    ("[a-z0-9-]{1,20}", prop::collection::btree_map("[a-zA-Z_][a-zA-Z0-9_]{0,9}", size(), 0..5))
        .prop_map(|(name, sizes)| KernelProblem::new(name, sizes).unwrap())
}

fn batch_norm() -> impl Strategy<Value = BatchNormProblem> {
    let layout = prop::sample::select(vec![Layout::Nchw, Layout::Nhwc, Layout::Ncdhw, Layout::Ndhwc]);
    let types = prop::sample::select(vec![DataType::Fp32, DataType::Fp16, DataType::Bf16]);
    let direction = prop::sample::select(NormDirection::ALL.to_vec());
    let flags = any::<[bool; 4]>();
    (direction, layout, types, flags, sizes(1..=99), 1_u32..=512, 1_u32..=512).prop_map(
        |(direction, layout, data_type, [spatial, mixed, save, run], input, n, c)| {
            let mode = if spatial { NormMode::Spatial } else { NormMode::PerActivation };
            let mixed = mixed && data_type != DataType::Fp32;
            let norm = BatchNormProblem { direction, mode, n, c, input, layout, data_type, mixed, save, run };
            norm.checked().unwrap()
        },
    )
}

fn problem() -> impl Strategy<Value = Problem> {
    prop_oneof![
        conv().prop_map(Problem::Conv),
        gemm().prop_map(Problem::Gemm),
        kernel().prop_map(Problem::Kernel),
        batch_norm().prop_map(Problem::BatchNorm),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_canonical_form_asks_for_the_problem(problem in problem()) {
        let read = parse(&problem.canonical(), None);
        prop_assert_eq!(read, Ok(vec![problem]));
    }

    #[test]
    fn a_key_gives_a_problem_with_this_key(problem in conv()) {
        let key = FindDbKey::from(&problem);
        let printed = key.to_string();
        prop_assert_eq!(FindDbKey::parse(&printed), Ok(key.clone()));
        let again = key.problem();
        prop_assert_eq!(again.map(|again| FindDbKey::from(&again).to_string()), Ok(printed));
        let perf = PerfDbKey::from(&problem);
        prop_assert_eq!(perf.to_string().parse(), Ok(perf));
    }

    /// An output that is not positive is 1, as MIOpen has it.
    #[test]
    fn every_transposed_convolution_is_one(
        (mut shape, output_pad) in shape(),
        input in sizes(1..=3),
        pad in sizes(0..=9),
    ) {
        (shape.input, shape.pad) = (input, pad);
        if shape.spatial == 2 {
            (shape.input[0], shape.pad[0]) = (1, 0);
        }
        let output_pad = [0, 1, 2].map(|axis| output_pad[axis] % shape.stride[axis]);
        let problem = ConvProblem::from_transposed(shape.clone(), output_pad).unwrap();
        for axis in 3 - shape.spatial as usize..3 {
            let [input, filter, pad, stride, dilation] =
                [&shape.input, &shape.filter, &shape.pad, &shape.stride, &shape.dilation].map(|sizes| i64::from(sizes[axis]));
            let size = stride * (input - 1) + 1 + dilation * (filter - 1) - 2 * pad + i64::from(output_pad[axis]);
            prop_assert_eq!(i64::from(problem.input[axis]), size.max(1));
        }
        prop_assert_eq!((problem.output(), problem.as_asked().input), (shape.input, shape.input));
        prop_assert_eq!(parse(&problem.canonical(), None), Ok(vec![Problem::Conv(problem.clone())]));
        let key = FindDbKey::from(&problem);
        let again = key.problem();
        prop_assert_eq!(again.map(|again| FindDbKey::from(&again)), Ok(key));
    }

    #[test]
    fn variables_agree_with_the_key(problem in conv()) {
        let variables = problem.variables();
        let (oh, k) = (variables["oh"].to_string(), variables["k"].to_string());
        prop_assert_eq!(oh, problem.output()[1].to_string());
        prop_assert_eq!(k, problem.k.to_string());
        prop_assert!(problem.flops() >= 2.0);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let list = read_problems("bytes", &bytes, &Overrides::default());
        prop_assert!(list.problems.len() <= 3 * bytes.len());
    }

    #[test]
    fn almost_commands_are_read_without_panic(
        words in prop::collection::vec("(--?[a-zA-Z_!@#$%^]{1,3}|--in_[hwd]|--spatial_dim|-?[0-9]{1,11}|NHWC|trans|same|\\PC{1,4})", 0..12),
        base in "(conv|convfp16|gemm|kernel|MIOpenDriver conv)",
    ) {
        let text = format!("{base} {}", words.join(" "));
        let list = read_problems("words", text.as_bytes(), &Overrides::default());
        prop_assert!(list.problems.len() + list.rejects.len() > 0);
    }

    #[test]
    fn almost_keys_are_read_without_panic(
        fields in prop::collection::vec("([0-9]{1,11}|[0-9]{1,2}x[0-9]{1,2}(x[0-9])?|NCHWc?|NDHWC|FP32|INT8INT32|[FBW](_g[0-9])?|\\PC{0,3})", 0..20),
    ) {
        let text = fields.join("-");
        if let Ok(key) = FindDbKey::parse(&text) {
            prop_assert_eq!(key.to_string(), text);
        }
        if let Ok(key) = fields.join("x").parse::<PerfDbKey>() {
            prop_assert_eq!(key.to_string(), fields.join("x"));
        }
    }
}
