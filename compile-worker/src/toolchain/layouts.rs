//! Layouts of structures as clang dumps them (`-fdump-record-layouts-canonical`): a line for each field, with its byte, its depth, its type
//! and its name.

use std::collections::BTreeMap;

use bluefin_kernel_spec::draft::{Layout, LayoutField};

/// What the unit calls the structure around a parameter.
const ARGUMENT: &str = "bluefin_argument";
/// Structures of an array whose fields are listed one by one, and pointers of one, at most.
const MAX_EXPANDED: u32 = 8;

/// A line of a dump.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// The byte; `None` of bits.
    at: Option<u32>,
    depth: usize,
    text: &'a str,
}

/// A structure of a dump.
#[derive(Default)]
struct Record<'a> {
    lines: Vec<Line<'a>>,
    size: u32,
    alignment: u32,
}

/// What a compiler dumped.
pub(super) struct Layouts<'a> {
    /// By the names that they have in the dump.
    records: BTreeMap<&'a str, Record<'a>>,
}

impl<'a> Layouts<'a> {
    /// Those in `text`; lines that are none of a dump are passed over.
    pub(super) fn of(text: &'a str) -> Self {
        let mut records = BTreeMap::new();
        for part in text.split("*** Dumping AST Record Layout").skip(1) {
            let lines = part.lines().skip(1).map_while(|line| line.split_once(" | "));
            let mut record = Record::default();
            let mut name = None;
            for (at, text) in lines {
                let depth = text.len() - text.trim_start().len();
                let trimmed = text.trim_start();
                if at.trim().is_empty() {
                    record.size = record.size.max(figure(trimmed, "[sizeof="));
                    record.alignment = record.alignment.max(figure(trimmed, " align="));
                } else if name.is_none() {
                    name = Some(trimmed.strip_suffix(" (empty)").unwrap_or(trimmed));
                } else {
                    record.lines.push(Line { at: at.trim().parse().ok(), depth, text: trimmed });
                }
            }
            if let Some(name) = name {
                records.insert(name, record);
            }
        }
        Self { records }
    }

    /// That of the parameter `index` of the kernel `kernel`.
    pub(super) fn of_parameter(&self, kernel: usize, index: usize) -> Option<Layout> {
        let begins = format!("struct {ARGUMENT}<{kernel}, {index}, ");
        let (_, record) = self.records.iter().find(|(name, _)| name.starts_with(&begins))?;
        let mut fields = Vec::new();
        self.expand(record, 0, &[], &mut fields);
        // What the structure around it is called says nothing.
        fields.iter_mut().for_each(|field| _ = field.path.remove(0));
        Some(Layout { size: record.size, alignment: record.alignment, fields })
    }

    /// Adds the fields of `record`, which begins at `base`; of a union, the first one of each byte.
    fn expand(&self, record: &Record<'_>, base: u32, path: &[String], fields: &mut Vec<LayoutField>) {
        // Names of what the line is in, with their depths.
        let mut within: Vec<(usize, Option<&str>)> = Vec::new();
        for (index, line) in record.lines.iter().enumerate() {
            while within.last().is_some_and(|(depth, _)| *depth >= line.depth) {
                within.pop();
            }
            let (spelled, name) = taken_apart(line.text);
            let is_outer = record.lines.get(index + 1).is_some_and(|next| next.depth > line.depth);
            if is_outer {
                within.push((line.depth, name));
                continue;
            }
            let (Some(at), Some(name)) = (line.at, name) else { continue };
            let names = within.iter().filter_map(|(_, name)| *name).chain([name]);
            let path: Vec<String> = path.iter().cloned().chain(names.map(ToString::to_string)).collect();
            self.field(spelled, base + at, path, fields);
        }
    }

    fn field(&self, spelled: &str, at: u32, path: Vec<String>, fields: &mut Vec<LayoutField>) {
        let (element, count) = elements(spelled);
        let indexed = |index: u32| {
            let mut path = path.clone();
            if let Some(last) = path.last_mut().filter(|_| count > 1) {
                *last = format!("{last}{index}");
            }
            path
        };
        // An array without a length has no bytes in the structure.
        if count == 0 || element.contains("[]") {
            return;
        }
        let record = self.records.get(element);
        let is_pointer = element.ends_with('*');
        if count > MAX_EXPANDED && (record.is_some() || is_pointer) {
            // Of no type that a draft knows, so that it says that zeros are there.
            fields.push(LayoutField { at, path, spelled: spelled.to_string(), count: 1 });
            return;
        }
        if let Some(record) = record {
            (0..count).for_each(|index| self.expand(record, at + index * record.size, &indexed(index), fields));
            return;
        }
        // A second view of the same bytes.
        if fields.iter().any(|field| field.at == at) {
            return;
        }
        let mut add = |at, path, count| {
            fields.push(LayoutField { at, path, spelled: element.to_string(), count });
        };
        if is_pointer {
            (0..count).for_each(|index| add(at + index * 8, indexed(index), 1));
        } else {
            add(at, path, count);
        }
    }
}

