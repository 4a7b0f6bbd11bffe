//! Code objects: ELF files of versions 5 and 6 (LLVM, "User Guide for AMDGPU Backend", "Code Object"), as they are or in
//! an offload bundle.

use std::collections::{BTreeMap, BTreeSet};

use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{
    LittleEndian, Object, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationFlags,
    RelocationTarget, SectionKind, SymbolIndex, SymbolKind, elf,
};
use rmpv::Value;

use crate::error::{LaunchError, LoadError};
use crate::target::Target;
use crate::variables::{Section, Variable, Variables};
use crate::verdict::source_name;

/// EI_ABIVERSION of code object versions 5 and 6.
const VERSIONS: [(u8, u8); 2] = [(3, 5), (4, 6)];
const MACHINE_MASK: u32 = 0xff;
const NT_AMDGPU_METADATA: u32 = 32;
const R_AMDGPU_ABS64: u32 = 3;
const R_AMDGPU_RELATIVE64: u32 = 13;
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_BUNDLE: &[u8] = b"CCOB";
/// Segments are mapped from one base; no image of a kernel comes near this.
const LARGEST_IMAGE: u64 = 1 << 28;

/// What is mapped, and what can be launched.
pub(crate) struct CodeObject {
    /// All that is loaded, by virtual address.
    pub image: Vec<u8>,
    /// Ranges of the image that kernels must not write: code and constants.
    pub protected: Vec<(u64, u64)>,
    /// Address and words of each section of code.
    pub text: Vec<(u64, Vec<u32>)>,
    pub kernels: BTreeMap<String, Kernel>,
    /// Variables, by name: offset in the image and size.
    pub variables: BTreeMap<String, (u64, u64)>,
    /// The same with their names in the source, and what lies between them.
    pub(crate) named: Variables,
    /// Relative relocations: where, and what is added to the base.
    pub relocations: Vec<(u64, u64)>,
}

/// A kernel: its descriptor (LLVM, "Kernel Descriptor") and its arguments, from the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub name: String,
    /// LDS that the code itself names.
    pub static_lds: u32,
    /// Scratch of a lane, in bytes.
    pub scratch: u32,
    /// Bytes of all arguments, hidden ones included.
    pub argument_bytes: u32,
    /// As the metadata lists them, hidden ones included.
    pub arguments: Vec<Argument>,
    /// Lanes of a wave.
    pub lanes: u32,
    /// The most threads of a block.
    pub max_block: u32,
    pub(crate) entry: u64,
    pub(crate) resources: [u32; 3],
    pub(crate) properties: u16,
    pub(crate) preload: Preload,
}

/// Arguments that are in SGPRs when a kernel begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preload {
    pub dwords: usize,
    pub offset: usize,
}

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub offset: u32,
    pub size: u32,
    /// LLVM's name: `by_value`, `global_buffer`, `hidden_block_count_x`.
    pub kind: String,
}

/// Scratch of a lane where the compiler does not know how deep calls go (`uses_dynamic_stack`): the least that is given.
const DYNAMIC_STACK: u32 = 16_384;

impl Kernel {
    /// Scratch that a lane gets, in bytes.
    pub(crate) fn lane_scratch(&self) -> u32 {
        let dynamic = self.properties >> 11 & 1 == 1;
        if dynamic { self.scratch.max(DYNAMIC_STACK) } else { self.scratch }
    }

    /// Lays out arguments as the kernel wants them, each with the bytes that its metadata says.
    ///
    /// # Errors
    /// Another number of arguments, or one of another size.
    pub fn pack(&self, values: &[&[u8]]) -> Result<Vec<u8>, LaunchError> {
        let visible: Vec<&Argument> = self.arguments.iter().filter(|argument| !argument.is_hidden()).collect();
        let kernel = || source_name(&self.name).into_owned();
        if visible.len() != values.len() {
            return Err(LaunchError::Count { kernel: kernel(), found: values.len(), expected: visible.len() });
        }
        let mut bytes = Vec::new();
        for (at, (argument, value)) in visible.iter().zip(values).enumerate() {
            // A launch has whole numbers of 32 and 64 bits; a parameter that is narrower takes the lower ones, as it does where a
            // runtime is given their address.
            let narrower = match value.len() {
                8 => 5..8,
                4 => 1..4,
                _ => 0..0,
            };
            let is_cut = narrower.contains(&argument.size) && argument.kind == "by_value";
            let value = if is_cut { value.get(..argument.size as usize).unwrap_or(value) } else { value };
            if value.len() != argument.size as usize {
                let (number, found, expected) = (at + 1, value.len(), argument.size);
                return Err(LaunchError::Argument { kernel: kernel(), number, found, expected });
            }
            bytes.resize(bytes.len().max(argument.offset as usize), 0);
            bytes.truncate(argument.offset as usize);
            bytes.extend(value);
        }
        Ok(bytes)
    }
}

