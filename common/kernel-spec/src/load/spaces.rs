//! Tuning spaces that solvers share by name, of the spec itself or of a file beside it, each with who checks its fields.

use std::collections::BTreeMap;

use super::{Loader, MAX_LIST};
use crate::Bundle;
use crate::error::SpecError;
use crate::format::{self, RawParam, RawSpace, RawSpaces, RawSpec};
use crate::place::Places;

/// The spaces that a spec may name.
pub(super) struct Spaces<'a> {
    own: &'a BTreeMap<String, RawSpace>,
    /// Those of the file, which errors are to name.
    shared: BTreeMap<String, RawSpace>,
    file: Option<Loader<'a>>,
}

/// One of them.
pub(super) struct Space<'a> {
    pub(super) raw: &'a RawSpace,
    pub(super) loader: &'a Loader<'a>,
    /// The path of its field.
    pub(super) field: String,
}

/// A field of a solver, written there or in its space.
pub(super) type Field<'a, T> = (&'a Loader<'a>, String, &'a T);

impl<'a> Spaces<'a> {
    pub(super) fn read(loader: &Loader<'_>, raw: &'a RawSpec, bundle: &'a Bundle) -> Result<Self, SpecError> {
        let mut spaces = Self { own: &raw.space, shared: BTreeMap::new(), file: None };
        // That the file comes with the spec was checked before.
        if let Some((name, text)) = raw.spaces.as_ref().and_then(|name| Some((name, bundle.files.get(name)?))) {
            let parsed: RawSpaces = format::parse(name, text)?;
            if let Some(twice) = parsed.space.keys().find(|space| raw.space.contains_key(*space)) {
                return Err(loader.invalid(&format!("space.{twice}"), twice, format!("a name that {name} has not")));
            }
            spaces.shared = parsed.space;
            spaces.file = Some(Loader { places: Places::new(name, text) });
        }
        Ok(spaces)
    }

    /// The space `name` that `field` of the spec asks for.
    pub(super) fn get<'s>(&'s self, loader: &'s Loader<'s>, field: &str, name: &str) -> Result<Space<'s>, SpecError> {
        let own = self.own.get(name).map(|raw| (raw, loader));
        let shared = || self.shared.get(name).zip(self.file.as_ref());
        let (raw, loader) = own.or_else(shared).ok_or_else(|| {
            let known: Vec<&str> = self.own.keys().chain(self.shared.keys()).map(String::as_str).collect();
            loader.invalid(field, name, format!("one of the spaces {}", known.join(" ")))
        })?;
        Ok(Space { raw, loader, field: format!("space.{name}") })
    }
}

impl<'a> Space<'a> {
    /// Its params and those of a solver: what both have is as the solver has it, what the solver adds comes last.
    pub(super) fn params(space: Option<&Self>, solver: Vec<Field<'a, RawParam>>) -> Vec<Field<'a, RawParam>> {
        let of_space = space.into_iter().flat_map(|space| {
            let fields = space.raw.param.iter().enumerate();
            fields.map(|(index, raw)| (space.loader, format!("{}.param[{index}]", space.field), raw))
        });
        merged(of_space.collect(), solver, |one, other| one.name == other.name)
    }

    /// The lines of `cost_let` of a space and a solver, likewise: what both name is as the solver has it.
    pub(super) fn lines_of_cost<'l>(
        space: Option<&Self>,
        solver: Field<'l, Vec<String>>,
    ) -> Result<Vec<Field<'l, String>>, SpecError>
    where
        'a: 'l,
    {
        let lines = |(loader, field, lines): Field<'l, Vec<String>>| {
            loader.list(&format!("{field}.cost_let"), lines.len(), 0, MAX_LIST)?;
            let fields = lines.iter().enumerate();
            Ok(fields.map(|(index, line)| (loader, format!("{field}.cost_let[{index}]"), line)).collect())
        };
        let of_space =
            space.map(|space| lines((space.loader, space.field.clone(), &space.raw.cost_let))).transpose()?;
        let name = |line: &String| line.split('=').next().map(|name| name.trim().to_string());
        Ok(merged(of_space.unwrap_or_default(), lines(solver)?, |one, other| name(one) == name(other)))
    }
}

/// The fields of a space and those of a solver: what both have is as the solver has it, what the solver adds comes last.
fn merged<'a, T>(
    of_space: Vec<Field<'a, T>>,
    solver: Vec<Field<'a, T>>,
    same: impl Fn(&T, &T) -> bool,
) -> Vec<Field<'a, T>> {
    let (common, mut merged) = (of_space.len(), of_space);
    for own in solver {
        match merged.iter_mut().take(common).find(|(_, _, known)| same(known, own.2)) {
            Some(place) => *place = own,
            None => merged.push(own),
        }
    }
    merged
}
