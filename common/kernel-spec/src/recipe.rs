//! What a buffer holds that is made from a recipe: which groups each row goes to, and the rows of each group put together in whole
//! blocks, as kernels that work on groups of rows take them (experts of a mixture, segments, ragged batches).
//!
//! The bytes follow from the recipe alone, on any machine: workers that make the same buffer make the same blob.

mod draws;
mod made;

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::task::Content;
use bluefin_common::value::Value;
use bytes::Bytes;

use crate::error::SpecError;
use crate::expression::{Expression, Values, push};
use crate::{BufferSpec, ContentSpec, KernelSpec, Scope, Solver};

pub(super) use made::Made;

/// Bytes of an element: recipes make INT32.
const ELEMENT: u64 = 4;
/// Parts of a buffer begin at multiples of this many elements, so that each is as aligned as a buffer is.
const ALIGNED: u64 = 64;
/// Most elements of a buffer that is made: as many as the data of a spec may have.
const MAX_ELEMENTS: u64 = (128 << 20) / ELEMENT;
/// Most groups: more than any model has experts.
const MAX_GROUPS: u64 = 1 << 16;

/// What a buffer is made of, as a spec says it.
#[derive(Clone, Debug)]
pub(super) struct RecipeSpec {
    pub(super) make: Make,
    /// Groups that rows go to.
    pub(super) groups: Expression,
}

/// A buffer with rows of another one, in the order that a third one says, which is made from a recipe.
#[derive(Clone, Debug)]
pub(super) struct RowsSpec {
    /// Index of the buffer that has the rows.
    pub(super) of: usize,
    /// That of the one that says which.
    pub(super) by: usize,
    /// Elements of a row.
    pub(super) row: Expression,
}

/// The kind of a recipe.
#[derive(Clone, Debug)]
pub(super) enum Make {
    /// The groups of each row.
    Routing {
        /// Groups a row goes to, all of them others.
        picks: Expression,
        /// How often each group is taken.
        spread: Spread,
        seed: u64,
        /// How many chosen draws a run computes; `None` for the first draw, whatever it is.
        draws: Option<u32>,
    },
    /// Of the routing in another buffer: one part for each value of the param that is the size of a block.
    Blocked {
        /// Index of the buffer with the routing.
        of: usize,
        part: Part,
        param: String,
        /// Of the param, ascending.
        sizes: Vec<i64>,
    },
}

/// How often each group is taken.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Spread {
    /// All as often.
    Uniform,
    /// The nth group n to this power times less often than the first.
    Zipf(f64),
    /// As often as these say, the last one for all further groups.
    Counts(Vec<u32>),
}

/// Which part of the blocks a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// Rows of each group, which end with the number of all rows where a block is not full.
    Rows,
    /// The group of each block.
    Groups,
    /// How many places there are in all blocks that hold something.
    Count,
}

/// A recipe for one problem, all of whose numbers are known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Recipe {
    routing: Routing,
    /// The part, and for each size of a block how many elements its part of the buffer has.
    blocked: Option<(Part, Vec<(u64, u64)>)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Routing {
    rows: u64,
    picks: u64,
    groups: u64,
    /// Bits of how often each group is taken; empty where all are as often.
    weights: Vec<u64>,
    seed: u64,
    draws: Option<u32>,
}

impl KernelSpec {
    /// The blobs of buffers that are made from recipes, for the problem of `scope`. The worker that hands out its task puts them into the store.
    ///
    /// # Errors
    /// A number that has no value or is out of range.
    pub fn made(&self, scope: &Scope) -> Result<Vec<Bytes>, SpecError> {
        let made = self.buffers.iter().filter(|buffer| matches!(buffer.content, ContentSpec::Made(_)));
        made.map(|buffer| Ok(self.make(buffer, scope)?.1)).collect()
    }

