//! JSON lines: an object a row.

use std::io::{self, Write as _};

use super::{Row, Write};

/// Writes an object a line.
pub struct JsonLines<O: io::Write>(io::BufWriter<O>);

impl<O: io::Write + Send + 'static> JsonLines<O> {
    pub fn new(out: O) -> Self {
        Self(io::BufWriter::with_capacity(1 << 16, out))
    }
}

impl<O: io::Write + Send + 'static> Write for JsonLines<O> {
    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        for row in rows {
            serde_json::to_writer(&mut self.0, row)?;
            self.0.write_all(b"\n")?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
