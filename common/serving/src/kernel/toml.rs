//! The text of a spec.

use std::fmt::Write as _;

use bluefin_common::arch::Vendor;

use super::grouped;
use super::operands::{Operands, Scales};
use super::products::{Product, products, room, sorted_rows};
use super::{Asked, Routing, SEARCHED, is_naive, sizes};
use crate::engine::{Engine, Precision};
use crate::installed::Source;
use crate::row::{K, M, N, NONKDIM, USE_TMA, WARPS};
use crate::space::is_16_bit;

pub(super) fn spec(asked: &Asked<'_>, operands: Operands, source: &Source, includes: &[String]) -> String {
    let mut text = head(asked, source, includes);
    let is_sglangs = asked.is_sglangs();
    buffers(asked, operands, &mut text);
    tolerance(asked, operands, &mut text);
    reference(asked, operands, &mut text);
    for tokens in asked.tokens {
        for (name, row) in asked.given(*tokens) {
            let applicable = format!("tokens == {tokens}");
            let solver = Solver {
                name: &format!("{name}{tokens}"),
                applicable: &applicable,
                naive: is_naive(asked.engine, asked.shape, *tokens),
                is_sglangs,
                operands,
                has_second: row.0.contains_key(grouped::SECOND_N),
                descriptors: if row.0.contains_key(USE_TMA) { Descriptors::All } else { Descriptors::None },
            };
            solver.begin(&mut text);
            let fields: Vec<String> = row.0.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let _ = writeln!(text, "points = [{{ {} }}]", fields.join(", "));
            solver.end(asked, &mut text);
        }
    }
    let may_be_naive = asked.engine == Engine::VLLM && !matches!(operands.scales, Scales::Groups(_));
    let naive_ones = [false, true].into_iter().filter(|naive| asked.searched && (!naive || may_be_naive));
    for naive in naive_ones {
        let applicable = match (may_be_naive, naive) {
            (false, _) => "true",
            (true, false) => "routes * 4 > experts",
            (true, true) => "routes * 4 <= experts",
        };
        let name = format!("{SEARCHED}{}", if naive { "Naive" } else { "" });
        // The tuner for both products knows nothing of them.
        let tries = asked.down.is_some() && asked.takes_descriptors();
        let descriptors = if tries { Descriptors::Tried } else { Descriptors::None };
        let solver = Solver { name: &name, applicable, naive, is_sglangs, operands, has_second: false, descriptors };
        solver.begin(&mut text);
        let constraints: Vec<String> = constraints(asked, operands).iter().map(|one| format!("{one:?}")).collect();
        let _ = writeln!(text, "constraints = [{}]", constraints.join(", "));
        let _ = writeln!(text, "compile_cost = \"BLOCK_SIZE_M * BLOCK_SIZE_N / num_warps\"");
        solver.end(asked, &mut text);
        params(asked, &mut text);
        if tries {
            let _ = write!(
                text,
                "  [[solver.param]]\n  name = \"{USE_TMA}\"\n  values = [false, true]\n  default = false\n"
            );
        }
    }
    text
}

fn head(asked: &Asked<'_>, source: &Source, includes: &[String]) -> String {
    let shape = asked.shape;
    let dtype = shape.storage.dtype.map_or(asked.half.to_ascii_lowercase(), |dtype| dtype.word().replace('_', "-"));
    let block = shape.storage.block_shape.map_or(String::new(), |[n, k]| format!("-{n}x{k}"));
    let (e, n, k, topk) = (shape.experts, shape.intermediate, shape.hidden, shape.topk);
    let vendor = if asked.gpu.vendor == Vendor::Amd { "amd" } else { "nvidia" };
    let includes: Vec<String> = includes.iter().map(|name| format!("{name:?}")).collect();
    let (down, flops) = match asked.down {
        Some(_) => ("-down", "hidden * intermediate"),
        None => ("", "(wide * hidden + hidden * intermediate)"),
    };
    let (wide, ungated) = if shape.is_gated { ("2 * intermediate", "") } else { ("intermediate", "-ungated") };
    let mut text = format!(
        "# The kernel is {}.\nname = \"{}-moe-e{e}-n{n}-k{k}-t{topk}-{dtype}{block}{ungated}{down}\"\nproblem = \"kernel\"\ntoolchain = \"triton\"\n\
         targets = [\"{vendor}\"]\nsource = \"layer.py\"\nincludes = [{}]\nreference = \"Sums\"\n\
         let = [\"routes = tokens * topk\", \"wide = {wide}\"]\n\
         flops = \"2 * routes * {flops}\"\n\n[sizes]\n",
        source.from,
        asked.engine,
        includes.join(", "),
    );
    let first = asked.tokens.first().copied().unwrap_or(1);
    for (name, size) in sizes(shape, first) {
        let _ = writeln!(text, "{name} = {size}");
    }
    text
}

