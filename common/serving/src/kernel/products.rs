//! The two products of a layer: their buffers and sizes, and how many rows are launched.

use super::Asked;
use super::operands::Sizes;
use crate::engine::Engine;

/// Routes of a launch's rows, sorted and in blocks of M, as vLLM makes room for them.
const SORTED_BY_VLLM: &str = "if routes < experts { min(routes * BLOCK_SIZE_M, routes + experts * (BLOCK_SIZE_M - 1)) } else \
    { routes + experts * (BLOCK_SIZE_M - 1) }";

/// The same by SGLang, which has one bucket more and whole vectors of four.
const SORTED_BY_SGLANG: &str = "round_up(if routes < experts + 1 { routes * BLOCK_SIZE_M } else \
    { routes + (experts + 1) * (BLOCK_SIZE_M - 1) }, 4)";

pub(super) fn room(engine: Engine) -> &'static str {
    if engine == Engine::SGLANG { SORTED_BY_SGLANG } else { SORTED_BY_VLLM }
}

/// Rows of a product as it is launched, whose activations have so many.
pub(super) fn sorted_rows(engine: Engine, rows: &str) -> String {
    let sorted = room(engine);
    if engine == Engine::SGLANG {
        return sorted.to_string();
    }
    // Few rows are routed to few experts.
    format!("if {rows} < BLOCK_SIZE_M {{ min({sorted}, routes * BLOCK_SIZE_M) }} else {{ {sorted} }}")
}

/// One of the two products of a layer.
pub(super) struct Product {
    pub entry: &'static str,
    /// Activations, weights, result, scales of both.
    pub buffers: [&'static str; 5],
    /// Rows of the activations, columns of the result, what is summed over.
    pub rows: &'static str,
    pub n: &'static str,
    pub k: &'static str,
    pub is_weighted: bool,
}

impl Product {
    pub(super) fn sizes(&self) -> Sizes<'static> {
        Sizes { rows: self.rows, n: self.n, k: self.k }
    }
}

const PRODUCTS: [Product; 2] = [
    Product {
        entry: "first",
        buffers: ["x", "w1", "c1", "x_scale", "w1_scale"],
        rows: "tokens",
        n: "wide",
        k: "hidden",
        is_weighted: false,
    },
    Product {
        entry: "second",
        buffers: ["h", "w2", "c2", "h_scale", "w2_scale"],
        rows: "routes",
        n: "hidden",
        k: "intermediate",
        is_weighted: true,
    },
];

/// The products that a spec is of.
pub(super) fn products(asked: &Asked<'_>) -> &'static [Product] {
    let [_, second] = &PRODUCTS;
    if asked.down.is_some() { std::slice::from_ref(second) } else { &PRODUCTS }
}
