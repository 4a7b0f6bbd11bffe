//! The unit that is compiled for the host: the source, and functions of one signature that call its entries.

use std::fmt::Write as _;

use bluefin_common::artifact::{Argument, Launch};

/// Name of the generated unit.
pub(crate) const UNIT: &str = "bluefin_unit.c";

/// C that includes `source` and exports `void bluefin_launch_<i>(void **)` for each of `launches`. The entries are
/// declared by then, so the compiler checks the number of arguments, and a `void *` becomes any pointer.
#[must_use]
pub fn unit<'a>(source: &str, launches: impl IntoIterator<Item = &'a Launch>) -> String {
    let mut text = format!("#include \"{source}\"\n");
    for (index, launch) in launches.into_iter().enumerate() {
        let arguments: Vec<String> = launch
            .arguments
            .iter()
            .enumerate()
            .map(|(position, argument)| format!("*({} *)bluefin_arguments[{position}]", c_type(argument)))
            .collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "void bluefin_launch_{index}(void **bluefin_arguments) {{ {}({}); }}",
            launch.entry,
            arguments.join(", ")
        );
    }
    text
}

fn c_type(argument: &Argument) -> &'static str {
    match argument {
        Argument::Buffer(_) | Argument::BufferAt { .. } | Argument::Workspace | Argument::WorkspaceAt(_)
        // Of GPUs alone.
        | Argument::Tensor(_) | Argument::Structure(_) => "void *",
        Argument::I32(_) => "int",
        Argument::I64(_) => "long long",
        Argument::F32(_) => "float",
        Argument::F64(_) => "double",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_each_entry() {
        let arguments = vec![
            Argument::Buffer(1),
            Argument::Workspace,
            Argument::I32(1),
            Argument::I64(2),
            Argument::F32(0.5),
            Argument::F64(1.0),
        ];
        let launch = Launch { entry: "axpy".to_string(), grid: [1; 3], block: [1; 3], shared: 0, arguments };
        let other = Launch { entry: "sum".to_string(), arguments: vec![], ..launch.clone() };
        assert_eq!(
            unit("axpy.c", &[launch, other]),
            "#include \"axpy.c\"\n\
             void bluefin_launch_0(void **bluefin_arguments) { axpy(*(void * *)bluefin_arguments[0], \
             *(void * *)bluefin_arguments[1], *(int *)bluefin_arguments[2], *(long long *)bluefin_arguments[3], \
             *(float *)bluefin_arguments[4], *(double *)bluefin_arguments[5]); }\n\
             void bluefin_launch_1(void **bluefin_arguments) { sum(); }\n"
        );
    }
}