impl Argument {
    /// Whether the runtime passes it, not the caller.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.kind.starts_with("hidden_")
    }
}

fn bad(what: impl Into<String>) -> LoadError {
    LoadError::Malformed { what: what.into() }
}

fn elf_error(error: object::Error) -> LoadError {
    bad(error.to_string())
}

/// Little-endian integers of a byte string; out of it is malformed.
fn bytes_at<const N: usize>(bytes: &[u8], at: u64) -> Result<[u8; N], LoadError> {
    let start = usize::try_from(at).map_err(|_| bad("an offset beyond the file"))?;
    let end = start.checked_add(N).ok_or_else(|| bad("an offset beyond the file"))?;
    let found = bytes.get(start..end).ok_or_else(|| bad(format!("{N} bytes at {at:#x} are beyond the file")))?;
    <[u8; N]>::try_from(found).map_err(|_| bad("a slice of another length"))
}

fn u32_at(bytes: &[u8], at: u64) -> Result<u32, LoadError> {
    Ok(u32::from_le_bytes(bytes_at(bytes, at)?))
}

fn u64_at(bytes: &[u8], at: u64) -> Result<u64, LoadError> {
    Ok(u64::from_le_bytes(bytes_at(bytes, at)?))
}

/// The code object for `target` of an offload bundle (clang, "Clang Offload Bundler"); the bytes themselves if they are no
/// bundle.
pub(crate) fn unbundle<'a>(bytes: &'a [u8], target: &Target) -> Result<&'a [u8], LoadError> {
    if bytes.starts_with(COMPRESSED_BUNDLE) {
        return Err(bad("a compressed offload bundle, which is not read"));
    }
    if !bytes.starts_with(BUNDLE) {
        return Ok(bytes);
    }
    let mut at = BUNDLE.len() as u64;
    let count = u64_at(bytes, at)?;
    at += 8;
    for _ in 0..count.min(1024) {
        let (offset, size, length) = (u64_at(bytes, at)?, u64_at(bytes, at + 8)?, u64_at(bytes, at + 16)?);
        at += 24;
        let slice = |from: u64, size: u64| {
            let (from, size) = (usize::try_from(from).ok()?, usize::try_from(size).ok()?);
            bytes.get(from..from.checked_add(size)?)
        };
        let id = slice(at, length).ok_or_else(|| bad("an entry of the offload bundle is beyond its end"))?;
        at += length;
        let id = String::from_utf8_lossy(id);
        let arch = id.rsplit("--").next().unwrap_or_default();
        if id.contains("amdgcn") && Target::named(arch) == Some(target) {
            return slice(offset, size).ok_or_else(|| bad("a code object of the offload bundle is beyond its end"));
        }
    }
    Err(LoadError::NotInBundle { target: target.name })
}

impl CodeObject {
    /// How many lanes waves have: of one kind, or of two.
    pub fn lanes(&self) -> BTreeSet<u32> {
        self.kernels.values().map(|kernel| kernel.lanes).collect()
    }

