//! Instructions of PTX in C++, by the PTX ISA: what each computes, not how fast. Copies that a kernel would wait for are there at once.

use super::carries::{self, carried};
use super::operands::{Operands, list, type_of, whole};
use super::words::is_known;

/// An instruction: the words of its name, and its operands.
struct Instruction<'a> {
    words: Vec<&'a str>,
    operands: Vec<&'a str>,
}

/// An instruction, maybe behind a predicate, or a declaration of registers.
pub(super) fn statement(text: &str, operands: &mut Operands) -> Option<String> {
    if let Some(guarded) = text.strip_prefix('@') {
        let (predicate, rest) = guarded.split_once(char::is_whitespace)?;
        let condition = operands.read(predicate, "bool")?;
        return Some(format!("if ({condition}) {{ {}}} ", statement(rest.trim_start(), operands)?));
    }
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if name == ".reg" {
        return registers(rest.trim(), operands);
    }
    if !is_known(name) {
        return None;
    }
    let instruction = Instruction { words: name.split('.').collect(), operands: list(rest) };
    // One of another statement is nowhere.
    let carries = instruction.has(carries::LEAVES);
    if instruction.words.first().is_some_and(|name| carries::takes(name)) && !operands.has_carry {
        return None;
    }
    operands.has_carry |= carries;
    instruction.translated(operands).map(|words| words + " ")
}

/// `.pred p, q`
fn registers(text: &str, operands: &mut Operands) -> Option<String> {
    let (kind, names) = text.split_once(char::is_whitespace)?;
    let type_ = type_of(kind.strip_prefix('.')?)?;
    list(names).into_iter().map(|name| operands.register(name, type_)).collect()
}

/// The elements of `{a, b}`.
fn elements(operand: &str) -> Option<Vec<&str>> {
    operand.strip_prefix('{')?.strip_suffix('}').map(list)
}

/// The type in which numbers of a type are added: those with a sign without it, as PTX's have no bounds to go beyond.
fn unsigned(type_: &'static str) -> &'static str {
    match type_ {
        "int" => "unsigned",
        "long long" => "unsigned long long",
        "short" => "unsigned short",
        other => other,
    }
}

/// The type of twice as many bits.
fn wide(name: &str) -> Option<&'static str> {
    type_of(match name {
        "u16" => "u32",
        "s16" => "s32",
        "u32" => "u64",
        "s32" => "s64",
        _ => return None,
    })
}

