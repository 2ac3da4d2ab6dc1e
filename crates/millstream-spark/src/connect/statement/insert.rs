//! `INSERT`.

use arrow::array::RecordBatch;
use millstream_core::{Options, Result};
use spark_connect_proto::expression::{Alias, ExprType, UnresolvedAttribute, UnresolvedFunction, UnresolvedStar};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::write_operation::SaveMode;
use spark_connect_proto::{Expression, Project, Relation};

use super::Statements;
use crate::connect::catalog::rows::done;
use crate::connect::catalog::{TableName, Warehouse, not_found};
use crate::connect::command::{By, DeltaMode, Write, into_table, save};
use crate::sql::parse::{Insert, InsertTarget};

impl Statements<'_> {
    pub(super) async fn insert(&self, insert: Insert) -> Result<RecordBatch> {
        match &insert.target {
            InsertTarget::Directory { path, provider, options } => {
                let options: Options = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                let path = path.clone().or_else(|| options.get("path").map(str::to_owned));
                let write = Write {
                    analyzed: self.session.analyze(&self.query(insert.query)).await?.stored(),
                    format: provider.to_lowercase(),
                    mode: SaveMode::Overwrite,
                    partition_by: Vec::new(),
                    options,
                    statement: None,
                };
                save(self.session, write, path).await?;
            }
            InsertTarget::Table { name, options } => {
                let options: Options = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                let table = TableName::of(self.session, name).ok_or_else(|| not_found(name))?;
                self.insert_into(insert, &table, &options).await?;
            }
        }
        done()
    }

    async fn insert_into(&self, insert: Insert, table: &TableName, options: &Options) -> Result<()> {
        let fixed: Vec<(String, Expression)> =
            insert.partition.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
        let mode = match (insert.replace_where.clone(), insert.overwrite) {
            (Some(condition), _) => DeltaMode::ReplaceWhere(Box::new(condition)),
            (None, false) => DeltaMode::Append,
            (None, true) => fixed_partition(&fixed).map_or(DeltaMode::Overwrite, |condition| DeltaMode::ReplaceWhere(Box::new(condition))),
        };
        let mut options = options.clone();
        if insert.evolves {
            options.set("mergeSchema", "true");
        }
        let query = self.query(with_constants(insert.query, &fixed));
        let analyzed = self.session.analyze(&query).await?.stored();
        let by = if insert.by_name {
            By::Name
        } else if !insert.columns.is_empty() {
            By::Columns(insert.columns.into_iter().chain(fixed.into_iter().map(|(name, _)| name)).collect())
        } else if fixed.is_empty() {
            By::Position
        } else {
            By::Columns(self.columns_before(table, &fixed).await?)
        };
        into_table(self.session, analyzed, table, &by, mode, &options).await
    }

    /// The table's columns in the order of the rows: those without a constant, then the constants.
    async fn columns_before(&self, table: &TableName, fixed: &[(String, Expression)]) -> Result<Vec<String>> {
        let warehouse = Warehouse::open(self.session.host.as_ref())?;
        let missing = || not_found(&[table.database.clone(), table.table.clone()]);
        let stored = warehouse.table(table).await?.ok_or_else(missing)?;
        let constant = |name: &str| fixed.iter().any(|(fixed, _)| fixed.eq_ignore_ascii_case(name));
        let schema = stored.columns(self.session).await?;
        let free = schema.fields().iter().map(|field| field.name().clone()).filter(|name| !constant(name));
        Ok(free.chain(fixed.iter().map(|(name, _)| name.clone())).collect())
    }
}

/// The condition of the rows in a partition whose columns are given.
fn fixed_partition(fixed: &[(String, Expression)]) -> Option<Expression> {
    let function = |name: &str, arguments: Vec<Expression>| Expression {
        expr_type: Some(ExprType::UnresolvedFunction(UnresolvedFunction {
            function_name: name.to_owned(),
            arguments,
            ..UnresolvedFunction::default()
        })),
        ..Expression::default()
    };
    let column = |name: &str| Expression {
        expr_type: Some(ExprType::UnresolvedAttribute(UnresolvedAttribute {
            unparsed_identifier: crate::types::quote(name),
            ..UnresolvedAttribute::default()
        })),
        ..Expression::default()
    };
    let equal = |(name, value): &(String, Expression)| function("<=>", vec![column(name), value.clone()]);
    fixed.iter().map(equal).reduce(|one, other| function("and", vec![one, other]))
}

/// The rows of a query with constants after their columns.
fn with_constants(query: Relation, constants: &[(String, Expression)]) -> Relation {
    if constants.is_empty() {
        return query;
    }
    let star = Expression { expr_type: Some(ExprType::UnresolvedStar(UnresolvedStar::default())), ..Expression::default() };
    let named = constants.iter().map(|(name, value)| {
        let alias = Alias { expr: Some(Box::new(value.clone())), name: vec![name.clone()], metadata: None };
        Expression { expr_type: Some(ExprType::Alias(Box::new(alias))), ..Expression::default() }
    });
    let project = Project { input: Some(Box::new(query)), expressions: std::iter::once(star).chain(named).collect() };
    Relation { common: None, rel_type: Some(RelType::Project(Box::new(project))) }
}