/// Bytes of weights of which no cache keeps all from one draw to the next: twice the largest last level, that of an MI300X.
const LARGE: u64 = 512 << 20;
/// Draws of the routing in one time.
const DRAWS: u32 = 4;
/// The same of few experts, whose blocks are few: one more or less is much.
const DRAWS_OF_FEW: u32 = 8;
const FEW: u32 = 16;

/// How many draws one time is of: one where weights would be in the cache after the first, or where activations are sorted for each.
fn draws(asked: &Asked<'_>) -> u32 {
    let shape = asked.shape;
    let columns = if shape.is_gated { 3 } else { 2 };
    let sizes = [columns, shape.experts, shape.intermediate, shape.hidden].map(u64::from);
    let bits = shape.storage.dtype.map_or(16, Precision::weight_bits);
    let bytes = sizes.into_iter().fold(u64::from(bits), u64::saturating_mul) / 8;
    let is_sorted = asked.down.is_some() && asked.takes_descriptors();
    match shape.experts {
        _ if is_sorted || bytes < LARGE => 1,
        ..=FEW => DRAWS_OF_FEW,
        _ => DRAWS,
    }
}

fn buffers(asked: &Asked<'_>, operands: Operands, text: &mut String) {
    let Operands { activations, weights, .. } = operands;
    let mut add = |name: &str, of_type: &str, length: &str, role: &str, more: &str| {
        let _ = write!(
            text,
            "\n[[buffer]]\nname = \"{name}\"\ntype = \"{of_type}\"\nlength = \"{length}\"\nrole = \"{role}\"\n{more}"
        );
    };
    let of_groups = if let Scales::Groups(groups) = operands.scales { Some(groups) } else { None };
    let (of_scales, values) = if of_groups.is_some() { (asked.half, grouped::VALUES) } else { ("FP32", "") };
    for Product { buffers: [a, w, ..], rows, n, k, .. } in products(asked) {
        let row = of_groups.map_or((*k).to_string(), |groups| groups.bytes(k));
        add(a, activations, &format!("{rows} * {k}"), "input", "");
        add(w, weights, &format!("experts * {n} * {row}"), "input", values);
    }
    for product in products(asked) {
        let [_, w, _, a_scale, w_scale] = product.buffers;
        let scales = [a_scale, w_scale].into_iter().zip(operands.lengths(&product.sizes()));
        for ((name, length), _) in scales.zip(operands.has_scales()).filter(|(_, has)| *has) {
            add(name, of_scales, &length, "input", "low = 0.5\nhigh = 1.0\n");
        }
        if let Some(groups) = of_groups.filter(|groups| groups.zero_points) {
            add(&format!("{w}_zero"), weights, &groups.zero_points_of(product), "input", values);
        }
    }
    add("topk_weights", "FP32", "routes", "input", "low = 0.05\nhigh = 0.5\n");
    let spread = match asked.routing {
        Routing::Uniform => "routing = \"uniform\"".to_string(),
        Routing::Zipf(exponent) => format!("routing = \"zipf\", exponent = {exponent:?}"),
        Routing::Counts(counts, _) => format!("routing = \"counts\", counts = {counts:?}"),
    };
    add(
        "topk_ids",
        "INT32",
        "routes",
        "input",
        &format!("recipe = {{ {spread}, groups = \"experts\", picks = \"topk\", draws = {} }}\n", draws(asked)),
    );
    let blocked =
        |part: &str| format!("recipe = {{ {part} = \"topk_ids\", groups = \"experts\", block = \"BLOCK_SIZE_M\" }}\n");
    add("sorted", "INT32", room(asked.engine), "input", &blocked("rows_of"));
    add("owners", "INT32", &format!("ceil_div({}, BLOCK_SIZE_M)", room(asked.engine)), "input", &blocked("groups_of"));
    add("padded", "INT32", "1", "input", &blocked("count_of"));
    if let (Some(_), true, Scales::Blocks([_, block_k])) = (asked.down, asked.takes_descriptors(), operands.scales) {
        let groups = format!("ceil_div(intermediate, {block_k})");
        for (name, of_type, of, row) in
            [(SORTED_A, activations, "h", "intermediate"), (SORTED_A_SCALE, "FP32", "h_scale", &groups)]
        {
            let recipe = format!("recipe = {{ copy_of = \"{of}\", by = \"sorted\", row = \"{row}\" }}\n");
            add(name, of_type, &format!("({}) * {row}", room(asked.engine)), "input", &recipe);
        }
    }
    // Where nothing is sorted every block holds something.
    add("endless", "INT32", "1", "input", "fill = 2147483647\n");
    for Product { buffers: [_, _, c, ..], n, .. } in products(asked) {
        add(c, asked.half, &format!("routes * {n}"), "output", "");
    }
}