impl Instruction<'_> {
    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// The last of its types, and its name.
    fn type_(&self) -> Option<(&'static str, &str)> {
        self.words.iter().rev().find_map(|word| Some((type_of(word)?, *word)))
    }

    fn translated(&self, all: &Operands) -> Option<String> {
        let name = *self.words.first()?;
        match name {
            "bar" | "barrier" if self.has("sync") && self.operands == ["0"] => return Some("__syncthreads();".into()),
            "bar" | "barrier" if !self.has("warp") => return None,
            "bar" if self.has("warp") => return Some("__syncwarp();".into()),
            "membar" | "fence" => return Some("__threadfence();".into()),
            "prefetch" | "prefetchu" | "nanosleep" | "griddepcontrol" => return Some(String::new()),
            "trap" => return Some("__builtin_trap();".into()),
            "cp" if self.has("async") => return self.copy(all),
            "ldmatrix" => return self.matrix(all),
            "mma" => return self.product(all),
            "ld" | "st" => return self.moved(all),
            "red" | "atom" => return self.atomic(all),
            "cvt" => return self.converted(all),
            "cvta" => return self.address(all),
            "mov" if self.operands.iter().any(|operand| operand.starts_with('{')) => return self.packed(all),
            "shfl" => return self.shuffled(all),
            "setp" => return self.compared(all),
            _ if carries::is_one(&self.words) => return carried(&self.words, &self.operands, all),
            _ => {}
        }
        let (type_, kind) = self.type_()?;
        let [to, from @ ..] = self.operands.as_slice() else { return None };
        let is_sum = matches!(name, "add" | "sub" | "mul" | "mad" | "neg") && !self.has("wide") && !self.has("hi");
        let operand = if is_sum { unsigned(type_) } else { type_ };
        let value = |at: usize| all.read(from.get(at)?, operand);
        let as_ = |at: usize, type_: &str| all.read(from.get(at)?, type_);
        let is_float = kind.starts_with('f');
        let one = || value(0).filter(|_| from.len() == 1);
        let three = || Some((value(0)?, value(1)?, value(2)?)).filter(|_| from.len() == 3);
        let count = match name {
            "selp" | "bfe" | "mad" | "shf" => 3,
            "bfi" | "lop3" => 4,
            "shl" | "shr" => 2,
            "activemask" => 0,
            _ => from.len(),
        };
        if from.len() != count {
            return None;
        }
        let two = || Some((value(0)?, value(1)?)).filter(|_| from.len() == 2);
        let sign = match name {
            "add" => "+",
            "sub" => "-",
            "and" => "&",
            "or" => "|",
            "xor" => "^",
            "div" => "/",
            "rem" => "%",
            "mul" if is_float || self.has("lo") => "*",
            _ => "",
        };
        let function = match name {
            "popc" => "__popc",
            "clz" => "__clz",
            "brev" => "__brev",
            "ex2" => "exp2f",
            "lg2" => "log2f",
            "sin" => "sinf",
            "cos" => "cosf",
            "tanh" => "tanhf",
            "rcp" => "1 / ",
            "rsqrt" => "1 / bluefin_root",
            "sqrt" => "bluefin_root",
            "abs" => "bluefin_absolute",
            "neg" => "-",
            "not" if kind == "pred" => "!",
            "not" => "~",
            _ => "",
        };
        let is_of_32 = matches!(name, "ex2" | "lg2" | "sin" | "cos" | "tanh");
        let value = match name {
            _ if !sign.is_empty() => {
                let (a, b) = two()?;
                format!("{a} {sign} {b}")
            }
            _ if is_of_32 && kind == "f16" => format!("{function}((float){})", one()?),
            _ if !function.is_empty() => format!("{function}({})", one()?),
            "mov" => one()?,
            "mul" if self.has("wide") => {
                let (a, b) = two()?;
                return all.write(to, wide(kind)?, &format!("({})({a}) * {b}", wide(kind)?));
            }
            "mul" if self.has("hi") => {
                let (a, b) = two()?;
                format!("(({})({a}) * {b}) >> 32", wide(kind)?)
            }
            "mad" if self.has("wide") => {
                let (a, b) = (value(0)?, value(1)?);
                return all.write(to, wide(kind)?, &format!("({})({a}) * {b} + {}", wide(kind)?, as_(2, wide(kind)?)?));
            }
            "mad" if self.has("lo") => format!("{} * {} + {}", value(0)?, value(1)?, value(2)?),
            "mad" | "fma" if is_float => {
                let (a, b, c) = three()?;
                format!("bluefin_fused({a}, {b}, {c})")
            }
            "min" | "max" => {
                let (a, b) = two()?;
                format!("bluefin_{name}({a}, {b})")
            }
            "shl" | "shr" => format!("bluefin_{name}({}, {})", value(0)?, as_(1, "unsigned")?),
            "selp" => format!("{} ? {} : {}", as_(2, "bool")?, value(0)?, value(1)?),
            "bfe" => format!("bluefin_bits_from({}, {}, {})", value(0)?, as_(1, "unsigned")?, as_(2, "unsigned")?),
            "bfi" => {
                format!(
                    "bluefin_bits_into({}, {}, {}, {})",
                    value(0)?,
                    value(1)?,
                    as_(2, "unsigned")?,
                    as_(3, "unsigned")?
                )
            }
            // A byte's sign, which the upper bit of a selector asks for, is not had.
            "prmt" if whole(from.get(2)?)? & 0x8888 == 0 => {
                let (a, b, selector) = three()?;
                format!("__byte_perm({a}, {b}, {selector})")
            }
            "lop3" => format!("bluefin_logic({}, {}, {}, {})", value(0)?, value(1)?, value(2)?, value(3)?),
            "shf" => {
                let clamps = if self.has("clamp") { "c" } else { "" };
                let to = self.words.get(1).filter(|to| matches!(**to, "l" | "r"))?;
                format!("__funnelshift_{to}{clamps}({}, {}, {})", value(0)?, value(1)?, value(2)?)
            }
            "activemask" => return all.write(to, "unsigned", "__activemask()"),
            _ => return None,
        };
        all.write(to, type_, &value)
    }

    /// `setp.lt.u32 p, a, b`
    fn compared(&self, all: &Operands) -> Option<String> {
        let (type_, kind) = self.type_()?;
        let [to, a, b] = self.operands.as_slice() else { return None };
        let (a, b) = (all.read(a, type_)?, all.read(b, type_)?);
        let sign = match *self.words.get(1)? {
            // What is no number is not unequal to another.
            "ne" if kind.starts_with('f') => return all.write(to, "bool", &format!("{a} < {b} || {a} > {b}")),
            "eq" => "==",
            "ne" | "neu" => "!=",
            "lt" | "lo" => "<",
            "le" | "ls" => "<=",
            "gt" | "hi" => ">",
            "ge" | "hs" => ">=",
            _ => return None,
        };
        all.write(to, "bool", &format!("{a} {sign} {b}"))
    }

    /// `mov.b32 %0, {a, b}` and `mov.b32 {a, b}, %0`
    fn packed(&self, all: &Operands) -> Option<String> {
        let (type_, _) = self.type_()?;
        let [to, from] = self.operands.as_slice() else { return None };
        let bits: u32 = match type_ {
            "unsigned" => 32,
            "unsigned long long" => 64,
            _ => return None,
        };
        let part = |count: usize| match bits.checked_div(u32::try_from(count).ok()?)? {
            32 => Some(("unsigned", 32)),
            16 => Some(("unsigned short", 16)),
            _ => None,
        };
        if let Some(parts) = elements(from) {
            let (part, bits) = part(parts.len())?;
            let one =
                |(at, operand): (usize, &&str)| Some(format!("({type_}){} << {}", all.read(operand, part)?, bits * at));
            let all_of: Vec<String> = parts.iter().enumerate().map(one).collect::<Option<_>>()?;
            return all.write(to, type_, &all_of.join(" | "));
        }
        let parts = elements(to)?;
        let (part, bits) = part(parts.len())?;
        let value = all.read(from, type_)?;
        let one = |(at, operand): (usize, &&str)| all.write(operand, part, &format!("bluefin_v >> {}", bits * at));
        let all_of: String = parts.iter().enumerate().map(one).collect::<Option<_>>()?;
        Some(format!("{{ const {type_} bluefin_v = {value}; {all_of}}}"))
    }

    /// `cvt.rn.f16.f32 %0, %1`
    fn converted(&self, all: &Operands) -> Option<String> {
        let mut types = self.words.iter().rev().filter_map(|word| type_of(word));
        let (of, to) = (types.next()?, types.next()?);
        if types.next().is_some() {
            return None;
        }
        let saturates = self.has("sat");
        let rounds = [("rni", "rintf"), ("rzi", "truncf"), ("rmi", "floorf"), ("rpi", "ceilf")];
        let round = rounds.iter().find(|(word, _)| self.has(word)).map(|(_, function)| *function);
        match self.operands.as_slice() {
            [to_, upper, lower] if to == "bluefin_halves" && of == "float" && self.has("rn") && !saturates => {
                let value = format!("bluefin_halves_of({}, {})", all.read(lower, of)?, all.read(upper, of)?);
                all.write(to_, to, &value)
            }
            [to_, from] if to != "bluefin_halves" => {
                let value = all.read(from, of)?;
                let is_float = |type_: &str| matches!(type_, "float" | "double" | "_Float16");
                let is_same = of == to;
                let value = match (is_float(of), is_float(to), round) {
                    (true, false, Some(round)) if of != "double" => {
                        format!("bluefin_whole<{to}>({round}((float){value}))")
                    }
                    (true, true, Some(round)) if is_same && of != "double" && !saturates => {
                        format!("{round}((float){value})")
                    }
                    (true, true, None) if saturates && of != "double" && to != "double" => {
                        format!("__saturatef((float){value})")
                    }
                    (false, false, None) if saturates => format!("bluefin_saturated<{to}>({value})"),
                    (true, true, None) | (false, false, None) if !saturates => value,
                    (false, true, None) if self.has("rn") && !saturates => value,
                    _ => return None,
                };
                all.write(to_, to, &value)
            }
            _ => None,
        }
    }

    /// `cvta.to.shared.u64 %0, %1`
    fn address(&self, all: &Operands) -> Option<String> {
        let (type_, _) = self.type_()?;
        let [to, from] = self.operands.as_slice() else { return None };
        let value = all.read(from, "unsigned long long")?;
        let is_shared = self.has("shared") || self.has("shared::cta");
        let value = match (is_shared, self.has("to")) {
            (true, true) => format!("__cvta_generic_to_shared((const void*){value})"),
            (true, false) => format!("(unsigned long long)bluefin_shared<char>({value})"),
            (false, _) => value,
        };
        all.write(to, type_, &value)
    }

    /// The pointer that `[a + 4]` is.
    fn pointer(&self, all: &Operands, operand: &str, type_: &str) -> Option<String> {
        let inner = operand.strip_prefix('[')?.strip_suffix(']')?.trim();
        let (base, offset) = inner.split_once('+').unwrap_or((inner, "0"));
        let offset: i64 = offset.trim().parse().ok()?;
        let is_shared = self.has("shared") || self.has("shared::cta");
        let base = all.read(base.trim(), "unsigned long long")?;
        Some(match is_shared {
            true => format!("bluefin_shared<{type_}>({base} + {offset})"),
            false => format!("(({type_}*)({base} + {offset}))"),
        })
    }

    /// `ld.global.v2.f32 {%0, %1}, [%2]`, `st.shared.f32 [%0], %1`
    fn moved(&self, all: &Operands) -> Option<String> {
        let (type_, _) = self.type_()?;
        let [first, second] = self.operands.as_slice() else { return None };
        let is_load = self.words.first() == Some(&"ld");
        let (value, address) = if is_load { (first, second) } else { (second, first) };
        let pointer = self.pointer(all, address, type_)?;
        let values = elements(value).unwrap_or_else(|| vec![value]);
        let count = if self.has("v2") {
            2
        } else if self.has("v4") {
            4
        } else {
            1
        };
        let order = [("relaxed", "RELAXED"), ("acquire", "ACQUIRE"), ("release", "RELEASE")];
        let order = order.iter().find(|(word, _)| self.has(word)).map(|(_, order)| format!("__ATOMIC_{order}"));
        if values.len() != count || order.is_some() && count > 1 {
            return None;
        }
        let is_volatile = ["volatile", "cv", "wt"].iter().any(|word| self.has(word));
        let one = |(at, operand): (usize, &&str)| match (is_load, &order) {
            (true, Some(order)) => all.write(operand, type_, &format!("bluefin_load<{order}>(bluefin_p)")),
            (true, None) => all.write(operand, type_, &format!("bluefin_p[{at}]")),
            (false, Some(order)) => Some(format!("bluefin_store<{order}>(bluefin_p, {}); ", all.read(operand, type_)?)),
            (false, None) => Some(format!("bluefin_p[{at}] = {}; ", all.read(operand, type_)?)),
        };
        let moves: String = values.iter().enumerate().map(one).collect::<Option<_>>()?;
        Some(match is_volatile {
            true => format!("{{ volatile {type_}* const bluefin_p = {pointer}; {moves}}}"),
            false => format!("{{ const auto bluefin_p = {pointer}; {moves}}}"),
        })
    }

    /// `cp.async.cg.shared.global [%0], [%1], 16, %2`
    fn copy(&self, all: &Operands) -> Option<String> {
        if self.has("commit_group") || self.has("wait_group") || self.has("wait_all") {
            return Some(String::new());
        }
        let is_plain = (self.has("shared") || self.has("shared::cta")) && self.has("global");
        let (to, from, bytes, valid) = match self.operands.as_slice() {
            [to, from, bytes] => (to, from, bytes, bytes),
            [to, from, bytes, valid] => (to, from, bytes, valid),
            _ => return None,
        };
        let inner = |operand: &str| Some(operand.strip_prefix('[')?.strip_suffix(']')?.trim().to_string());
        let to = all.read(&inner(to)?, "unsigned long long")?;
        let from = all.read(&inner(from)?, "unsigned long long")?;
        let (bytes, valid) = (all.read(bytes, "unsigned")?, all.read(valid, "unsigned")?);
        is_plain.then(|| format!("bluefin_copy({to}, {from}, {bytes}, {valid});"))
    }

    /// `ldmatrix.sync.aligned.m8n8.x4.shared.b16 {...}, [%4]`
    fn matrix(&self, all: &Operands) -> Option<String> {
        let [to, from] = self.operands.as_slice() else { return None };
        let to = elements(to).unwrap_or_else(|| vec![to]);
        let is_plain = self.has("b16") && (self.has("shared") || self.has("shared::cta"));
        let is_plain =
            is_plain && ["x1", "x2", "x4"].iter().any(|count| self.has(count) && **count == format!("x{}", to.len()));
        let address = all.read(from.strip_prefix('[')?.strip_suffix(']')?.trim(), "unsigned").filter(|_| is_plain)?;
        let one = |(at, to): (usize, &&str)| all.write(to, "unsigned", &format!("bluefin_m[{at}]"));
        let parts: String = to.iter().enumerate().map(one).collect::<Option<_>>()?;
        let (count, turned) = (to.len(), self.has("trans"));
        Some(format!("{{ unsigned bluefin_m[{count}]; bluefin_matrix<{turned}>(bluefin_m, {address}); {parts}}}"))
    }

    /// `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {...}, {...}, {...}, {...}`
    fn product(&self, all: &Operands) -> Option<String> {
        let types: Vec<&str> = self.words.iter().rev().take(4).copied().collect();
        let [of, second, first, sum] = types.as_slice() else { return None };
        let name = match (*first, *second, *sum) {
            _ if of != sum => return None,
            ("f16", "f16", "f32" | "f16") => "f16",
            ("bf16", "bf16", "f32") => "bf16",
            _ => return None,
        };
        let left = if self.has("m16n8k16") { 4 } else { 2 };
        let is_whole = self.has("m16n8k16") || self.has("m16n8k8");
        let is_plain = is_whole && self.has("row") && self.has("col") && self.words.len() == 10;
        let [to, a, b, c] = self.operands.as_slice() else { return None };
        let (to, a, b, c) = (elements(to)?, elements(a)?, elements(b)?, elements(c)?);
        let sums = if *sum == "f32" { 4 } else { 2 };
        let is_plain = is_plain && [to.len(), a.len(), b.len(), c.len()] == [sums, left, left / 2, sums];
        let registers = |parts: &[&str]| {
            let all_of: Option<Vec<String>> = parts.iter().map(|part| all.read(part, "unsigned")).collect();
            Some(all_of?.join(", "))
        };
        let (a, b, c) = (registers(&a)?, registers(&b)?, registers(&c)?);
        let one = |(at, to): (usize, &&str)| all.write(to, "unsigned", &format!("bluefin_d[{at}]"));
        let parts: String = to.iter().enumerate().map(one).collect::<Option<_>>()?;
        let of = format!("bluefin_of_{name}, bluefin_of_{sum}");
        is_plain.then(|| {
            format!(
                "{{ const unsigned bluefin_a[] = {{{a}}}, bluefin_b[] = {{{b}}}, bluefin_c[] = {{{c}}}; unsigned bluefin_d[{}]; \
                 bluefin_product<{of}>(bluefin_d, bluefin_a, bluefin_b, bluefin_c); {parts}}}",
                to.len()
            )
        })
    }

    /// `shfl.sync.bfly.b32 %0, %1, %2, 0x1f, %3`, within lanes whose number is a power of 2. There is nothing for a predicate behind the first operand.
    fn shuffled(&self, all: &Operands) -> Option<String> {
        let [to, value, lane, bounds, mask] = self.operands.as_slice() else { return None };
        let function = match *self.words.get(2).filter(|_| self.has("sync"))? {
            "bfly" => "__shfl_xor_sync",
            "up" => "__shfl_up_sync",
            "down" => "__shfl_down_sync",
            "idx" => "__shfl_sync",
            _ => return None,
        };
        let read = |operand: &str| all.read(operand, "unsigned");
        let bounds = whole(bounds)?;
        let width = 32 - ((bounds >> 8) & 31);
        let clamp = if self.has("up") { 0 } else { 31 };
        if self.words.len() != 4 || bounds & !0x1f00 != clamp || !width.is_power_of_two() {
            return None;
        }
        let found = format!("{function}({}, {}, {} & 31, {width})", read(mask)?, read(value)?, read(lane)?);
        all.write(to, "unsigned", &found)
    }

    /// `atom.global.add.u32 %0, [%1], %2`, `red.global.add.f32 [%0], %1`
    fn atomic(&self, all: &Operands) -> Option<String> {
        let (type_, kind) = self.type_()?;
        let (to, address, value) = match self.operands.as_slice() {
            [to, address, value] => (Some(to), address, value),
            [address, value] if self.words.first() == Some(&"red") => (None, address, value),
            _ => return None,
        };
        let names = [("add", "atomicAdd"), ("min", "atomicMin"), ("max", "atomicMax"), ("exch", "atomicExch")];
        let function = names.iter().find(|(word, _)| self.has(word)).map(|(_, function)| *function)?;
        let is_known = match function {
            "atomicAdd" => kind != "b32",
            "atomicExch" => kind == "b32",
            _ => matches!(kind, "u32" | "s32" | "u64"),
        };
        let pointer = self.pointer(all, address, type_).filter(|_| is_known)?;
        let call = format!("{function}(({type_}*){pointer}, {})", all.read(value, type_)?);
        let call = match to {
            Some(to) => all.write(to, type_, &call)?,
            None => format!("{call}; "),
        };
        let fence = |words: [&str; 2]| if words.iter().any(|word| self.has(word)) { "__threadfence(); " } else { "" };
        Some(format!("{}{call}{}", fence(["release", "acq_rel"]), fence(["acquire", "acq_rel"])))
    }
}
