//! The perf database of batch norms, `batchnorm_B.db.txt`: keys of their own, in the text form alone. MIOpen's reader of SQLite
//! asks for the columns of convolutions, so that it takes none of batch norms.

use std::io::Write;

use bluefin_common::problem::ProblemError;

use crate::db::error::{ReadError, WriteError};
use crate::db::findings::Findings;
use crate::db::perf_db::{Records, text_form};
use crate::key::batch_norm;

/// A perf database of batch norms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NormDb {
    /// By keys that a batch norm has, as they are written.
    pub records: Records<String>,
    pub findings: Findings,
}

impl NormDb {
    /// Reads `bytes`, and shows line, key, solver and params of every row that MIOpen would use to `visit`; `name` is for errors.
    ///
    /// # Errors
    /// If it is too large. Whatever else is wrong is a finding.
    pub fn parse(name: &str, bytes: &[u8], visit: impl FnMut(u64, &String, &str, &str)) -> Result<Self, ReadError> {
        let key = |text: &str| {
            batch_norm::problem(text)?;
            Ok::<_, ProblemError>(text.to_string())
        };
        let (records, findings) = text_form::read(name, bytes, key, visit)?;
        Ok(Self { records, findings })
    }

    /// Number of (key, solver) with params.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.records.values().map(|solvers| solvers.len() as u64).sum()
    }

    /// Writes keys in byte order, solvers by name. Returns the number of (key, solver) written.
    ///
    /// # Errors
    /// A text that the format can not hold, or that `out` fails.
    pub fn write(&self, out: &mut impl Write) -> Result<u64, WriteError> {
        text_form::write(&self.records, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::findings::FindingKind;

    const KEY: &str = "2x256x1024x14x14x1x0x0x1xNHWCxBwdxFP16x1";

    #[test]
    fn what_is_read_is_written() {
        let text = format!("{KEY}=BnCKBwdBackward:Kernel<1, 2>;BnCKFwdTraining:\n");
        let mut rows = Vec::new();
        let db = NormDb::parse("test", text.as_bytes(), |line, key, solver, params| {
            rows.push(format!("{line} {key} {solver} {params}"));
        });
        let db = db.unwrap();
        assert!(db.findings.is_empty(), "{:?}", db.findings);
        assert_eq!(rows, [format!("1 {KEY} BnCKBwdBackward Kernel<1, 2>"), format!("1 {KEY} BnCKFwdTraining ")]);
        let mut out = Vec::new();
        assert_eq!(db.write(&mut out).unwrap(), 2);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn the_key_of_a_convolution_is_none() {
        let text = "2x64x56x56x1x1x1x1x64x16x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=ConvAsm1x1U:1\n";
        let db = NormDb::parse("test", text.as_bytes(), |_, _, _, _| {}).unwrap();
        assert!(db.records.is_empty() && db.findings.has(FindingKind::Key));
    }
}