    /// The rows of another buffer that `buffer` holds, and its elements.
    pub(super) fn rows(
        &self,
        buffer: &BufferSpec,
        spec: &RowsSpec,
        scope: &Scope,
    ) -> Result<(Content, u64), SpecError> {
        let by = self.order(buffer, spec)?;
        let recipe = self.recipe(by, scope)?;
        let mut values = scope.values.clone();
        let row = spec.row.bounded(&mut values, 1, u32::MAX.into())?;
        let of = self.buffers.get(spec.of).ok_or_else(|| buffer.length.error("found rows of no buffer"))?;
        let types = [buffer.data_type.evaluate(&mut values)?, of.data_type.evaluate(&mut values)?];
        if let [own, other] = types
            && own != other
        {
            return Err(buffer.length.error(format!("found rows of {other} as {own}, expected the same type")));
        }
        // A row for each place, so that the number of all places is none.
        let (length, rows) = (of.length.bounded(&mut values, 1, u64::MAX)?, recipe.routing.routes());
        if length != rows.saturating_mul(row) {
            let expected = format!("{rows} rows of {row}, as many as are routed");
            return Err(buffer.length.error(format!("found {length} elements of {}, expected {expected}", of.name)));
        }
        if let (Some((_, lengths)), Some(param)) = (&recipe.blocked, by.param()) {
            let mut values = scope.values.clone();
            for (size, length) in lengths {
                push(&mut values, param, &Value::Int(i64::try_from(*size).unwrap_or(i64::MAX)));
                let found = buffer.length.bounded(&mut values, 1, u64::MAX)?;
                if found != length.saturating_mul(row) {
                    let expected = format!("{length} rows of {row}, as many as {} has for blocks of {size}", by.name);
                    return Err(buffer.length.error(format!("found {found} elements, expected {expected}")));
                }
            }
        }
        let of = u16::try_from(spec.of).unwrap_or(u16::MAX);
        let content = Content::Rows { of, rows: self.make(by, scope)?.0, row: u32::try_from(row).unwrap_or(u32::MAX) };
        Ok((content, recipe.length().saturating_mul(row)))
    }

    /// The buffer that says which rows `buffer` has.
    fn order(&self, buffer: &BufferSpec, spec: &RowsSpec) -> Result<&BufferSpec, SpecError> {
        self.buffers.get(spec.by).ok_or_else(|| buffer.length.error("found rows by no buffer"))
    }

    /// The blob of a buffer that is made, with its name.
    pub(super) fn make(&self, buffer: &BufferSpec, scope: &Scope) -> Result<(ArtifactRef, Bytes), SpecError> {
        self.made.get(&self.recipe(buffer, scope)?).map_err(|message| buffer.length.error(message))
    }

    /// The recipe of a buffer with its numbers.
    pub(super) fn recipe(&self, buffer: &BufferSpec, scope: &Scope) -> Result<Recipe, SpecError> {
        let ContentSpec::Made(spec) = &buffer.content else {
            return Err(buffer.length.error("found no recipe, expected one"));
        };
        let mut values = scope.values.clone();
        let (of, blocked) = match &spec.make {
            Make::Routing { .. } => (buffer, None),
            Make::Blocked { of, part, param, sizes } => {
                let routing = self.buffers.get(*of).ok_or_else(|| buffer.length.error("found no routing"))?;
                let length = |size: &i64| {
                    push(&mut values, param, &Value::Int(*size));
                    let length = buffer.length.bounded(&mut values, 1, MAX_ELEMENTS)?;
                    // Loading has bounded the size.
                    Ok((u64::try_from(*size).unwrap_or(1), length))
                };
                let lengths = sizes.iter().map(length).collect::<Result<Vec<_>, SpecError>>()?;
                (routing, Some((*part, lengths)))
            }
        };
        Ok(Recipe { routing: routing(of, spec, scope)?, blocked })
    }

    /// How many draws a run of a candidate computes, which all routings have.
    pub(super) fn draws(&self) -> u32 {
        self.buffers.iter().map(BufferSpec::draws).max().unwrap_or(1)
    }

    /// Where the part of a candidate begins, in bytes, of each buffer that has parts by the size of a block or by the `draw`; in the order of
    /// buffers.
    pub(super) fn parts(
        &self,
        (solver, params): (&Solver, &[Value]),
        draw: u32,
        scope: &Scope,
    ) -> Result<Vec<Option<u64>>, SpecError> {
        let place = |buffer: &BufferSpec| {
            // A row for each element of the buffer that says which.
            let (of, bytes) = match &buffer.content {
                ContentSpec::Rows(spec) => {
                    let mut values = scope.values.clone();
                    let row = spec.row.bounded(&mut values, 1, u32::MAX.into())?;
                    let size = buffer.data_type.evaluate(&mut values)?.on(scope.target.arch()).size() as u64;
                    (self.order(buffer, spec)?, row.saturating_mul(size))
                }
                ContentSpec::Made(_) => (buffer, ELEMENT),
                ContentSpec::Plain(_) | ContentSpec::Data(_) => return Ok(None),
            };
            let Some(param) = of.param() else {
                // The first draw of a routing is where the buffer begins.
                let before = if draw == 0 { None } else { Some(self.recipe(of, scope)?.of_draws(draw)) };
                return Ok(before.map(|elements| elements.saturating_mul(bytes)));
            };
            let named = solver.params.iter().zip(params).find(|(own, _)| own.name == param);
            let Some((_, Value::Int(size))) = named else { return Ok(None) };
            Ok(self.recipe(of, scope)?.offset(*size, draw).map(|elements| elements.saturating_mul(bytes)))
        };
        self.buffers.iter().map(place).collect()
    }
}

