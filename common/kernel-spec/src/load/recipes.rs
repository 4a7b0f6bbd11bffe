//! Recipes of buffers, which are read once the params of solvers are known.

use std::collections::BTreeSet;

use super::{Loader, MAX_LIST, Names};
use crate::error::SpecError;
use crate::format::{RawBuffer, RawRecipe, RawSpec, RawSpread};
use crate::recipe::{Make, Part, RecipeSpec, RowsSpec, Spread};
use crate::{ArgumentSpec, BufferSpec, ContentSpec, Solver, TypeOf};
use bluefin_common::problem::DataType;
use bluefin_common::task::Role;
use bluefin_common::value::Value;

/// Largest size of a block.
const MAX_BLOCK: i64 = 4096;
/// Most counts of a list: one for each expert of any model.
const MAX_COUNTS: usize = 1 << 16;
/// Most draws that a run computes.
const MAX_DRAWS: u32 = 16;
/// Greatest exponent of a Zipf distribution.
const MAX_EXPONENT: f64 = 16.0;

impl Loader<'_> {
    /// Reads the recipes of buffers into them.
    pub(super) fn recipes(
        &self,
        raw: &RawSpec,
        names: &Names,
        solvers: &[Solver],
        buffers: &mut [BufferSpec],
    ) -> Result<(), SpecError> {
        for (index, own) in raw.buffer.iter().enumerate() {
            let (Some(recipe), Some(buffer)) = (&own.recipe, buffers.get_mut(index)) else { continue };
            let field = format!("buffer[{index}]");
            if recipe.copy_of.is_some() {
                self.require(own.role == Role::Input, &format!("{field}.role"), "another role", "input")?;
                let rows = self.rows(recipe, index, &format!("{field}.recipe"), raw, names)?;
                let mut names = names.clone();
                if let Some(param) = raw.buffer.get(rows.by).and_then(|by| by.recipe.as_ref()?.block.as_ref()) {
                    names.insert(param.clone());
                    self.check_users(index, param, &format!("{field}.recipe"), solvers)?;
                }
                buffer.length = self.expression(&own.length, &format!("{field}.length"), &names)?;
                buffer.content = ContentSpec::Rows(Box::new(rows));
                continue;
            }
            let is_int32 = matches!(buffer.data_type, TypeOf::Fixed(DataType::Int32));
            self.require(is_int32, &format!("{field}.type"), &own.r#type, "INT32: recipes make no other type")?;
            self.require(own.role == Role::Input, &format!("{field}.role"), "another role", "input")?;
            let field = format!("{field}.recipe");
            let make = self.make(recipe, &field, raw, names, solvers)?;
            let mut names = names.clone();
            if let Make::Blocked { param, .. } = &make {
                // Where it is known, it is the spec's own, which loading the params has refused.
                names.insert(param.clone());
                self.check_users(index, param, &field, solvers)?;
            }
            let lacks = || self.invalid(&format!("{field}.groups"), "nothing", "how many groups there are");
            let groups = recipe.groups.as_ref().ok_or_else(lacks)?;
            let groups = self.expression(groups, &format!("{field}.groups"), &names)?;
            let is_plain = recipe.by.is_none() && recipe.row.is_none();
            self.require(is_plain, &field, "by or row", "none of them: they are of rows of another buffer")?;
            buffer.length = self.expression(&own.length, &format!("buffer[{index}].length"), &names)?;
            buffer.content = ContentSpec::Made(Box::new(RecipeSpec { make, groups }));
        }
        self.draws(raw, buffers, solvers)
    }

    /// Whether a run can compute as many draws as the routings have.
    fn draws(&self, raw: &RawSpec, buffers: &[BufferSpec], solvers: &[Solver]) -> Result<(), SpecError> {
        let routings = raw.buffer.iter().zip(buffers).enumerate();
        let routings = routings.filter(|(_, (own, _))| own.recipe.as_ref().is_some_and(|own| own.routing.is_some()));
        let mut first = None;
        for (index, (_, buffer)) in routings {
            let (draws, field) = (buffer.draws(), format!("buffer[{index}].recipe.draws"));
            let expected = format!("as many as the first routing has: {}", first.unwrap_or(draws));
            self.require(*first.get_or_insert(draws) == draws, &field, &draws.to_string(), &expected)?;
            if let Some(both) = buffers.iter().find(|buffer| draws > 1 && buffer.role == Role::InOut) {
                let expected = format!("1: the next draw would find in {} what the one before it wrote", both.name);
                return Err(self.invalid(&field, draws.to_string(), expected));
            }
            let arguments = solvers.iter().flat_map(|solver| &solver.launches).flat_map(|launch| &launch.arguments);
            let is_cut =
                |argument: &ArgumentSpec| matches!(argument, ArgumentSpec::Part(own, _) if usize::from(*own) == index);
            let fits = draws == 1 || !arguments.flat_map(ArgumentSpec::leaves).any(is_cut);
            let expected = "1: an argument begins at an offset of the routing, which is of the first draw";
            self.require(fits, &field, &draws.to_string(), expected)?;
        }
        Ok(())
    }

    fn make(
        &self,
        recipe: &RawRecipe,
        field: &str,
        raw: &RawSpec,
        names: &Names,
        solvers: &[Solver],
    ) -> Result<Make, SpecError> {
        let of = [(&recipe.rows_of, Part::Rows), (&recipe.groups_of, Part::Groups), (&recipe.count_of, Part::Count)];
        let said: Vec<(&String, Part)> =
            of.into_iter().filter_map(|(name, part)| Some((name.as_ref()?, part))).collect();
        match (recipe.routing, said.as_slice()) {
            (Some(routing), []) => self.routing(recipe, routing, field, names),
            (None, [(name, part)]) => self.blocked(recipe, (name, *part), field, raw, solvers),
            _ => {
                Err(self.invalid(field, "several or none", "one of routing, rows_of, groups_of, count_of and copy_of"))
            }
        }
    }

    /// Rows of a buffer before that at `index`.
    fn rows(
        &self,
        recipe: &RawRecipe,
        index: usize,
        field: &str,
        raw: &RawSpec,
        names: &Names,
    ) -> Result<RowsSpec, SpecError> {
        let others = [&recipe.rows_of, &recipe.groups_of, &recipe.count_of, &recipe.block];
        let is_alone = recipe.routing.is_none()
            && others.iter().all(|other| other.is_none())
            && recipe.groups.is_none()
            && recipe.picks.is_none()
            && recipe.exponent.is_none()
            && recipe.counts.is_none()
            && recipe.seed.is_none()
            && recipe.draws.is_none();
        self.require(is_alone, field, "others", "copy_of, by and row alone")?;
        let before = raw.buffer.get(..index).unwrap_or_default();
        let place = |name: &Option<String>, is_made: bool| {
            let is_it = |buffer: &RawBuffer| {
                let made = buffer.recipe.as_ref().is_some_and(|own| own.rows_of.is_some());
                let is_source = buffer.recipe.is_none() && buffer.role != Role::Output;
                Some(&buffer.name) == name.as_ref() && made == is_made && (is_made || is_source)
            };
            let found = name.clone().unwrap_or_else(|| "nothing".to_string());
            let expected = match is_made {
                true => "by: the name of a buffer before it with the rows of groups (rows_of)",
                false => "copy_of: the name of an input before it that is made of nothing",
            };
            before.iter().position(is_it).ok_or_else(|| self.invalid(field, found, expected))
        };
        let (of, by) = (place(&recipe.copy_of, false)?, place(&recipe.by, true)?);
        let lacks = || self.invalid(&format!("{field}.row"), "nothing", "how many elements a row has");
        let row = self.expression(recipe.row.as_ref().ok_or_else(lacks)?, &format!("{field}.row"), names)?;
        Ok(RowsSpec { of, by, row })
    }

    fn routing(&self, recipe: &RawRecipe, routing: RawSpread, field: &str, names: &Names) -> Result<Make, SpecError> {
        let lacks = |name: &str, expected: &str| self.invalid(&format!("{field}.{name}"), "nothing", expected);
        let picks = recipe.picks.as_ref().ok_or_else(|| lacks("picks", "how many groups a row goes to"))?;
        self.require(recipe.block.is_none(), &format!("{field}.block"), "a block", "none: a routing has no blocks")?;
        let is_of = |name: &str, said: bool, own: RawSpread| {
            let expected = format!("none: it is for another routing than {name}");
            self.require(!said || routing == own, field, name, &expected)
        };
        is_of("exponent", recipe.exponent.is_some(), RawSpread::Zipf)?;
        is_of("counts", recipe.counts.is_some(), RawSpread::Counts)?;
        let spread = match routing {
            RawSpread::Uniform => Spread::Uniform,
            RawSpread::Zipf => {
                let exponent = recipe.exponent.unwrap_or(1.0);
                let fits = (0.0..=MAX_EXPONENT).contains(&exponent);
                self.require(fits, &format!("{field}.exponent"), &exponent.to_string(), "0 to 16")?;
                Spread::Zipf(exponent)
            }
            RawSpread::Counts => {
                let counts = recipe.counts.as_ref().ok_or_else(|| lacks("counts", "how often each group is taken"))?;
                self.list(&format!("{field}.counts"), counts.len(), 1, MAX_COUNTS)?;
                Spread::Counts(counts.clone())
            }
        };
        let picks = self.expression(picks, &format!("{field}.picks"), names)?;
        let draws = recipe.draws.unwrap_or(1);
        self.require(
            (1..=MAX_DRAWS).contains(&draws),
            &format!("{field}.draws"),
            &draws.to_string(),
            &format!("1 to {MAX_DRAWS}"),
        )?;
        Ok(Make::Routing { picks, spread, seed: recipe.seed.unwrap_or(0), draws: recipe.draws })
    }

    fn blocked(
        &self,
        recipe: &RawRecipe,
        (of, part): (&str, Part),
        field: &str,
        raw: &RawSpec,
        solvers: &[Solver],
    ) -> Result<Make, SpecError> {
        let is_routing =
            |buffer: &RawBuffer| buffer.name == of && buffer.recipe.as_ref().is_some_and(|own| own.routing.is_some());
        let index = raw.buffer.iter().position(is_routing);
        let index = index.ok_or_else(|| self.invalid(field, of, "the name of a buffer with a routing"))?;
        let plain = recipe.picks.is_none()
            && recipe.exponent.is_none()
            && recipe.counts.is_none()
            && recipe.seed.is_none()
            && recipe.draws.is_none();
        self.require(plain, field, "picks, exponent, counts, seed or draws", "none of them: they are the routing's")?;
        let block = format!("{field}.block");
        let param = recipe
            .block
            .clone()
            .ok_or_else(|| self.invalid(&block, "nothing", "the param that is the size of a block"))?;
        let own = solvers.iter().flat_map(|solver| &solver.params).filter(|own| own.name == param);
        let values: Vec<_> = own.flat_map(|own| &own.values).collect();
        self.require(!values.is_empty(), &block, &param, "the name of a param")?;
        let mut sizes = BTreeSet::new();
        for value in values {
            let size = if let Value::Int(size) = value { Some(*size) } else { None };
            let size = size.filter(|size| (1..=MAX_BLOCK).contains(size));
            let expected = format!("a param whose values are whole numbers from 1 to {MAX_BLOCK}");
            sizes.insert(size.ok_or_else(|| self.invalid(&block, value.to_string(), expected))?);
        }
        self.list(&block, sizes.len(), 1, MAX_LIST)?;
        Ok(Make::Blocked { of: index, part, param, sizes: sizes.into_iter().collect() })
    }

    /// Whoever launches with parts of a buffer has the param that says which.
    fn check_users(&self, index: usize, param: &str, field: &str, solvers: &[Solver]) -> Result<(), SpecError> {
        for solver in solvers {
            let arguments = solver.launches.iter().flat_map(|launch| &launch.arguments);
            let mut arguments = arguments.flat_map(ArgumentSpec::leaves);
            let is_whole = |argument: &&ArgumentSpec| match *argument {
                ArgumentSpec::Buffer(own) => usize::from(*own) == index,
                ArgumentSpec::Tensor(tensor) => usize::from(tensor.buffer) == index,
                _ => false,
            };
            let is_cut =
                |argument: &ArgumentSpec| matches!(argument, ArgumentSpec::Part(own, _) if usize::from(*own) == index);
            let has = solver.params.iter().any(|own| own.name == param);
            let expected = format!("a param {param} of {}, which launches with the buffer", solver.name);
            self.require(has || arguments.clone().find(is_whole).is_none(), field, "none", &expected)?;
            let expected = format!("no offset in the arguments of {}: the part is that of {param}", solver.name);
            self.require(!arguments.any(is_cut), field, "an offset", &expected)?;
        }
        Ok(())
    }
}
