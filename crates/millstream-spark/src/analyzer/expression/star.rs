//! `*`, `t.*`, `struct.*` and columns by regular expression.

use arrow::datatypes::DataType;
use millstream_core::{Error, Result};
use spark_connect_proto::expression::{UnresolvedRegex, UnresolvedStar};

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