impl BufferSpec {
    /// How many draws it holds of a routing; one where it has none.
    pub(super) fn draws(&self) -> u32 {
        match &self.content {
            ContentSpec::Made(spec) => match &spec.make {
                Make::Routing { draws, .. } => draws.unwrap_or(1),
                Make::Blocked { .. } => 1,
            },
            ContentSpec::Plain(_) | ContentSpec::Data(_) | ContentSpec::Rows(_) => 1,
        }
    }

    /// The param that is the size of its blocks, where it is made of those.
    fn param(&self) -> Option<&str> {
        match &self.content {
            ContentSpec::Made(spec) => match &spec.make {
                Make::Blocked { param, .. } => Some(param),
                Make::Routing { .. } => None,
            },
            ContentSpec::Plain(_) | ContentSpec::Data(_) | ContentSpec::Rows(_) => None,
        }
    }
}

/// The numbers of the routing in `buffer`, whose groups `spec` says as well.
fn routing(buffer: &BufferSpec, spec: &RecipeSpec, scope: &Scope) -> Result<Routing, SpecError> {
    let mut values: Values = scope.values.clone();
    let groups = spec.groups.bounded(&mut values, 1, MAX_GROUPS)?;
    let ContentSpec::Made(own) = &buffer.content else { return Err(buffer.length.error("found no routing")) };
    let Make::Routing { picks, spread, seed, draws } = &own.make else {
        return Err(buffer.length.error("found no routing"));
    };
    let own_groups = own.groups.bounded(&mut values, 1, MAX_GROUPS)?;
    if own_groups != groups {
        return Err(spec.groups.error(format!("found {groups} groups, expected {own_groups} as {} has", buffer.name)));
    }
    let most = picks.bounded(&mut values, 1, groups)?;
    let length = buffer.length.bounded(&mut values, 1, MAX_ELEMENTS)?;
    if !length.is_multiple_of(most) {
        return Err(buffer
            .length
            .error(format!("found {length} elements, expected a multiple of {most} groups a row")));
    }
    let weights = spread.weights(groups);
    Ok(Routing { rows: length / most, picks: most, groups, weights, seed: *seed, draws: *draws })
}

impl Spread {
    /// Bits of how often each group is taken; empty where all are as often.
    fn weights(&self, groups: u64) -> Vec<u64> {
        let weight = |group: u64| match self {
            Self::Uniform => 1.0,
            Self::Zipf(exponent) => libm::pow((group + 1) as f64, -exponent),
            Self::Counts(counts) => {
                let at = usize::try_from(group).ok().and_then(|at| counts.get(at)).or(counts.last());
                f64::from(at.copied().unwrap_or(1))
            }
        };
        if *self == Self::Uniform { Vec::new() } else { (0..groups).map(|group| weight(group).to_bits()).collect() }
    }
}

impl Recipe {
    /// Elements of the buffer.
    pub(super) fn length(&self) -> u64 {
        match (&self.blocked, self.draws()) {
            (None, 1) => self.routing.routes(),
            (_, draws) => self.of_draws(draws),
        }
    }

    /// How many draws it holds.
    pub(super) fn draws(&self) -> u32 {
        self.routing.draws.unwrap_or(1)
    }

    /// Elements of so many draws.
    fn of_draws(&self, draws: u32) -> u64 {
        let one = match &self.blocked {
            None => self.routing.routes().next_multiple_of(ALIGNED),
            Some((_, lengths)) => lengths.iter().map(|(_, length)| length.next_multiple_of(ALIGNED)).sum(),
        };
        one.saturating_mul(draws.into())
    }

