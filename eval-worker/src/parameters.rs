//! Whether what a launch passes is as large as what its kernel takes: a driver reads as many bytes as the kernel's parameter has, wherever
//! they are. AMD's code objects, PTX and cubins say it.

mod cubin;

use std::collections::BTreeMap;

use bluefin_common::artifact::{Argument, Launch};

/// Bytes of the largest number, and of an address.
const LARGEST_NUMBER: u32 = 8;

/// The bytes of each parameter of the kernels in a code object, by their symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters(BTreeMap<String, Vec<u32>>);

impl Parameters {
    /// Of all `objects`.
    pub(crate) fn of(objects: &[Vec<u8>]) -> Self {
        let of = |code: &Vec<u8>| {
            bluefin_amd::parameters(code).or_else(|| cubin::parameters(code)).unwrap_or_else(|| of_ptx(code))
        };
        Self(objects.iter().flat_map(of).collect())
    }

    /// Whether the arguments of `launch` are as large as its kernel's parameters, where those are known.
    ///
    /// # Errors
    /// The first argument that is not, with both sizes.
    pub(crate) fn fit(&self, launch: &Launch) -> Result<(), String> {
        self.0.get(&launch.entry).map_or(Ok(()), |sizes| fit(launch, sizes.iter().copied()))
    }
}

/// Whether the arguments of `launch` are as large as parameters of `sizes` bytes.
///
/// # Errors
/// The first argument that is not, with both sizes, or that there are too few.
pub(crate) fn fit(launch: &Launch, sizes: impl IntoIterator<Item = u32>) -> Result<(), String> {
    let sizes: Vec<u32> = sizes.into_iter().collect();
    for (at, (argument, expected)) in launch.arguments.iter().zip(&sizes).enumerate() {
        let (found, fits) = match argument {
            // No part of one is enough.
            Argument::Structure(structure) => {
                let bytes = structure.bytes.len();
                (format!("a structure of {bytes} bytes"), bytes == *expected as usize)
            }
            Argument::Tensor(_) => continue,
            _ => ("a number or an address".to_string(), *expected <= LARGEST_NUMBER),
        };
        if !fits {
            let entry = &launch.entry;
            return Err(format!(
                "{entry}: arguments[{at}]: found {found}, expected the {expected} bytes of its parameter"
            ));
        }
    }
    let (found, expected) = (launch.arguments.len(), sizes.len());
    // More are what a compiler passes beside the kernel's own.
    if found < expected {
        return Err(format!(
            "{}: found {found} arguments, expected one for each of its {expected} parameters",
            launch.entry
        ));
    }
    Ok(())
}

/// `.param .align 8 .b8 step_param_0[24],` behind `.entry step(`.
fn of_ptx(code: &[u8]) -> BTreeMap<String, Vec<u32>> {
    let mut found = BTreeMap::new();
    let Some(text) = std::str::from_utf8(code).ok().filter(|text| text.contains(".target")) else { return found };
    for part in text.split(".entry ").skip(1) {
        let Some((name, behind)) = part.split_once('(') else { continue };
        let (list, _) = behind.split_once(')').unwrap_or((behind, ""));
        let sizes = list.split(',').filter(|one| one.contains(".param")).map(size_in_ptx).collect();
        found.insert(name.trim().to_string(), sizes);
    }
    found
}

fn size_in_ptx(parameter: &str) -> u32 {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    match parameter.rsplit_once('[') {
        Some((_, count)) => digits(count),
        // `.u64`, `.f32`
        None => {
            let mut words = parameter.split_whitespace().filter(|word| *word != ".param");
            words.next().map_or(0, |word| digits(word) / 8)
        }
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::structure::Structure;

    use super::*;

    #[test]
    fn sizes_are_those_of_ptx() {
        let ptx = "//\n.version 7.0\n.target sm_80\n.visible .entry step(\n\t.param .align 8 .b8 step_param_0[24],\n\
            \t.param .u64 step_param_1,\n\t.param .f32 step_param_2\n)\n{\n}\n.entry none()\n{\n}\n";
        let found = Parameters::of(&[ptx.as_bytes().to_vec(), b"\x7fELF".to_vec()]);
        let expected = [("step", vec![24, 8, 4]), ("none", Vec::new())];
        assert_eq!(found, Parameters(expected.map(|(name, sizes)| (name.to_string(), sizes)).into()));
        let launch = |entry: &str, arguments| Launch {
            entry: entry.to_string(),
            grid: [1; 3],
            block: [1; 3],
            shared: 0,
            arguments,
        };
        let structure = |size| Argument::Structure(Structure { bytes: vec![0; size], ..Structure::default() });
        assert_eq!(found.fit(&launch("step", vec![structure(24), Argument::Buffer(0), Argument::I64(1)])), Ok(()));
        assert_eq!(found.fit(&launch("other", vec![structure(1)])), Ok(()));
        for (arguments, expected) in [
            (
                vec![structure(20)],
                "step: arguments[0]: found a structure of 20 bytes, expected the 24 bytes of its parameter",
            ),
            (
                vec![structure(24), structure(16)],
                "step: arguments[1]: found a structure of 16 bytes, expected the 8 bytes",
            ),
            (vec![Argument::I32(0)], "step: arguments[0]: found a number or an address, expected the 24 bytes of its"),
            (
                vec![structure(24), Argument::I64(1)],
                "step: found 2 arguments, expected one for each of its 3 parameters",
            ),
        ] {
            let error = found.fit(&launch("step", arguments)).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