/// Outputs are rounded once, and sums are made in another order: what is wrong by a tile is wrong by the size of the sums.
fn tolerance(asked: &Asked<'_>, operands: Operands, text: &mut String) {
    let first = if asked.down.is_some() { 0 } else { asked.shape.hidden };
    let longest = f64::from(first.max(asked.shape.intermediate));
    let deviation = longest.sqrt() * operands.deviation();
    let share = if asked.shape.storage.dtype.is_some() { 0.03 } else { 0.01 };
    let _ = write!(text, "\n[tolerance.{}]\nabsolute = {:.4}\nrelative = 0.01\n", asked.half, share * deviation);
}

/// The constants that the launches of a solver have in common.
fn constants(asked: &Asked<'_>, operands: Operands, text: &mut String) {
    let _ = write!(text, "  [solver.constants]\n  TOP_K = {}\n", asked.shape.topk);
    operands.constants(text);
}

fn reference(asked: &Asked<'_>, operands: Operands, text: &mut String) {
    text.push_str("\n[[solver]]\nname = \"Sums\"\nalgorithm = \"Direct\"\ncandidate = false\n");
    if let Scales::Groups(groups) = operands.scales {
        return groups.reference(asked, text);
    }
    constants(asked, operands, text);
    for Product { entry, buffers, n, k, is_weighted, .. } in products(asked) {
        let [a, w, c, ..] = buffers;
        let [a_scale, w_scale] = scales(operands, buffers);
        let weights = if *is_weighted { "\"topk_weights\", " } else { "" };
        let _ = write!(
            text,
            "  [[solver.launch]]\n  entry = \"plain_{entry}\"\n  arguments = [\"{a}\", \"{w}\", \"{c}\", \"{a_scale}\", \"{w_scale}\", \
             {weights}\"topk_ids\", {{ i32 = \"{n}\" }}, {{ i32 = \"{k}\" }}]\n  grid = [\"routes\", \"ceil_div({n}, 64)\"]\n"
        );
    }
}

/// The buffers of the scales, or none.
fn scales(operands: Operands, buffers: &[&'static str; 5]) -> [&'static str; 2] {
    let [.., a_scale, w_scale] = *buffers;
    let [of_activations, of_weights] = operands.has_scales();
    [if of_activations { a_scale } else { "none" }, if of_weights { w_scale } else { "none" }]
}

/// The activations of the second product and their scales, in the order in which its routes are sorted.
const SORTED_A: &str = "h_sorted";
const SORTED_A_SCALE: &str = "h_scale_sorted";

/// A solver that launches both products.
struct Solver<'a> {
    name: &'a str,
    applicable: &'a str,
    naive: bool,
    is_sglangs: bool,
    operands: Operands,
    /// Whether the tiles of the second product are params of their own.
    has_second: bool,
    descriptors: Descriptors,
}

/// Which candidates of a solver are launched with tensor descriptors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Descriptors {
    None,
    /// Those whose param says so.
    Tried,
    All,
}