    /// The first element of the part for blocks of that size of a draw.
    fn offset(&self, size: i64, draw: u32) -> Option<u64> {
        let (_, lengths) = self.blocked.as_ref()?;
        let mut offset = self.of_draws(draw);
        for (own, length) in lengths {
            if i64::try_from(*own) == Ok(size) {
                return Some(offset);
            }
            offset += length.next_multiple_of(ALIGNED);
        }
        None
    }

    /// Whether a buffer may be as long.
    fn check_length(&self) -> Result<(), String> {
        match self.length() {
            0..=MAX_ELEMENTS => Ok(()),
            found => Err(format!("found {found} elements, expected at most {MAX_ELEMENTS}")),
        }
    }

    /// The elements, little endian; or why the buffer is too short or too long for what it is to hold.
    fn bytes(&self, drawn: &[Vec<u32>]) -> Result<Vec<u8>, String> {
        let mut elements = Vec::new();
        for routed in drawn {
            match &self.blocked {
                None => elements.extend(routed),
                Some((part, lengths)) => {
                    let by_group = self.routing.by_group(routed);
                    let total = u32::try_from(routed.len()).unwrap_or(u32::MAX);
                    for (size, length) in lengths {
                        elements.extend(blocks(&by_group, total, *part, *size, *length)?);
                    }
                }
            }
            if self.draws() > 1 {
                elements.resize(elements.len().next_multiple_of(ALIGNED as usize), 0);
            }
        }
        Ok(elements.into_iter().flat_map(u32::to_le_bytes).collect())
    }
}

/// The part of a buffer for blocks of one size.
fn blocks(by_group: &[Vec<u32>], total: u32, part: Part, block: u64, length: u64) -> Result<Vec<u32>, String> {
    let size = usize::try_from(block).unwrap_or(1).max(1);
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for (group, own) in by_group.iter().enumerate() {
        let end = rows.len() + own.len().next_multiple_of(size);
        rows.extend_from_slice(own);
        rows.resize(end, total);
        groups.resize(end / size, u32::try_from(group).unwrap_or(0));
    }
    let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let (mut held, fill) = match part {
        Part::Rows => (rows, total),
        Part::Groups => (groups, 0),
        Part::Count => (vec![count], count),
    };
    if held.len() as u64 > length {
        return Err(format!("found {length} elements, expected at least {} for blocks of {block}", held.len()));
    }
    held.resize(usize::try_from(length.next_multiple_of(ALIGNED)).unwrap_or(held.len()), fill);
    Ok(held)
}

impl Routing {
    /// Rows times the groups of each.
    fn routes(&self) -> u64 {
        self.rows * self.picks
    }

    /// The groups of all rows of the draw that is made from `seed`, row by row: each row's are others, drawn by weight without putting back.
    fn groups_of_rows(&self, seed: u64) -> Vec<u32> {
        let picks = usize::try_from(self.picks).unwrap_or(1);
        let mut random = SplitMix(seed);
        let mut drawn: Vec<(f64, u32)> = Vec::new();
        let mut routed = Vec::new();
        for _ in 0..self.rows {
            drawn.clear();
            for group in 0..self.groups {
                let weight = usize::try_from(group).ok().and_then(|at| self.weights.get(at));
                let weight = weight.map_or(1.0, |bits| f64::from_bits(*bits));
                // The least of exponential times at such rates is each group's with a probability that is its weight's share.
                let time = -libm::log(random.unit()) / weight;
                drawn.push((time, u32::try_from(group).unwrap_or(0)));
            }
            if picks < drawn.len() {
                drawn.select_nth_unstable_by(picks - 1, |one, other| {
                    one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
                });
            }
            drawn.truncate(picks);
            drawn.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
            routed.extend(drawn.iter().map(|(_, group)| *group));
        }
        routed
    }

    /// Places of each group in the routing, in their order.
    fn by_group(&self, routed: &[u32]) -> Vec<Vec<u32>> {
        let mut by_group = vec![Vec::new(); usize::try_from(self.groups).unwrap_or(0)];
        for (place, group) in routed.iter().enumerate() {
            if let Some(own) = usize::try_from(*group).ok().and_then(|group| by_group.get_mut(group)) {
                own.push(u32::try_from(place).unwrap_or(u32::MAX));
            }
        }
        by_group
    }
}

/// Random numbers: Steele, Lea and Flood, "Fast splittable pseudorandom number generators".
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Above 0 and below 1.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }
}

#[cfg(test)]
mod tests;
