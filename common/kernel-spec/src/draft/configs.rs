//! What `@triton.autotune` tries of a kernel, where its file spells it: `triton.Config({'BLOCK': 64}, num_warps=4)`.

use std::collections::BTreeSet;

use super::python::split;
use super::{Kernel, ParameterKind};

/// A config: values by name, in the order of the file. Values are as specs have them.
pub type Config = Vec<(String, String)>;

/// Options that a config has without saying so.
const DEFAULTS: [(&str, &str); 2] = [("num_warps", "4"), ("num_stages", "3")];
/// Options of a config that are no constants of the kernel.
const OPTIONS: [&str; 4] = ["num_warps", "num_stages", "num_ctas", "maxnreg"];

/// Gives each of `kernels` that has an autotuner the configs that it spells, or that the list or function does which it names. One whose values
/// are computed is none.
pub(super) fn set(kernels: &mut [Kernel], text: &str) {
    let plain: Vec<&str> = text.lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
    let text = plain.join("\n");
    for kernel in kernels {
        let Some(tuner) = autotuner(&text, &kernel.name) else { continue };
        let named = || {
            let words =
                tuner.split(|found: char| !found.is_alphanumeric() && found != '_').filter(|word| !word.is_empty());
            words.flat_map(|name| definitions(&text, name)).collect::<Vec<&str>>()
        };
        let parts = if tuner.contains("Config(") { vec![tuner] } else { named() };
        let all: Vec<Config> = parts.into_iter().flat_map(configs).collect();
        let is_constant = |name: &str| {
            let mut constants =
                kernel.parameters.iter().filter(|one| matches!(one.kind, ParameterKind::Constant { .. }));
            constants.any(|one| one.name == name)
        };
        let is_of_kernel = |config: &&Config| {
            let mut own = config.iter().filter(|(name, _)| !OPTIONS.contains(&name.as_str())).peekable();
            own.peek().is_some() && own.all(|(name, _)| is_constant(name))
        };
        let own: Vec<&Config> = all.iter().filter(is_of_kernel).collect();
        let Some(first) = own.first() else { continue };
        let mut order: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
        for (name, _) in own.iter().flat_map(|config| config.iter()) {
            if !order.contains(&name.as_str()) {
                order.push(name);
            }
        }
        // A space's points have the same names.
        let value = |config: &Config, name: &str| {
            let said = config.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
            said.or_else(|| DEFAULTS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value))
                .map(str::to_string)
        };
        let whole = |config: &&Config| -> Option<Config> {
            order.iter().map(|name| Some(((*name).to_string(), value(config, name)?))).collect()
        };
        let mut seen = BTreeSet::new();
        let configs = own.iter().filter_map(whole).filter(|config| seen.insert(config.clone())).collect();
        kernel.configs = configs;
    }
}

/// What is in `@triton.autotune(...)` above the function `name`.
fn autotuner<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let function = text.match_indices(&format!("def {name}")).map(|(at, _)| at).find(|at| {
        let behind = text.get(at + "def ".len() + name.len()..).unwrap_or_default();
        behind.trim_start().starts_with('(')
    })?;
    let before = text.get(..function)?;
    let at = before.rfind("autotune(")?;
    // A function or class between the two has decorators of its own.
    let own = before.get(at..)?;
    let is_between = |line: &str| ["def ", "class "].iter().any(|word| line.trim_start().starts_with(word));
    (!own.lines().any(is_between)).then_some(own)
}

/// The text of each list or function that the file calls `name`: up to the next line that is not further to the right.
fn definitions<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for begin in [format!("\n{name} ="), format!("\n{name}="), format!("\ndef {name}(")] {
        for (at, _) in text.match_indices(&begin) {
            let rest = text.get(at + 1..).unwrap_or_default();
            let goes_on = |line: &str| line.trim().is_empty() || line.starts_with([' ', '\t', ')', ']', '}']);
            let mut length = 0;
            for (number, line) in rest.split_inclusive('\n').enumerate() {
                if number > 0 && !goes_on(line) {
                    break;
                }
                length += line.len();
            }
            found.extend(rest.get(..length));
        }
    }
    found
}

