//! The library that the stand-ins pretend to be: solvers, their params, kernels and times.

use bluefin_common::digest::Digest;
use bluefin_common::problem::Direction;
use bluefin_miopen::db::{compress, md5_hex, params};

use crate::variable;

/// A solver that is compiled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    pub id: u32,
    pub name: &'static str,
    /// Suffix of its algorithm's name.
    pub algorithm: &'static str,
    pub tunable: bool,
    pub dynamic: bool,
    directions: &'static str,
}

const fn conv(
    id: u32,
    name: &'static str,
    algorithm: &'static str,
    flags: [bool; 2],
    directions: &'static str,
) -> Registered {
    let [tunable, dynamic] = flags;
    Registered { id, name, algorithm, tunable, dynamic, directions }
}

const PLAIN: [bool; 2] = [false, false];
const TUNABLE: [bool; 2] = [true, false];
const DYNAMIC: [bool; 2] = [false, true];

/// A part of MIOpen's registry, with the numbers that its solvers have there.
const REGISTRY: [Registered; 17] = [
    conv(1, "ConvAsm3x3U", "Direct", TUNABLE, "FB"),
    conv(2, "ConvAsm1x1U", "Direct", TUNABLE, "FB"),
    conv(3, "ConvAsm1x1UV2", "Direct", TUNABLE, "FB"),
    conv(11, "ConvOclDirectFwd", "Direct", TUNABLE, "F"),
    conv(14, "ConvBinWinograd3x3U", "Winograd", DYNAMIC, "FB"),
    conv(16, "ConvAsmBwdWrW3x3", "Direct", TUNABLE, "W"),
    conv(17, "ConvAsmBwdWrW1x1", "Direct", TUNABLE, "W"),
    conv(25, "ConvOclBwdWrW1x1", "Direct", PLAIN, "W"),
    conv(26, "ConvHipImplicitGemmV4R1Fwd", "ImplicitGEMM", TUNABLE, "F"),
    conv(31, "ConvHipImplicitGemmV4R1WrW", "ImplicitGEMM", TUNABLE, "W"),
    conv(35, "ConvWinograd3x3MultipassWrW<3-4>", "Winograd", DYNAMIC, "W"),
    conv(85, "ConvDirectNaiveConvFwd", "Direct", DYNAMIC, "F"),
    conv(86, "ConvDirectNaiveConvBwd", "Direct", DYNAMIC, "B"),
    conv(87, "ConvDirectNaiveConvWrw", "Direct", DYNAMIC, "W"),
    conv(91, "GemmFwdRest", "GEMM", DYNAMIC, "F"),
    conv(97, "GemmBwdRest", "GEMM", DYNAMIC, "B"),
    conv(102, "GemmWrwUniversal", "GEMM", DYNAMIC, "W"),
];

/// What is compiled in.
pub fn solvers() -> impl Iterator<Item = Registered> {
    let lacks = variable("STAND_IN_LACKS");
    REGISTRY.into_iter().filter(move |solver| lacks.as_deref() != Some(solver.name))
}

/// The solver of a name, in either spelling.
pub fn solver(name: &str) -> Option<Registered> {
    let name = bluefin_miopen::solver::spelling(name);
    solvers().find(|solver| solver.name == name)
}

impl Registered {
    /// Whether it applies to the problem of `key`, whose filter is `filter`.
    pub fn applies(&self, direction: Direction, filter: [u32; 2]) -> bool {
        self.directions.contains(direction.letter())
            && (!self.name.contains("3x3") || filter == [3, 3])
            && (!self.name.contains("1x1") || filter == [1, 1])
    }

    /// Name of its algorithm for `direction`.
    pub fn algorithm_for(&self, direction: Direction) -> String {
        let prefix = match direction {
            Direction::Forward => "Fwd",
            Direction::BackwardData => "BwdData",
            Direction::BackwardWeights => "BwdWeights",
        };
        format!("miopenConvolution{prefix}Algo{}", self.algorithm)
    }

