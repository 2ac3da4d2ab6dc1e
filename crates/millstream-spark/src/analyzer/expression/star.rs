//! `*`, `t.*`, `struct.*` and columns by regular expression.

use arrow::datatypes::DataType;
use millstream_core::{Error, Result};
use spark_connect_proto::Expression;
use spark_connect_proto::expression::{ExprType, UnresolvedFunction, UnresolvedRegex, UnresolvedStar};

use super::attribute::name_parts;
use super::{Output, Resolver};
use crate::functions::Typed;

impl Resolver<'_> {
    pub(super) fn star(&self, star: &UnresolvedStar) -> Result<Vec<Output>> {
        let visible = self.scope.columns.iter().enumerate().filter(|(_, column)| !column.hidden);
        let Some(target) = star.unparsed_target.as_deref() else {
            return visible
                .filter(|(_, column)| star.plan_id.is_none_or(|plan_id| column.plan_ids.contains(&plan_id)))
                .map(|(index, _)| self.passing(index))
                .collect();
        };
        let parts = name_parts(target.strip_suffix(".*").unwrap_or(target))?;
        let of_table: Vec<usize> =
            visible.filter(|(_, column)| self.ends_with(&column.qualifier, &parts)).map(|(index, _)| index).collect();
        if !of_table.is_empty() {
            return of_table.into_iter().map(|index| self.passing(index)).collect();
        }
        let attribute = spark_connect_proto::expression::UnresolvedAttribute {
            unparsed_identifier: target.strip_suffix(".*").unwrap_or(target).to_owned(),
            plan_id: star.plan_id,
            ..Default::default()
        };
        let base = self.attribute(&attribute).map_err(|_| {
            Error::invalid("CANNOT_RESOLVE_STAR_EXPAND", format!("cannot expand '{target}': there is no table or struct of that name"))
                .with_sqlstate("42704")
        })?;
        let DataType::Struct(fields) = &base.data_type else {
            return Err(Error::invalid("CANNOT_RESOLVE_STAR_EXPAND", format!("cannot expand '{target}': it is not a struct"))
                .with_sqlstate("42704"));
        };
        fields
            .iter()
            .map(|field| {
                let value = self.call("extract_value", vec![base.clone(), Typed::text(field.name())])?;
                Ok(Output::Column { name: field.name().clone(), value, passthrough: None })
            })
            .collect()
    }

    /// `* EXCEPT (a, s.f)`: the columns of a star without some of them, or without some of their fields.
    pub(super) fn star_except(&self, function: &UnresolvedFunction) -> Result<Vec<Output>> {
        let Some((Expression { expr_type: Some(ExprType::UnresolvedStar(star)), .. }, left_out)) = function.arguments.split_first() else {
            return Err(Error::internal("EXCEPT follows a star"));
        };
        let mut outputs = self.star(star)?;
        for column in left_out {
            let Some(ExprType::UnresolvedAttribute(attribute)) = &column.expr_type else {
                return Err(Error::internal("EXCEPT lists columns"));
            };
            let parts = name_parts(&attribute.unparsed_identifier)?;
            let whole = self.place(&parts);
            let (place, fields) = match &whole {
                Ok(place) => (*place, 0),
                Err(_) => {
                    let shorter = (1..parts.len()).rev().find_map(|end| Some((self.place(parts.get(..end)?).ok()?, parts.len() - end)));
                    match shorter {
                        Some(found) => found,
                        None => return Err(whole.err().unwrap_or_else(|| Error::internal("a column is neither found nor missing"))),
                    }
                }
            };
            let fields = parts.get(parts.len() - fields..).unwrap_or_default();
            if fields.is_empty() {
                outputs.retain(|output| !matches!(output, Output::Column { passthrough: Some(passing), .. } if *passing == place));
                continue;
            }
            for output in &mut outputs {
                if let Output::Column { value, passthrough, .. } = output
                    && *passthrough == Some(place)
                {
                    *value = self.without_field(value.clone(), fields)?;
                    *passthrough = None;
                }
            }
        }
        Ok(outputs)
    }

    /// A struct without a field, which may be in structs inside of it.
    fn without_field(&self, base: Typed, path: &[String]) -> Result<Typed> {
        match path {
            [] => Ok(base),
            [field] => self.call("drop_field", vec![base, Typed::text(field)]),
            [field, rest @ ..] => {
                let inner = self.call("extract_value", vec![base.clone(), Typed::text(field)])?;
                let inner = self.without_field(inner, rest)?;
                self.call("with_field", vec![base, Typed::text(field), inner])
            }
        }
    }

    /// The places of the columns whose whole name matches.
    pub(super) fn regex(&self, regex: &UnresolvedRegex) -> Result<Vec<usize>> {
        let pattern = regex.col_name.trim_matches('`');
        let flags = if self.settings.case_sensitive { "" } else { "(?i)" };
        let compiled = regex::Regex::new(&format!("{flags}^(?:{pattern})$")).map_err(|error| {
            Error::invalid("INVALID_REGEXP_PATTERN", format!("'{pattern}' is not a regular expression"))
                .with_sqlstate("22023")
                .caused_by(error)
        })?;
        Ok(self
            .scope
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| !column.hidden && compiled.is_match(&column.name))
            .filter(|(_, column)| regex.plan_id.is_none_or(|plan_id| column.plan_ids.contains(&plan_id)))
            .map(|(index, _)| index)
            .collect())
    }
}