/// Those that a text spells.
fn configs(text: &str) -> Vec<Config> {
    let calls = text.match_indices("Config(").filter(|(at, _)| {
        let before = text.get(..*at).unwrap_or_default();
        !before.ends_with(|last: char| last.is_alphanumeric() || last == '_')
    });
    calls.filter_map(|(at, call)| config(text.get(at + call.len()..)?)).collect()
}

/// The config whose arguments `text` begins with.
fn config(text: &str) -> Option<Config> {
    let mut depth = 1_i32;
    let end = text.char_indices().find(|(_, found)| {
        match found {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let mut found = Config::new();
    for (at, part) in split(text.get(..end.0)?).iter().enumerate() {
        let named = part.split_once('=').filter(|(name, _)| !name.contains('{'));
        match named {
            Some((name, value)) if name.trim() != "kwargs" => {
                let name = name.trim();
                // What a hook does is no number.
                if OPTIONS.contains(&name) && value.trim() != "None" {
                    found.push((name.to_string(), literal(value)?));
                }
            }
            _ if at == 0 || named.is_some() => {
                let inner = part.split_once('{')?.1.rsplit_once('}')?.0;
                for pair in split(inner) {
                    let (name, value) = pair.split_once(':')?;
                    let name = name.trim().trim_matches(['\'', '"']);
                    found.push((name.to_string(), literal(value)?));
                }
            }
            // num_warps and num_stages may be said by their place.
            _ => found.push((DEFAULTS.get(at - 1)?.0.to_string(), literal(part)?)),
        }
    }
    Some(found)
}

/// A number or a bool as specs have them.
fn literal(value: &str) -> Option<String> {
    match value.trim() {
        "True" => Some("true".to_string()),
        "False" => Some("false".to_string()),
        number => number.parse::<i64>().ok().map(|number| number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::python;

    #[test]
    fn configs_are_those_of_the_kernels_constants() {
        let head = "@triton.autotune(configs=CONFIGS, key=[])\n@triton.jit\ndef k(p_ptr, n, BLOCK: tl.constexpr, FAST: tl.constexpr):\n    tl.store(p_ptr, n)\n";
        for (text, expected) in [
            (
                "CONFIGS = [triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 32}, num_warps=8)]",
                "BLOCK=64 num_warps=4; BLOCK=32 num_warps=8",
            ),
            (
                "CONFIGS = [Config(\n    {\"BLOCK\": 64, 'FAST': True}, # fast\n    num_stages=2, pre_hook=None)]",
                "BLOCK=64 FAST=true num_stages=2",
            ),
            (
                "CONFIGS = [Config(kwargs={'BLOCK': 64}, num_warps=2), Config({'BLOCK': 16}, 1)]",
                "BLOCK=64 num_warps=2; BLOCK=16 num_warps=1",
            ),
            ("CONFIGS = [Config({'BLOCK': b}) for b in (1, 2)]", ""),
            ("CONFIGS = [Config({'OTHER': 64}), Config({}, num_warps=2)]", ""),
            ("CONFIGS = [Config({'BLOCK': 64", ""),
            ("CONFIGS = [MyConfig({'BLOCK': 64})]\nOTHERS = [Config({'BLOCK': 32})]", ""),
            ("def CONFIGS():\n    return [Config({'BLOCK': 64}, num_warps=2)]", "BLOCK=64 num_warps=2"),
        ] {
            let text = format!("{head}{text}\n");
            let mut kernels = python::kernels(&text);
            super::set(&mut kernels, &text);
            let configs = std::mem::take(&mut kernels[0].configs);
            let one = |config: super::Config| {
                config.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
            };
            assert_eq!(configs.into_iter().map(one).collect::<Vec<_>>().join("; "), expected, "{text}");
        }
    }
}