    pub fn parse(bytes: &[u8], target: &'static Target) -> Result<Self, LoadError> {
        let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(elf_error)?;
        let (endian, header) = (file.endian(), file.elf_header());
        if header.e_machine(endian) != elf::EM_AMDGPU {
            return Err(bad("an ELF file of another machine"));
        }
        let version = header.e_ident.abi_version;
        if !VERSIONS.iter().any(|(abi, _)| *abi == version) {
            return Err(LoadError::Version { abi: version });
        }
        let machine = header.e_flags(endian).0 & MACHINE_MASK;
        if machine != target.machine {
            let found =
                Target::of_machine(machine).map_or_else(|| format!("machine {machine:#x}"), |of| of.name.into());
            return Err(LoadError::OtherTarget { found, expected: target.name });
        }
        let (mut image, mut protected, mut kinds) = (Vec::new(), Vec::new(), BTreeMap::new());
        for segment in file.elf_program_headers() {
            match segment.p_type(endian) {
                elf::PT_LOAD => {
                    let (at, size) = (segment.p_vaddr(endian), segment.p_memsz(endian));
                    let data = segment.data(endian, bytes).map_err(|()| bad("a segment beyond the file"))?;
                    let end = at.checked_add(size).filter(|end| *end <= LARGEST_IMAGE);
                    let end = end.ok_or_else(|| bad("a segment at an address that no kernel has"))?;
                    if data.len() as u64 > size {
                        return Err(bad("a segment that is larger in the file than in memory"));
                    }
                    if image.len() < end as usize {
                        image.resize(end as usize, 0);
                    }
                    image[at as usize..at as usize + data.len()].copy_from_slice(data);
                    if segment.p_flags(endian).0 & (elf::PF_W.0 | elf::PF_X.0) != elf::PF_W.0 {
                        protected.push((at, end));
                    }
                }
                elf::PT_NOTE => {
                    let Some(mut notes) = segment.notes(endian, bytes).map_err(elf_error)? else { continue };
                    while let Some(note) = notes.next().map_err(elf_error)? {
                        if note.name() == b"AMDGPU" && note.n_type(endian).0 == NT_AMDGPU_METADATA {
                            kinds = metadata(note.desc())?;
                        }
                    }
                }
                _ => {}
            }
        }
        // Segments are mapped in pages, and compilers load 12 bytes at a multiple of 16 as 16.
        image.resize(image.len().next_multiple_of(16), 0);
        let (mut kernels, mut variables) = (BTreeMap::new(), BTreeMap::new());
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let Ok(name) = symbol.name() else { continue };
            if let Some(kernel) = name.strip_suffix(".kd") {
                let of = kinds.get(kernel).cloned().unwrap_or_default();
                kernels.insert(kernel.to_string(), describe(kernel, &image, symbol.address(), of, target)?);
            } else if symbol.kind() == SymbolKind::Data && !symbol.is_undefined() {
                variables.insert(name.to_string(), (symbol.address(), symbol.size()));
            }
        }
        let mut relocations = Vec::new();
        for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let symbol = match (r_type.0, relocation.target()) {
                (R_AMDGPU_RELATIVE64, _) => Some(0),
                // Of a variable that has a name of its own, as constants have that a host may write.
                (R_AMDGPU_ABS64, RelocationTarget::Symbol(index)) => dynamic_address(&file, index),
                _ => None,
            };
            let missing = || bad(format!("a relocation at {at:#x} of a kind that is not implemented"));
            relocations.push((at, symbol.ok_or_else(missing)?.wrapping_add(relocation.addend() as u64)));
        }
        if kernels.is_empty() {
            return Err(bad("no kernel"));
        }
        let text = sections(&file);
        let named = named(&file)?;
        Ok(Self { image, protected, text, kernels, variables, named, relocations })
    }
}

/// The bytes of each parameter of the kernels in a code object, hidden ones left out, by the kernels' symbols. `None` of what is none of AMD's.
#[must_use]
pub fn parameters(bytes: &[u8]) -> Option<BTreeMap<String, Vec<u32>>> {
    let file = ElfFile64::<LittleEndian>::parse(bytes).ok()?;
    let endian = file.endian();
    let mut sizes = None;
    for segment in file.elf_program_headers() {
        let Ok(Some(mut notes)) = segment.notes(endian, bytes) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"AMDGPU" && note.n_type(endian).0 == NT_AMDGPU_METADATA {
                let of = |described: Described| {
                    let visible = described.arguments.into_iter().filter(|argument| !argument.is_hidden());
                    visible.map(|argument| argument.size).collect()
                };
                sizes = Some(metadata(note.desc()).ok()?.into_iter().map(|(name, found)| (name, of(found))).collect());
            }
        }
    }
    sizes
}

/// Address and words of each section of code.
pub(crate) fn sections<'a>(file: &impl Object<'a>) -> Vec<(u64, Vec<u32>)> {
    let of_code = file.sections().filter(|section| section.kind() == SectionKind::Text);
    let words = |data: &[u8]| data.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
    of_code.filter_map(|section| Some((section.address(), words(section.data().ok()?)))).collect()
}

/// Sections that are a linker's own.
const LINKERS: [&str; 7] = [".note", ".dynsym", ".gnu.hash", ".hash", ".dynstr", ".dynamic", ".relro_padding"];

