//! What a spec says of weights in groups: they are packed, and their kernel is another one, compiled for the sizes of each product.

use std::fmt::Write as _;

use super::Asked;
use super::operands::Groups;
use super::products::{Product, products, sorted_rows};
use crate::row::{K, N, Row};

/// Columns of a tile of the second product, where they are not those of the first.
pub(super) const SECOND_N: &str = "SECOND_N";
/// What a tile of the second product sums over, where that is not what the first does.
const SECOND_K: &str = "SECOND_K";

/// Of the bytes of weights and zero points.
pub(super) const VALUES: &str = "low = 0\nhigh = 255\n";

/// The kernel reads weights without a mask: a tile that ends behind the sum reads the next row, and behind the last one.
pub(super) fn whole_sums(asked: &Asked<'_>) -> String {
    let of_product = |product: &Product| format!("{} % {K} == 0", product.k);
    products(asked).iter().map(of_product).collect::<Vec<_>>().join(" && ")
}

/// The tiles that vLLM's launcher chooses for a row without them, for each product by its rows: `get_moe_wna16_block_config`.
pub(super) fn chosen(mut row: Row, tokens: i64, topk: i64) -> Row {
    let of_rows = |rows: i64| if rows == 1 { [32, 64] } else { [64, 32] };
    let (first, second) = (of_rows(tokens), of_rows(tokens.saturating_mul(topk)));
    row.set(N, first[0]);
    row.set(K, first[1]);
    if second != first {
        row.set(SECOND_N, second[0]);
        row.set(SECOND_K, second[1]);
    }
    row
}

impl Groups {
    /// Bytes of so many weights.
    pub(super) fn bytes(self, weights: &str) -> String {
        if self.bits == 4 { format!("({weights} / 2)") } else { weights.to_string() }
    }

    fn groups(self, product: &Product) -> String {
        format!("ceil_div({}, {})", product.k, self.columns)
    }

    /// Bytes of a product's zero points: those of a group of two rows lie in one byte, where they are of 4 bits.
    pub(super) fn zero_points_of(self, product: &Product) -> String {
        format!("experts * {} * {}", self.bytes(product.n), self.groups(product))
    }

    /// The buffer of zero points, or none.
    fn zero_points_buffer(self, w: &str) -> String {
        if self.zero_points { format!("{w}_zero") } else { "none".to_string() }
    }

    fn constants(self, topk: u32, text: &mut String) {
        let Self { bits, columns, zero_points } = self;
        let _ = write!(
            text,
            "  [solver.constants]\n  TOP_K = {topk}\n  GROUP = {columns}\n  BITS = {bits}\n  ZERO_POINTS = {zero_points}\n"
        );
    }

    /// Constants and launches of plain sums.
    pub(super) fn reference(self, asked: &Asked<'_>, text: &mut String) {
        self.constants(asked.shape.topk, text);
        for Product { entry, buffers, n, k, is_weighted, .. } in products(asked) {
            let [a, w, c, _, w_scale] = buffers;
            let zero_points = self.zero_points_buffer(w);
            let weights = if *is_weighted { "\"topk_weights\", " } else { "" };
            let _ = write!(
                text,
                "  [[solver.launch]]\n  entry = \"plain_{entry}\"\n  arguments = [\"{a}\", \"{w}\", \"{c}\", \"{w_scale}\", \"{zero_points}\", \
                 {weights}\"topk_ids\", {{ i32 = \"{n}\" }}, {{ i32 = \"{k}\" }}]\n  grid = [\"routes\", \"ceil_div({n}, 64)\"]\n"
            );
        }
    }

    /// Defines, constants and launches of a solver. `has_second`: the tiles of the second product are params of their own.
    pub(super) fn solver(self, asked: &Asked<'_>, is_sglangs: bool, has_second: bool, text: &mut String) {
        let second_k = if has_second { SECOND_K } else { K };
        let is_even = |k: &str, tile: &str| {
            // SGLang asks the packed weights for the length of the sum.
            let length = if is_sglangs { self.bytes(k) } else { k.to_string() };
            format!("if {length} % {tile} == 0 {{ 1 }} else {{ 0 }}")
        };
        let mut defines = vec![
            ("WIDE", "wide".to_string()),
            ("HIDDEN", "hidden".to_string()),
            ("INTERMEDIATE", "intermediate".to_string()),
            ("EVEN_FIRST", is_even("hidden", K)),
            ("EVEN_SECOND", is_even("intermediate", second_k)),
        ];
        if !has_second {
            defines.extend([(SECOND_N, N.to_string()), (SECOND_K, K.to_string())]);
        }
        let defines: Vec<String> = defines.iter().map(|(name, value)| format!("{name} = \"{value}\"")).collect();
        let _ = writeln!(text, "defines = {{ {} }}", defines.join(", "));
        self.constants(asked.shape.topk, text);
        let _ = writeln!(text, "  OUT = {{ dtype = \"{}\" }}", asked.half.to_ascii_lowercase());
        for product in products(asked) {
            let tile = if product.is_weighted && has_second { SECOND_N } else { N };
            self.launch(asked, product, tile, text);
        }
    }

    fn launch(self, asked: &Asked<'_>, product: &Product, tile: &str, text: &mut String) {
        let Product { entry, buffers, rows, n, k, is_weighted } = product;
        let [a, w, c, _, w_scale] = buffers;
        let zero_points = self.zero_points_buffer(w);
        let weights = if *is_weighted { "\"topk_weights\", " } else { "" };
        let (em, row, groups) = (sorted_rows(asked.engine, rows), self.bytes(k), self.groups(product));
        let of_zero_points = match self.zero_points {
            true => [format!("{} * {groups}", self.bytes(n)), groups.clone()],
            false => ["0", "0"].map(str::to_string),
        };
        let [bze, bzn] = of_zero_points.each_ref().map(String::as_str);
        let (be, bse) = (format!("{n} * {row}"), format!("{n} * {groups}"));
        let numbers = [&em, "routes", k, &be, &row, n, &bse, &groups, bze, bzn];
        let numbers: Vec<String> = numbers.iter().map(|number| format!("{{ i32 = \"{number}\" }}")).collect();
        let _ = write!(
            text,
            "  [[solver.launch]]\n  entry = \"{entry}\"\n  arguments = [\"{a}\", \"{w}\", \"{c}\", \"{w_scale}\", \"{zero_points}\", {weights}\
             \"sorted\", \"owners\", \"padded\", {}]\n  grid = [\"ceil_div({em}, BLOCK_SIZE_M) * ceil_div({n}, {tile})\"]\n",
            numbers.join(", ")
        );
    }
}
