//! What a solver lists: the points of its space, constants with their kind, and what words of params stand for.

use std::collections::BTreeMap;

use super::solvers::{Context, MAX_PARAMS};
use super::{Loader, MAX_LIST, Names};
use crate::Param;
use crate::constant::Constant;
use crate::error::SpecError;
use crate::expression::Expression;
use crate::format::{RawConstant, RawSize, RawSolver};
use crate::points::Points;
use crate::rules::{is_identifier, is_word};
use bluefin_common::value::Value;

/// Most points of a list.
const MAX_POINTS: usize = 16_384;

impl Loader<'_> {
    /// A space that is a list, and its params.
    pub(super) fn points(
        &self,
        raw: &RawSolver,
        listed: &[BTreeMap<String, RawSize>],
        field: &str,
        names: &mut Names,
        is_python: bool,
    ) -> Result<(Points, Vec<Param>), SpecError> {
        let alone = raw.param.is_empty() && raw.space.is_none();
        let field = &format!("{field}.points");
        self.require(alone, field, "points beside param or space", "one or the other")?;
        self.list(field, listed.len(), 1, MAX_POINTS)?;
        let keys = self.places.keys(&format!("{field}[0]"));
        self.list(&format!("{field}[0]"), keys.len(), 1, MAX_PARAMS)?;
        for key in &keys {
            self.declare(names, key, &format!("{field}[0].{key}"))?;
        }
        let point = |(index, point): (usize, &BTreeMap<String, RawSize>)| {
            let field = format!("{field}[{index}]");
            if point.len() != keys.len() || !keys.iter().all(|key| point.contains_key(key)) {
                let mut found: Vec<&str> = point.keys().map(String::as_str).collect();
                let mut expected = keys.clone();
                found.sort_unstable();
                expected.sort_unstable();
                let expected = format!("the names of the first point, {}", expected.join(" "));
                return Err(self.invalid(&field, found.join(" "), expected));
            }
            let values = keys.iter().filter_map(|key| Some((key, point.get(key)?.value())));
            values.map(|(key, value)| self.of_point(value, &format!("{field}.{key}"), is_python)).collect()
        };
        let points = listed.iter().enumerate().map(point).collect::<Result<Vec<Vec<Value>>, _>>()?;
        let points = Points::of(points);
        let params = points.params(&keys);
        Ok((points, params))
    }

    fn of_point(&self, value: Value, field: &str, is_python: bool) -> Result<Value, SpecError> {
        match &value {
            Value::Text(text) if is_python => self.require(
                is_word(text),
                field,
                text,
                "an integer, a bool, or a word of A-Z a-z 0-9 _ . + - that begins with a letter; any other text is one of [solver.constants], or what a word stands for in [solver.words]",
            )?,
            Value::Text(text) => self.require(is_identifier(text), field, text, "an integer, a bool or an identifier")?,
            Value::Int(_) | Value::Bool(_) => {}
        }
        Ok(value)
    }

    /// Constants with their kind.
    pub(super) fn constants(
        &self,
        raw: &RawSolver,
        field: &str,
        params: &[Param],
        defines: &BTreeMap<String, Expression>,
        context: &Context<'_>,
    ) -> Result<BTreeMap<String, Constant>, SpecError> {
        let field = format!("{field}.constants");
        self.list(&field, raw.constants.len(), 0, MAX_LIST)?;
        let alone = context.is_python || (raw.constants.is_empty() && raw.words.is_empty());
        self.require(alone, &field, "constants or words", "none: they are Triton's alone, others have defines")?;
        let constant = |(name, raw): (&String, &RawConstant)| {
            let field = format!("{field}.{name}");
            let free = is_identifier(name)
                && !defines.contains_key(name)
                && !params.iter().any(|param: &Param| param.name == *name);
            self.require(free, &field, name, "an identifier that is no param's and no define's name")?;
            Ok((name.clone(), self.of_kind(raw, &field)?))
        };
        raw.constants.iter().map(constant).collect()
    }

    /// What words of params stand for.
    pub(super) fn words(
        &self,
        raw: &RawSolver,
        field: &str,
        params: &[Param],
    ) -> Result<BTreeMap<String, BTreeMap<String, Constant>>, SpecError> {
        let mut words = BTreeMap::new();
        for (name, raw) in &raw.words {
            let field = format!("{field}.words.{name}");
            self.list(&field, raw.len(), 0, MAX_LIST)?;
            let param = params.iter().find(|param| param.name == *name);
            let param = param.ok_or_else(|| self.invalid(&field, name, "the name of a param"))?;
            let of = |(word, raw): (&String, &RawConstant)| {
                let field = format!("{field}.{word}");
                let known = param.values.contains(&Value::Text(word.clone()));
                self.require(known, &field, word, "a text among the values of the param")?;
                Ok((word.clone(), self.of_kind(raw, &field)?))
            };
            words.insert(name.clone(), raw.iter().map(of).collect::<Result<_, SpecError>>()?);
        }
        Ok(words)
    }

    fn of_kind(&self, raw: &RawConstant, field: &str) -> Result<Constant, SpecError> {
        let expected = "the name of a type of Triton's, such as fp16, or none = true";
        Constant::of(raw).map_err(|found| self.invalid(field, found, expected))
    }
}
