//! Where instructions come from: the line table of a code object (DWARF, `.debug_line`).

use std::collections::BTreeMap;
use std::sync::Arc;

use gimli::{Dwarf, EndianSlice, LineProgramHeader, LittleEndian, SectionId, Unit};
use object::{Object as _, ObjectSection as _};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
/// The source from an address on.
pub(crate) type Lines = BTreeMap<u64, Row>;

/// File and line, where there is a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub source: Option<Arc<str>>,
    /// The line is that of what is in front: the table names none, as of code that the compiler has moved ("line 0").
    pub moved: bool,
}

/// The source of each address. Empty if the code object has no line table, or one that can not be read: a code object runs without one.
pub(crate) fn lines(bytes: &[u8]) -> Lines {
    let mut lines = Lines::new();
    let Ok(file) = object::File::parse(bytes) else { return lines };
    if file.section_by_name(".debug_line").is_none() {
        return lines;
    }
    let section = |id: SectionId| {
        let data = file.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok::<_, gimli::Error>(EndianSlice::new(data.unwrap_or_default(), LittleEndian))
    };
    let Ok(dwarf) = Dwarf::load(section) else { return lines };
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if let Ok(unit) = dwarf.unit(header) {
            // What was read before a damaged row stands.
            let _damaged = unit_lines(&dwarf, &unit, &mut lines);
        }
    }
    lines
}

fn unit_lines<'a>(dwarf: &Dwarf<Slice<'a>>, unit: &Unit<Slice<'a>>, lines: &mut Lines) -> gimli::Result<()> {
    let Some(program) = unit.line_program.clone() else { return Ok(()) };
    let mut rows = program.rows();
    let mut last = None;
    while let Some((header, row)) = rows.next_row()? {
        let moved = row.line().is_none() && !row.end_sequence();
        last = match row.line() {
            Some(line) if !row.end_sequence() => {
                file_name(dwarf, unit, header, row.file_index()).map(|name| format!("{name}:{line}").into())
            }
            None if moved => last,
            _ => None,
        };
        lines.insert(row.address(), Row { source: last.clone(), moved });
    }
    Ok(())
}

/// Without its folder: the compiler's says nothing to a reader.
fn file_name<'a>(
    dwarf: &Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    header: &LineProgramHeader<Slice<'a>>,
    index: u64,
) -> Option<String> {
    let path = dwarf.attr_string(unit, header.file(index)?.path_name()).ok()?;
    let path = path.to_string_lossy();
    path.rsplit('/').next().filter(|name| !name.is_empty()).map(String::from)
}