impl Solver<'_> {
    fn begin(&self, text: &mut String) {
        let Self { name, applicable, .. } = self;
        let _ =
            write!(text, "\n[[solver]]\nname = \"{name}\"\nalgorithm = \"Direct\"\napplicable = \"{applicable}\"\n");
    }

    fn end(&self, asked: &Asked<'_>, text: &mut String) {
        if let Scales::Groups(groups) = self.operands.scales {
            return groups.solver(asked, self.is_sglangs, self.has_second, text);
        }
        let mut defines = Vec::new();
        // On Hopper the launcher turns products of FP8 round where tiles have few rows.
        if self.operands.is_fp8() {
            let swaps = "if target == \\\"sm_90\\\" && BLOCK_SIZE_M < 64 && BLOCK_SIZE_N >= 64 { 1 } else { 0 }";
            defines.push(format!("SWAP = \"{swaps}\""));
        }
        // SGLang's is compiled for whether a tile ends where the sum does.
        for (name, k) in [("EVEN_FIRST", "hidden"), ("EVEN_SECOND", "intermediate")].iter().filter(|_| self.is_sglangs)
        {
            defines.push(format!("{name} = \"if {k} % BLOCK_SIZE_K == 0 {{ 1 }} else {{ 0 }}\""));
        }
        if !defines.is_empty() {
            let _ = writeln!(text, "defines = {{ {} }}", defines.join(", "));
        }
        constants(asked, self.operands, text);
        let _ =
            writeln!(text, "  NAIVE = {}\n  OUT = {{ dtype = \"{}\" }}", self.naive, asked.half.to_ascii_lowercase());
        if !self.operands.is_fp8() {
            text.push_str("  SWAP = false\n");
        }
        for product in products(asked) {
            self.launch(asked, product, text);
        }
    }

    fn launch(&self, asked: &Asked<'_>, product: &Product, text: &mut String) {
        // A layer's second product gets them by a file of its own.
        let takes = asked.down.is_some() || !product.is_weighted;
        match self.descriptors {
            Descriptors::All if takes => self.launch_by(asked, product, (true, ""), text),
            Descriptors::None | Descriptors::All => self.launch_by(asked, product, (false, ""), text),
            Descriptors::Tried => {
                self.launch_by(asked, product, (false, "!USE_TMA"), text);
                self.launch_by(asked, product, (true, "USE_TMA"), text);
            }
        }
    }

    /// A launch with descriptors or without, of the candidates for which `when` holds.
    fn launch_by(&self, asked: &Asked<'_>, product: &Product, (by, when): (bool, &str), text: &mut String) {
        let Product { entry, buffers, rows, n, k, is_weighted } = product;
        let [a, w, c, ..] = buffers;
        let [a_scale, w_scale] = scales(self.operands, buffers);
        let (is_second, rows_of_all) = (asked.down.is_some(), sorted_rows(asked.engine, rows));
        // Activations are read as they are sorted.
        let operand = |of: &str, descriptor: Option<String>| match (descriptor, self.is_sglangs) {
            (Some(descriptor), _) => format!("\"none\", {descriptor}"),
            (None, true) => format!("\"{of}\", \"none\""),
            (None, false) => format!("\"{of}\""),
        };
        let described = |of: &str, shape: &[&str], strides: &[&str], block: &[&str]| {
            format!("{{ descriptor = \"{of}\", shape = {shape:?}, strides = {strides:?}, block_shape = {block:?} }}")
        };
        let of_a = || described(SORTED_A, &[&rows_of_all, k], &[k, "1"], &[M, K]);
        let of_w = || described(w, &["experts", n, k], &[&format!("{n} * {k}"), k, "1"], &["1", N, K]);
        let first = operand(a, (by && is_second).then(of_a));
        let second = operand(w, by.then(of_w));
        let a_scale = if by && is_second { SORTED_A_SCALE } else { a_scale };
        let when = if when.is_empty() { String::new() } else { format!("  when = \"{when}\"\n") };
        let weights = if *is_weighted { "\"topk_weights\", " } else { "" };
        let (sorted, owners, padded) =
            if self.naive { ("none", "topk_ids", "endless") } else { ("sorted", "owners", "padded") };
        let em = if self.naive { "routes * BLOCK_SIZE_M".to_string() } else { sorted_rows(asked.engine, rows) };
        let [asm, bse, bsn] = self.operands.strides(&product.sizes());
        let whole = format!("{n} * {k}");
        let numbers = [n, k, em.as_str(), "routes", k, &whole, k, n, &asm, &bse, &bsn];
        let numbers: Vec<String> = numbers.iter().map(|number| format!("{{ i32 = \"{number}\" }}")).collect();
        let _ = write!(
            text,
            "  [[solver.launch]]\n  entry = \"{entry}\"\n{when}  arguments = [{first}, {second}, \"{c}\", \"{a_scale}\", \"{w_scale}\", {weights}\
             \"{sorted}\", \"{owners}\", \"{padded}\", {}]\n  grid = [\"ceil_div({em}, BLOCK_SIZE_M) * ceil_div({n}, BLOCK_SIZE_N)\"]\n",
            numbers.join(", ")
        );
    }
}

