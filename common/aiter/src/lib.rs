//! aiter's CSV files: which kernel its operators take for which shape, and which shapes are to be tuned. Read and written byte
//! for byte, checked, merged, compared, and held against the shapes that a model asks for.
//!
//! What is known of an operator is one entry of a table, [`families`]; everything else follows from it.
#![forbid(unsafe_code)]

pub mod check;
pub mod coverage;
pub mod diff;
mod error;
pub mod families;
mod family;
pub mod harvest;
mod key;
pub mod log;
mod lookup;
pub mod merge;
pub mod operator;
mod rules;
mod sheet;
mod sources;
mod table;

pub use error::Error;
pub use families::{FamilyName, UnknownFamily};
pub use family::{Duplicates, Family, NamedCells, Reading, Rounding, ShapeWork, Tuner};
pub use key::{Key, Value};
pub use rules::{ASSUMED, Rules};
pub use sheet::{Sheet, SheetKind, View};
pub use sources::{Files, read_all, sheets_of};
pub use table::{Row, Table};

/// The variable of a session that holds further arguments of aiter's tuners.
pub const ARGUMENTS: &str = "AITER_ARGUMENTS";
/// The variable of a session whose operators are to be compared, before and after.
pub const COMPARE: &str = "AITER_COMPARE";

/// Whether a number is more than it may be; what is no number is.
fn exceeds(number: f64, limit: f64) -> bool {
    number.is_nan() || number > limit
}
