//! Operations that name, order and retype the columns of a frame.

use arrow::datatypes::{DataType, Field};
use millstream_core::{Error, Result};
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::{Drop, SubqueryAlias, ToDf, ToSchema, WithColumns, WithColumnsRenamed};

use super::Attribute;
use super::columns::{already_exists, item, project};
use super::expression::{Resolver, Scope, name_parts};
use super::gather::incomplete;
use super::project::Wanted;
use super::relation::{Analyzer, Node};
use crate::functions::cast::CastMode;
use crate::functions::{Typed, cast};
use crate::types;

impl Analyzer<'_> {
    /// `df.alias("t")`, `(SELECT …) AS t`.
    pub(super) fn subquery_alias(&self, alias: &SubqueryAlias, outer: Option<&Scope<'_>>) -> Result<Node> {
        let mut node = self.input(alias.input.as_deref(), outer)?.closed();
        let mut qualifier = alias.qualifier.clone();
        qualifier.push(alias.alias.clone());
        for column in &mut node.columns {
            column.qualifier.clone_from(&qualifier);
        }
        Ok(node)
    }

    /// `withColumns`: columns of the same name are replaced where they are, others are added.
    pub(super) fn with_columns(&self, with: &WithColumns, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(with.input.as_deref(), outer)?;
        let mut names: Vec<&str> = Vec::with_capacity(with.aliases.len());
        let mut replaced: Vec<Option<Vec<usize>>> = Vec::with_capacity(with.aliases.len());
        for alias in &with.aliases {
            let [name] = alias.name.as_slice() else {
                return Err(Error::invalid("INVALID_PLAN_INPUT", "each new column has one name").with_sqlstate("42000"));
            };
            if names.iter().any(|known| self.same(known, name)) {
                return Err(already_exists(name));
            }
            names.push(name);
            let places: Vec<usize> = input
                .columns
                .iter()
                .enumerate()
                .filter(|(_, column)| !column.hidden && self.same(&column.name, name))
                .map(|(index, _)| index)
                .collect();
            replaced.push((!places.is_empty()).then_some(places));
        }
        let by = |alias: usize| {
            let alias = with.aliases.get(alias)?;
            let value = alias.expr.as_deref()?;
            Some(Wanted::Value { name: alias.name.first()?, value, metadata: alias.metadata.as_deref() })
        };
        let mut wanted: Vec<Wanted<'_>> = Vec::with_capacity(input.columns.len());
        for (index, column) in input.columns.iter().enumerate() {
            if column.hidden {
                continue;
            }
            match replaced.iter().position(|places| places.as_ref().is_some_and(|places| places.contains(&index))) {
                Some(alias) => wanted.push(by(alias).ok_or_else(|| incomplete("the value of a column"))?),
                None => wanted.push(Wanted::Column(index)),
            }
        }
        for (alias, places) in replaced.iter().enumerate() {
            if places.is_none() {
                wanted.push(by(alias).ok_or_else(|| incomplete("the value of a column"))?);
            }
        }
        self.select(input, &wanted, outer)
    }

    /// `withColumnRenamed`: names that are not there are passed over.
    pub(super) fn with_columns_renamed(&self, renamed: &WithColumnsRenamed, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(renamed.input.as_deref(), outer)?;
        let map = &renamed.rename_columns_map;
        let renames: Vec<(&str, &str)> = if renamed.renames.is_empty() {
            map.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect()
        } else {
            renamed.renames.iter().map(|rename| (rename.col_name.as_str(), rename.new_col_name.as_str())).collect()
        };
        // Each applies to the outcome of those before it.
        let mut names: Vec<Option<String>> = vec![None; input.columns.len()];
        for (from, to) in renames {
            for (column, name) in input.columns.iter().zip(&mut names) {
                if !column.hidden && self.same(name.as_ref().unwrap_or(&column.name), from) {
                    *name = Some(to.to_owned());
                }
            }
        }
        self.renamed(input, names)
    }

    /// `toDF(names…)`.
    pub(super) fn to_df(&self, to: &ToDf, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(to.input.as_deref(), outer)?;
        let count = input.visible().count();
        if count != to.column_names.len() {
            return Err(Error::invalid(
                "ASSIGNMENT_ARITY_MISMATCH",
                format!("{} names are given for {count} columns", to.column_names.len()),
            )
            .with_sqlstate("42802"));
        }
        let mut given = to.column_names.iter();
        let names = input.columns.iter().map(|column| if column.hidden { None } else { given.next().cloned() }).collect();
        self.renamed(input, names)
    }

    /// Columns with a name are new columns of that name, the others pass.
    fn renamed(&self, input: Node, names: Vec<Option<String>>) -> Result<Node> {
        let mut columns: Vec<Attribute> = Vec::with_capacity(input.columns.len());
        let mut items = Vec::with_capacity(input.columns.len());
        for (column, name) in input.columns.iter().zip(names) {
            match name {
                Some(name) => {
                    let renamed = Attribute::of(name, &column.typed());
                    items.push(item(&column.typed(), &renamed.internal, &input.plan)?);
                    columns.push(renamed);
                }
                None if column.hidden => {}
                None => {
                    items.push(column.column());
                    columns.push(column.clone());
                }
            }
        }
        let below = super::extend::below(&input, &columns);
        Ok(Node { plan: project(input.plan, items)?, columns, below, grouped: None })
    }

    /// `drop`: what is not there is passed over.
    pub(super) fn drop_columns(&self, drop: &Drop, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(drop.input.as_deref(), outer)?;
        let scope = Scope { columns: &input.columns, ..Scope::default() };
        let mut dropped: Vec<&str> = Vec::new();
        for expression in &drop.columns {
            if let Some(ExprType::UnresolvedAttribute(attribute)) = &expression.expr_type
                && attribute.plan_id.is_none()
            {
                let parts = name_parts(&attribute.unparsed_identifier)?;
                match Resolver::new(self.settings, &scope, self).place(&parts) {
                    Ok(index) => dropped.extend(input.columns.get(index).map(|column| column.internal.as_str())),
                    Err(error) if error.code().starts_with("UNRESOLVED_COLUMN") => {}
                    Err(error) => return Err(error),
                }
                continue;
            }
            match self.value(expression, &scope) {
                Ok(Typed { expr: datafusion::logical_expr::Expr::Column(column), .. }) => {
                    dropped.extend(input.columns.iter().find(|known| known.internal == column.name).map(|known| known.internal.as_str()));
                }
                Ok(_) => {}
                Err(error)
                    if ["CANNOT_RESOLVE_DATAFRAME_COLUMN", "UNRESOLVED_COLUMN"].iter().any(|code| error.code().starts_with(code)) => {}
                Err(error) => return Err(error),
            }
        }
        for name in &drop.column_names {
            dropped.extend(input.columns.iter().filter(|column| self.same(&column.name, name)).map(|column| column.internal.as_str()));
        }
        if dropped.is_empty() {
            return Ok(input);
        }
        let columns: Vec<Attribute> =
            input.columns.iter().filter(|column| !column.hidden && !dropped.contains(&column.internal.as_str())).cloned().collect();
        let below = super::extend::below(&input, &columns);
        let plan = project(input.plan, columns.iter().map(Attribute::column).collect())?;
        Ok(Node { plan, columns, below, grouped: None })
    }

    /// `df.to(schema)`: columns are taken by name and cast, missing ones are null if they may be.
    pub(super) fn to_schema(&self, to: &ToSchema, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(to.input.as_deref(), outer)?;
        let schema = types::from_proto(to.schema.as_ref().ok_or_else(|| incomplete("the schema"))?)?;
        let DataType::Struct(fields) = schema.data_type() else {
            return Err(Error::invalid("INVALID_PLAN_INPUT", "a schema is a struct").with_sqlstate("42000"));
        };
        let mut columns: Vec<Attribute> = Vec::with_capacity(fields.len());
        let mut items = Vec::with_capacity(fields.len());
        for field in fields {
            let mut found = input.visible().filter(|column| self.same(&column.name, field.name()));
            let value = match (found.next(), found.next()) {
                (Some(column), None) => self.reconciled(column.typed(), field, &[field.name().clone()])?,
                (Some(column), Some(_)) => {
                    return Err(Error::invalid("AMBIGUOUS_COLUMN_OR_FIELD", format!("there are several columns `{}`", column.name))
                        .with_sqlstate("42702"));
                }
                (None, _) if field.is_nullable() => Typed::null(field.data_type()),
                (None, _) => return Err(not_nullable(&[field.name().clone()])),
            };
            let mut metadata = value.metadata.clone();
            metadata.extend(field.metadata().clone());
            let value = value.with_metadata(metadata);
            let column = Attribute::of(field.name(), &value);
            items.push(item(&value, &column.internal, &input.plan)?);
            columns.push(column);
        }
        Ok(Node::new(project(input.plan, items)?, columns))
    }

    /// A value under the type of a field; fields of structs are taken by name.
    fn reconciled(&self, value: Typed, field: &Field, path: &[String]) -> Result<Typed> {
        if value.nullable && !field.is_nullable() {
            return Err(not_nullable(path));
        }
        if value.data_type == *field.data_type() {
            return Ok(value);
        }
        cast::explicit(value, field.data_type(), if self.settings.ansi { CastMode::Ansi } else { CastMode::Legacy }, self.settings).map_err(
            |_| {
                Error::invalid(
                    "INVALID_COLUMN_OR_FIELD_DATA_TYPE",
                    format!("`{}` cannot become \"{}\"", path.join("`.`"), types::ddl_type(field.data_type())),
                )
                .with_sqlstate("42000")
            },
        )
    }
}

fn not_nullable(path: &[String]) -> Error {
    Error::invalid("NULLABLE_COLUMN_OR_FIELD", format!("`{}` can be null, but the schema says that it is not", path.join("`.`")))
        .with_sqlstate("42000")
}