fn params(asked: &Asked<'_>, text: &mut String) {
    // The first row of the space is no better than others: it begins in the middle.
    for (key, values) in asked.axes() {
        let middle = values.get(values.len() / 2).or(values.first()).copied().unwrap_or(1);
        let _ = write!(text, "  [[solver.param]]\n  name = \"{key}\"\n  values = {values:?}\n  default = {middle}\n");
    }
}

/// What the engine's tuner leaves out, and what can not be launched.
fn constraints(asked: &Asked<'_>, operands: Operands) -> Vec<String> {
    let [of_a, of_w] = operands.bytes();
    let tiles = format!("(BLOCK_SIZE_M * {of_a} + BLOCK_SIZE_N * {of_w}) * BLOCK_SIZE_K");
    let mut constraints = Vec::new();
    if let Some(rows) = asked.down {
        let of_first = |tokens: &i64| {
            let m = rows.get(tokens)?.number(M)?;
            Some(format!("tokens == {tokens} && {M} == {m}"))
        };
        constraints.push(asked.tokens.iter().filter_map(of_first).collect::<Vec<_>>().join(" || "));
    }
    if matches!(operands.scales, Scales::Groups(_)) {
        constraints.push(grouped::whole_sums(asked));
    }
    if let Some([block_n, block_k]) = asked.block_shape() {
        constraints.push(match asked.engine == Engine::SGLANG {
            true => format!("{block_k} % BLOCK_SIZE_K == 0"),
            false => format!("BLOCK_SIZE_N % {block_n} == 0 || {block_n} % BLOCK_SIZE_N == 0"),
        });
    }
    if asked.gpu.vendor == Vendor::Amd {
        if asked.engine == Engine::SGLANG {
            constraints.push(format!("{tiles} <= shared_memory"));
            return constraints;
        }
        constraints.extend(of_rocm(is_16_bit(&asked.tuned()), asked.gpu.is_cdna));
        return constraints;
    }
    // Tiles of Hopper's own products keep a stage more than others.
    let swaps = if operands.is_fp8() { " || BLOCK_SIZE_N >= 64" } else { "" };
    let hopper = format!("target == \"sm_90\" && (BLOCK_SIZE_M >= 64{swaps})");
    let stages = format!("(if {hopper} {{ num_stages }} else {{ num_stages - 1 }})");
    // Loops that unpack weights in groups are not always pipelined.
    let stages = if matches!(operands.scales, Scales::Groups(_)) { "1" } else { &stages };
    constraints.push(format!("{tiles} * {stages} <= shared_memory"));
    // More sums than a thread has registers are spilled: such candidates take longest to compile, and never win.
    constraints.push("BLOCK_SIZE_M * BLOCK_SIZE_N < 256 * 32 * num_warps".to_string());
    constraints
}

/// What vLLM's tuner keeps on ROCm: configs that go with both products, or with one of them.
fn of_rocm(is_16_bit: bool, is_cdna: bool) -> Vec<String> {
    let bytes = if is_16_bit { 2 } else { 1 };
    let mut kept = vec![
        format!("{M} * {N} >= 64"),
        format!("routes * 2 >= {M} || {M} == 16"),
        format!("GROUP_SIZE_M == 1 || GROUP_SIZE_M * {M} <= routes"),
        format!("({M} + {N}) * {K} * {bytes} <= 65536"),
    ];
    let has_instruction = is_cdna && is_16_bit;
    if has_instruction {
        kept.push(format!("{NONKDIM} <= {M} && {NONKDIM} <= {N} && ({NONKDIM} < routes || {NONKDIM} == {M})"));
    }
    if !is_cdna {
        kept.push(format!("{M} / 16 * ({N} / 16) / {WARPS} * 8 < 256"));
    }
    let of_product = |n: &str, k: &str| {
        let large = format!("{M} >= 64 && {N} >= 64 && {K} >= 64 && {WARPS} >= 4");
        let mut kept = vec![
            format!("({n} * 2 >= {N} || {N} == 16)"),
            format!("{k} % {K} == 0"),
            format!("(routes < 2048 || {n} < 2048 || {large})"),
        ];
        if has_instruction {
            kept.push(format!("{NONKDIM} <= (if routes < 32 || {n} < 32 {{ 16 }} else {{ 32 }})"));
            kept.push(format!("({NONKDIM} < {n} || {NONKDIM} == {N})"));
        }
        kept.join(" && ")
    };
    kept.push(format!("({}) || ({})", of_product("wide", "hidden"), of_product("hidden", "intermediate")));
    kept
}
