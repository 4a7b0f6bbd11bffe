//! Tensor descriptors among the arguments of a captured launch, whose blocks follow from the config.

use std::collections::BTreeSet;

use crate::captured::{Argument, ArgumentKind, Captured, Typed};
use crate::grid;
use crate::text::quoted;
use crate::words::Words;

/// What a block may be of a param: as it is, halves and quarters of it, or twice as much.
const SHARES: [(u64, u64, &str); 4] = [(1, 1, ""), (1, 2, " / 2"), (1, 4, " / 4"), (2, 1, " * 2")];

impl Captured {
    /// A descriptor as a launch has it; nothing for what is none. `listed`: no other configs than the program's are meant.
    ///
    /// # Errors
    /// Its block follows no rule that a spec can say.
    pub(crate) fn descriptor(
        &self,
        argument: &Argument,
        words: &Words,
        listed: bool,
    ) -> Result<Option<String>, String> {
        let ArgumentKind::Descriptor { buffer, offset, shape, strides, nan, tf32 } = &argument.kind else {
            return Ok(None);
        };
        let name = &argument.name;
        let block = (0..shape.len()).map(|dimension| {
            let said = self.block(name, dimension, words, listed);
            said.map(|said| quoted(&said))
                .ok_or_else(|| format!("{name}: its block follows no rule that a spec can say"))
        });
        let block = block.collect::<Result<Vec<_>, _>>()?;
        let mut text = format!("{{ descriptor = {}", quoted(buffer));
        if *offset > 0 {
            text.push_str(&format!(", offset = {offset}"));
        }
        text.push_str(&format!(", shape = {shape:?}, strides = {strides:?}, block_shape = [{}]", block.join(", ")));
        if *nan {
            text.push_str(", padding = \"nan\"");
        }
        if *tf32 {
            text.push_str(", round_f32_to_tf32 = true");
        }
        text.push_str(" }");
        Ok(Some(text))
    }

    /// A dimension of the block of a descriptor, for every config.
    fn block(&self, name: &str, dimension: usize, words: &Words, listed: bool) -> Option<String> {
        let sizes = self.configs.iter().map(|config| config.blocks.get(name)?.get(dimension).copied());
        let sizes = sizes.collect::<Option<Vec<u64>>>()?;
        let first = sizes.first()?;
        if sizes.iter().all(|size| size == first) {
            return Some(first.to_string());
        }
        let given = |param: &str| {
            let values = self.configs.iter().map(|config| match config.kwargs.get(param) {
                Some(Typed::Int(value)) => u64::try_from(*value).ok(),
                _ => None,
            });
            values.collect::<Option<Vec<u64>>>()
        };
        let params: BTreeSet<&String> = self.configs.iter().flat_map(|config| config.kwargs.keys()).collect();
        let ruled = params.iter().find_map(|param| {
            let values = given(param)?;
            let fits = |times: u64, by: u64| sizes.iter().zip(&values).all(|(size, value)| value * times / by == *size);
            SHARES.iter().find(|(times, by, _)| fits(*times, *by)).map(|(_, _, text)| format!("{param}{text}"))
        });
        if ruled.is_some() || !listed {
            return ruled;
        }
        let values = |config: &crate::captured::Config| {
            config.kwargs.iter().map(|(name, value)| (name.clone(), words.worded(name, value))).collect()
        };
        let cases = self.configs.iter().map(values).zip(sizes).collect();
        grid::expression(&cases, &BTreeSet::new())
    }
}