/// The number behind `name`.
fn figure(text: &str, name: &str) -> u32 {
    let behind = text.split_once(name).map_or("", |(_, behind)| behind);
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// A type and, behind it, a name; none of a base or of what is anonymous, and of what is no field.
fn taken_apart(text: &str) -> (&str, Option<&str>) {
    let text = text.strip_suffix(" (empty)").unwrap_or(text);
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && name.chars().all(|found| found.is_alphanumeric() || found == '_')
    };
    match text.rsplit_once(' ') {
        Some((spelled, name)) if is_name(name) => (spelled.trim_end(), Some(name)),
        _ => (text, None),
    }
}

/// An element's type and how many there are: of an array, or of clang's own vectors.
fn elements(spelled: &str) -> (&str, u32) {
    if let Some((element, behind)) = spelled.split_once(" __attribute__((ext_vector_type(") {
        return (element, figure(behind, "").max(1));
    }
    let Some((element, _)) = spelled.split_once('[').filter(|(element, _)| !element.contains('(')) else {
        return (spelled, 1);
    };
    let sides = spelled.get(element.len()..).unwrap_or_default().split(['[', ']']);
    let count = sides.filter_map(|side| side.parse::<u32>().ok()).fold(1, u32::saturating_mul);
    (element.trim_end(), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "
*** Dumping AST Record Layout
         0 | struct float3
         0 |   float x
         4 |   float y
         8 |   float z
           | [sizeof=12, dsize=12, align=4,
           |  nvsize=12, nvalign=4]

*** Dumping AST Record Layout
         0 | struct Add (empty)
           | [sizeof=1, dsize=1, align=1,
           |  nvsize=1, nvalign=1]

*** Dumping AST Record Layout
         0 | struct bluefin_argument<0, 1, struct Add>
         0 |   struct Add value (empty)
           | [sizeof=1, dsize=1, align=1,
           |  nvsize=1, nvalign=1]

*** Dumping AST Record Layout
         0 | struct bluefin_argument<0, 0, struct P>
         0 |   struct P value
         0 |     struct Base (base)
         0 |       int b
         8 |     const float * a
    16:0-2 |     unsigned int bits
        20 |     struct float3 v
        20 |       float x
        24 |       float y
        28 |       float z
        32 |     union P::(unnamed at a.hip:8:128) u
        32 |       int i
        32 |       float f
        36 |     struct float3[2] list
        64 |     int *[2] pointers
        80 |     float[2][3] mat
       104 |     void (*)(int) call
       112 |     float __attribute__((ext_vector_type(4))) q
       128 |     struct float3[9] many
       240 |     int *[9] far
       312 |     int[0] none
           | [sizeof=320, dsize=320, align=16,
           |  nvsize=320, nvalign=16]
{ \"id\": 1 }
";

    #[test]
    fn fields_are_where_clang_puts_them() {
        let layouts = Layouts::of(DUMP);
        let layout = layouts.of_parameter(0, 0).unwrap();
        assert_eq!((layout.size, layout.alignment), (320, 16));
        let fields: Vec<String> = layout
            .fields
            .iter()
            .map(|field| format!("{} {} {} x{}", field.at, field.path.join("."), field.spelled, field.count))
            .collect();
        let expected = [
            "0 b int x1",
            "8 a const float * x1",
            "20 v.x float x1",
            "24 v.y float x1",
            "28 v.z float x1",
            "32 u.i int x1",
            "36 list0.x float x1",
            "40 list0.y float x1",
            "44 list0.z float x1",
            "48 list1.x float x1",
            "52 list1.y float x1",
            "56 list1.z float x1",
            "64 pointers0 int * x1",
            "72 pointers1 int * x1",
            "80 mat float x6",
            "104 call void (*)(int) x1",
            "112 q float x4",
            "128 many struct float3[9] x1",
            "240 far int *[9] x1",
        ];
        assert_eq!(fields, expected);
        let empty = layouts.of_parameter(0, 1).unwrap();
        assert_eq!(empty, Layout { size: 1, alignment: 1, fields: Vec::new() });
        assert_eq!(layouts.of_parameter(1, 0), None);
        assert!(Layouts::of("no dump").records.is_empty());
    }
}