/// What the file's symbols call, and what lies between. Without names of its own functions and variables it has no gaps: those that are its
/// alone are not known.
fn named<'a>(file: &impl Object<'a>) -> Result<Variables, LoadError> {
    let end = |at: u64, size: u64| at.checked_add(size).ok_or_else(|| bad("something that ends behind all addresses"));
    let (mut all, mut foreign) = (Vec::new(), Vec::new());
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let is_place = !symbol.is_undefined() && !matches!(symbol.kind(), SymbolKind::Section | SymbolKind::File);
        let Some(name) = symbol.name().ok().filter(|name| is_place && !name.is_empty()) else { continue };
        // What describes a kernel is none of its variables.
        let is_variable = symbol.kind() == SymbolKind::Data && !name.ends_with(".kd");
        let size = if is_variable { symbol.size() } else { 0 };
        let range = symbol.address()..end(symbol.address(), size)?;
        all.push(Variable { name: source_name(name).into_owned(), range });
        if name.ends_with(".kd") {
            foreign.push(symbol.address()..end(symbol.address(), symbol.size())?);
        }
    }
    let mut sections = Vec::new();
    for section in file.sections().filter(|section| section.address() > 0 && section.size() > 0) {
        let is_named = matches!(section.name(), Ok(".data" | ".bss")) && file.symbols().next().is_some();
        let range = section.address()..end(section.address(), section.size())?;
        if section.name().is_ok_and(|name| LINKERS.contains(&name)) {
            foreign.push(range.clone());
        }
        sections.push(Section { range, is_named });
    }
    Ok(Variables::new(all, &sections, foreign))
}

/// The address of a symbol that the file defines.
fn dynamic_address(file: &ElfFile64<'_, LittleEndian>, index: SymbolIndex) -> Option<u64> {
    let symbol = file.dynamic_symbol_table()?.symbol_by_index(index).ok()?;
    (!symbol.is_undefined()).then(|| symbol.address())
}

/// What the metadata says of a kernel.
#[derive(Clone, Default)]
struct Described {
    arguments: Vec<Argument>,
    max_block: Option<u32>,
}

fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

fn number(map: &Value, name: &str) -> Option<u32> {
    field(map, name)?.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// LLVM, "Code Object V5 Metadata".
fn metadata(bytes: &[u8]) -> Result<BTreeMap<String, Described>, LoadError> {
    const DEPTH: usize = 16;
    let root = rmpv::decode::read_value_with_max_depth(&mut &bytes[..], DEPTH)
        .map_err(|error| bad(format!("metadata: {error}")))?;
    let mut all = BTreeMap::new();
    for kernel in field(&root, "amdhsa.kernels").and_then(Value::as_array).into_iter().flatten() {
        let symbol = field(kernel, ".symbol").and_then(Value::as_str).unwrap_or_default();
        let mut arguments = Vec::new();
        for argument in field(kernel, ".args").and_then(Value::as_array).into_iter().flatten() {
            let (Some(offset), Some(size)) = (number(argument, ".offset"), number(argument, ".size")) else {
                return Err(bad(format!("metadata: an argument of {symbol} without offset or size")));
            };
            let kind = field(argument, ".value_kind").and_then(Value::as_str).unwrap_or_default().to_string();
            arguments.push(Argument { offset, size, kind });
        }
        let max_block = number(kernel, ".max_flat_workgroup_size");
        all.insert(symbol.trim_end_matches(".kd").to_string(), Described { arguments, max_block });
    }
    Ok(all)
}

fn describe(name: &str, image: &[u8], at: u64, of: Described, target: &Target) -> Result<Kernel, LoadError> {
    let word = |offset: u64| u32_at(image, at + offset);
    let properties = word(56)? as u16;
    let preload = (word(56)? >> 16) as usize;
    let wave32 = properties >> 10 & 1 == 1;
    let entry = at.wrapping_add(u64_at(image, at + 16)?);
    if entry >= image.len() as u64 {
        return Err(bad(format!("{name} begins beyond the code")));
    }
    Ok(Kernel {
        name: name.to_string(),
        static_lds: word(0)?,
        scratch: word(4)?,
        argument_bytes: word(8)?,
        arguments: of.arguments,
        lanes: if wave32 { 32 } else { 64.max(target.lanes) },
        max_block: of.max_block.unwrap_or(1024),
        entry,
        resources: [word(48)?, word(52)?, word(44)?],
        properties,
        preload: Preload { dwords: preload & 0x7f, offset: preload >> 7 },
    })
}