    /// All params for the problem of `key`; none if it is not tunable.
    pub fn space(&self, key: &str) -> Vec<String> {
        if !self.tunable {
            return Vec::new();
        }
        let [count, ..] = self.dice("space", key, "");
        (0..3 + count % 3)
            .map(|point| {
                let [a, b, c, ..] = self.dice("point", key, &point.to_string());
                let numbers = [u32::from(point), 1 << (a % 6), u32::from(1 + b % 8), 16 << (c % 3)];
                let mut numbers = numbers.into_iter().chain(std::iter::repeat(1));
                let fields = params::fields(self.name).filter(|fields| !fields.is_empty()).unwrap_or("iiii");
                let fields = fields.chars().map(|field| match (field, numbers.next().unwrap_or_default()) {
                    ('b', number) => (number % 2).to_string(),
                    ('w', number) => format!("w{number}"),
                    (_, number) => number.to_string(),
                });
                fields.collect::<Vec<_>>().join(",")
            })
            .collect()
    }

    /// The params that it takes where no database knows better.
    pub fn default_params(&self, key: &str) -> String {
        self.space(key).into_iter().next().unwrap_or_default()
    }

    /// Bytes of workspace.
    pub fn workspace(&self, key: &str) -> u64 {
        let [a, ..] = self.dice("workspace", key, "");
        if self.algorithm == "GEMM" || self.name.contains("WrW") { u64::from(a) * 4096 } else { 0 }
    }

    /// Milliseconds, always the same for the same question.
    pub fn time_ms(&self, key: &str, params: &str) -> f64 {
        let [a, b, c, d, ..] = self.dice("time", key, params);
        0.01 + 3.0 * f64::from(u32::from_le_bytes([a, b, c, d])) / f64::from(u32::MAX)
    }

    /// The fastest of `space`.
    pub fn best_params(&self, key: &str) -> String {
        let space = self.space(key).into_iter();
        space.min_by(|a, b| self.time_ms(key, a).total_cmp(&self.time_ms(key, b))).unwrap_or_default()
    }

    /// The kernels of one point of the space for `arch`.
    pub fn kernels(&self, key: &str, params: &str, arch: &str) -> Vec<Kernel> {
        if self.algorithm == "GEMM" {
            return Vec::new();
        }
        let hip = self.name.contains("Hip");
        // The options of some are joined with blanks only between them.
        let joined = matches!(self.name, "ConvAsm3x3U" | "ConvBinWinograd3x3U");
        let file = match self.name {
            "ConvAsm3x3U" => "conv3x3.s".to_string(),
            "ConvBinWinograd3x3U" => "conv_3x3_wheel_alpha_v3_0b.s".to_string(),
            name if hip => format!("static_kernel_{}.cpp", name.to_lowercase()),
            name if name.contains("Ocl") => format!("{}.cl", name.to_lowercase()),
            name => format!("{}.s", name.to_lowercase().replace(['<', '>'], "_")),
        };
        let define = if hip { "-D" } else { "-Wa,-defsym," };
        let blank = if joined { "" } else { " " };
        let mut options = format!("{blank}{define}problem={}", Digest::of(key.as_bytes()).short());
        for (index, value) in params.split(',').filter(|value| !value.is_empty()).enumerate() {
            options.push_str(&format!(" {define}p{index}={value}"));
        }
        let magic: &[u8] = if hip { b"__CLANG_OFFLOAD_BUNDLE__" } else { b"\x7fELF\x02\x01\x01" };
        let mut code = magic.to_vec();
        let arch = arch.split(':').next().unwrap_or_default();
        code.extend(format!("{arch} {} {key} {params}\n", self.name).repeat(40).as_bytes());
        code.extend(
            Digest::of_parts("bluefin stand-in code", [self.name.as_bytes(), key.as_bytes(), params.as_bytes()]).0,
        );
        vec![Kernel { file, options, code }]
    }

    fn dice(&self, what: &str, key: &str, more: &str) -> [u8; 32] {
        Digest::of_parts("bluefin stand-in library", [what, self.name, key, more].map(str::as_bytes)).0
    }
}

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub file: String,
    pub options: String,
    pub code: Vec<u8>,
}

impl Kernel {
    /// MD5 of its code and the bzip2 stream.
    pub fn packed(&self) -> (String, Vec<u8>) {
        (md5_hex(&self.code), compress(&self.code).unwrap_or_default())
    }
}
