//! Batch writes into Delta tables: each is one version.

use std::collections::BTreeMap;

use arrow::datatypes::{Field, Schema};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use millstream_core::versioned::{
    AsOf, BEFORE, CHANGE, Change, NewTable, Operation, Reads, Removes, RowChange, Rows, VersionedTable, VersionedTables,
};
use millstream_core::{Error, Options, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::Expression;

use super::{OVERWRITE_MODE, Session};
use crate::analyzer::{Attribute, apart, name_of};
use crate::connect::change::{self, Constraints, Place, Target, condition, internal};
use crate::connect::errors::unsupported;
use crate::functions::Typed;
use crate::types::schema_to_json;

/// Rows on their way into a table.
#[derive(Debug)]
pub(in crate::connect) struct DeltaWrite {
    /// The path or URL.
    pub(in crate::connect) location: String,
    /// The rows, under their names.
    pub(in crate::connect) plan: LogicalPlan,
    /// What becomes of the rows that are there.
    pub(in crate::connect) mode: DeltaMode,
    /// Columns to partition by.
    pub(in crate::connect) partition_by: Vec<String>,
    /// Options of the writer.
    pub(in crate::connect) options: Options,
    /// What is recorded as done; `WRITE` without it.
    pub(in crate::connect) statement: Option<Definition>,
}

/// What becomes of the rows of the table.
#[derive(Clone, Debug)]
pub(in crate::connect) enum DeltaMode {
    /// They stay.
    Append,
    /// They go.
    Overwrite,
    /// Those of the partitions that get rows go.
    OverwritePartitions,
    /// Those for which a condition holds go; every new row has to satisfy it.
    ReplaceWhere(Box<Expression>),
}

/// A statement that makes or replaces a table.
#[derive(Clone, Debug, Default)]
pub(in crate::connect) struct Definition {
    /// Such as `CREATE TABLE AS SELECT`.
    pub(in crate::connect) name: &'static str,
    /// Table properties.
    pub(in crate::connect) properties: BTreeMap<String, String>,
    /// The comment.
    pub(in crate::connect) comment: Option<String>,
    /// Columns to cluster by.
    pub(in crate::connect) clustering: Vec<String>,
    /// The columns as they were declared; those of the rows without them.
    pub(in crate::connect) columns: Option<Schema>,
    /// Whether the table belongs to the warehouse.
    pub(in crate::connect) managed: bool,
}

/// The formats' tables.
fn tables(session: &Session) -> Result<std::sync::Arc<dyn VersionedTables>> {
    session.engine.registry().versioned("delta").cloned().ok_or_else(|| unsupported("Delta tables"))
}

/// Writes rows as the next version of a table, or as the first one.
///
/// # Errors
/// `DELTA_METADATA_MISMATCH` and its like when the rows do not fit, `DELTA_REPLACE_WHERE_MISMATCH`, and those of the plan and the table.
pub(in crate::connect) async fn write(session: &Session, write: DeltaWrite) -> Result<()> {
    let table = tables(session)?.open(&write.location, &AsOf::Newest).await?;
    let schema = plan_schema(&write.plan);
    match table {
        None => create(session, &write, &schema).await,
        Some(table) => add(session, write, &schema, &table).await,
    }
}

/// The schema of a plan, without what only the engine knows.
fn plan_schema(plan: &LogicalPlan) -> Schema {
    let fields = plan.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Schema::new(fields.collect::<Vec<_>>())
}

async fn create(session: &Session, write: &DeltaWrite, rows: &Schema) -> Result<()> {
    let definition = write.statement.clone().unwrap_or_default();
    let (options, properties) = split(&write.options);
    let new = new_table(write, &definition, rows, properties);
    let sink = tables(session)?.create(&write.location, new, &options).await?;
    change::write(session, write.plan.clone(), sink).await.map(drop)
}

/// Table properties among the options of a writer.
fn split(options: &Options) -> (Options, BTreeMap<String, String>) {
    let mut rest = Options::new();
    let mut properties = BTreeMap::new();
    for (name, value) in options.iter() {
        if name.to_lowercase().starts_with("delta.") {
            properties.insert(name.to_owned(), value.to_owned());
        } else if !["path", "replacewhere", &OVERWRITE_MODE.to_lowercase()].contains(&name.to_lowercase().as_str()) {
            rest.set(name, value);
        }
    }
    (rest, properties)
}

fn new_table(write: &DeltaWrite, definition: &Definition, rows: &Schema, mut properties: BTreeMap<String, String>) -> NewTable {
    properties.extend(definition.properties.clone());
    let columns = definition.columns.as_ref().unwrap_or(rows);
    NewTable {
        schema: schema_to_json(columns),
        partition_columns: write.partition_by.clone(),
        clustering_columns: definition.clustering.clone(),
        operation: operation(write, definition, &properties),
        properties,
        description: definition.comment.clone(),
    }
}

fn operation(write: &DeltaWrite, definition: &Definition, properties: &BTreeMap<String, String>) -> Operation {
    let partitions = serde_json::json!(write.partition_by).to_string();
    if definition.name.is_empty() {
        let mode = if matches!(write.mode, DeltaMode::Append) { "Append" } else { "Overwrite" };
        let operation = Operation::new("WRITE").with("mode", mode).with("partitionBy", partitions);
        return match &write.mode {
            DeltaMode::ReplaceWhere(condition) => operation.with("predicate", name_of(condition)),
            _ => operation,
        };
    }
    Operation::new(definition.name)
        .with("partitionBy", partitions)
        .with("clusterBy", serde_json::json!(definition.clustering).to_string())
        .with("isManaged", definition.managed.to_string())
        .with("properties", serde_json::json!(properties).to_string())
}

async fn add(session: &Session, write: DeltaWrite, rows: &Schema, table: &std::sync::Arc<dyn VersionedTable>) -> Result<()> {
    let definition = write.statement.clone().unwrap_or_default();
    let (mut options, given) = split(&write.options);
    let overwrite_schema = options.get("overwriteSchema").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if overwrite_schema && matches!(write.mode, DeltaMode::OverwritePartitions) {
        let message = "'overwriteSchema' cannot be used in dynamic partition overwrite mode.";
        return Err(Error::invalid("DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE", message).with_sqlstate("42613"));
    }
    let replacement = if !definition.name.is_empty() {
        Some(new_table(&write, &definition, rows, given))
    } else if overwrite_schema && matches!(write.mode, DeltaMode::Overwrite) {
        let facts = table.facts();
        let same_columns = write.partition_by.is_empty() && facts.partition_columns.iter().all(|name| rows.field_with_name(name).is_ok());
        let partition_columns = if same_columns { facts.partition_columns.clone() } else { write.partition_by.clone() };
        let new = new_table(&write, &definition, rows, facts.properties.clone());
        Some(NewTable {
            partition_columns,
            description: facts.description.clone(),
            clustering_columns: facts.clustering_columns.clone(),
            ..new
        })
    } else {
        None
    };
    options.remove("overwriteSchema");
    if replacement.is_none() && !write.partition_by.is_empty() {
        options.set("partitionBy", write.partition_by.join(","));
    }
    let operation = replacement.as_ref().map_or_else(|| operation(&write, &definition, &BTreeMap::new()), |new| new.operation.clone());
    let mut change = Change {
        operation,
        checked: Constraints::features(),
        options,
        removes: match (&write.mode, table.facts().partition_columns.is_empty()) {
            (DeltaMode::Append, _) => Removes::Nothing,
            (DeltaMode::OverwritePartitions, false) => Removes::WrittenPartitions,
            _ => Removes::Everything,
        },
        ..Change::default()
    };
    let constraints = if replacement.is_some() { Constraints::default() } else { Constraints::of(table.facts())? };
    change.replacement = replacement;
    let (plan, columns) = constraints.completed(session, write.plan, &table.schema())?;
    let plan = constraints.enforced(session, plan, &columns, None)?;
    let plan = match &write.mode {
        DeltaMode::ReplaceWhere(expression) => {
            let place = Place::of_path(&write.location);
            let target = Target { session, place: &place, table: table.clone() };
            let checked = checks_replacement(session).then(|| Constraints::of_replacement(expression));
            let plan = match checked {
                Some(checked) => checked.enforced(session, plan, &columns, None)?,
                None => plan,
            };
            replacing(&target, expression, plan, &columns, &mut change).await?
        }
        _ => plan,
    };
    let plan = under_names(plan, &columns, change.rows)?;
    change::write(session, plan, table.change(change).await?).await.map(drop)
}

fn checks_replacement(session: &Session) -> bool {
    let setting = session.confs.get("spark.databricks.delta.replaceWhere.constraintCheck.enabled");
    !setting.is_some_and(|value| value.eq_ignore_ascii_case("false"))
}

/// The rows under the names of their columns. Tagged ones have them already.
fn under_names(plan: LogicalPlan, columns: &[Attribute], rows: Rows) -> Result<LogicalPlan> {
    if rows == Rows::Tagged {
        return Ok(plan);
    }
    let named = columns.iter().map(|column| internal(column).alias(&column.name)).collect::<Vec<Expr>>();
    LogicalPlanBuilder::from(plan).project(named).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

/// The new rows, and, where the condition is about more than whole files, those rows of touched files for which it does not hold.
async fn replacing(
    target: &Target<'_>,
    expression: &Expression,
    new: LogicalPlan,
    columns: &[Attribute],
    change: &mut Change,
) -> Result<LogicalPlan> {
    let session = target.session;
    change.reads = Reads::Table;
    let all = target.scan(&target.all())?;
    let found = condition(session, expression, &all.columns, "replaceWhere")?;
    if let Some(files) = target.decided(&all, &found)? {
        change.removes = Removes::Files(files);
        return Ok(new);
    }
    let candidates = target.candidates(&all, Some(&found))?;
    let scanned = target.scan(&candidates)?;
    let found = condition(session, expression, &scanned.columns, "replaceWhere")?;
    let matching =
        LogicalPlanBuilder::from(scanned.rows.plan).filter(found).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    let files: Vec<usize> = target.by_file(matching, &scanned.file, lit(1_i64)).await?.into_iter().map(|(file, _)| file).collect();
    if files.is_empty() {
        change.removes = Removes::Nothing;
        return Ok(new);
    }
    let scanned = target.scan(&files)?;
    let gone = condition(session, expression, &scanned.columns, "replaceWhere")?.is_true();
    let tag = change::case(vec![(gone, lit(RowChange::Deleted.code()))], lit(RowChange::Copied.code()))?;
    let (records, schema) = (target.records_changes(), target.table.schema());
    let tagged = |plan: LogicalPlan, value: &dyn Fn(&Field) -> Result<Typed>, tag: Expr| -> Result<LogicalPlan> {
        let mut values: Vec<(Attribute, Typed)> = Vec::with_capacity(schema.fields().len());
        for field in schema.fields() {
            let value = value(field)?;
            values.push((apart::attribute(field.name(), &value), value));
        }
        let mut out: Vec<Expr> = values.iter().map(|(column, value)| value.expr.clone().alias(&column.name)).collect();
        out.push(tag.alias(CHANGE));
        if records {
            out.push(change::before(&values)?.alias(BEFORE));
        }
        LogicalPlanBuilder::from(plan).project(out).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
    };
    let old = |field: &Field| match scanned.columns.iter().find(|column| column.name == *field.name()) {
        Some(column) => Ok(apart::value_of(column)),
        None => Err(Error::internal("a column of the table is not read")),
    };
    let given = |field: &Field| match columns.iter().find(|column| column.name.eq_ignore_ascii_case(field.name())) {
        Some(column) => change::stored(apart::value_of(column), field, &session.settings()),
        None => Ok(Typed::null(field.data_type())),
    };
    let old = tagged(scanned.rows.plan.clone(), &old, tag)?;
    let new = tagged(new, &given, lit(RowChange::Inserted.code()))?;
    change.removes = Removes::Files(files);
    change.rows = Rows::Tagged;
    LogicalPlanBuilder::from(old).union(new).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

/// A plan without rows and with these columns.
pub(in crate::connect) fn no_rows(schema: &Schema) -> Result<LogicalPlan> {
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::EmptyRelation;
    let plain =
        Schema::new(schema.fields().iter().map(|field| Field::new(field.name(), field.data_type().clone(), true)).collect::<Vec<_>>());
    let schema = DFSchema::try_from(plain).map_err(from_datafusion)?;
    Ok(LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema: std::sync::Arc::new(schema) }))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn properties_are_told_from_options() {
        let options =
            Options::new().with("delta.appendOnly", "true").with("mergeSchema", "true").with("replaceWhere", "a = 1").with("path", "/x");
        let (rest, properties) = split(&options);
        assert_eq!(rest.iter().collect::<Vec<_>>(), [("mergeSchema", "true")]);
        assert_eq!(properties, BTreeMap::from([("delta.appendOnly".to_owned(), "true".to_owned())]));
    }

    #[test]
    fn writes_are_recorded_with_their_mode() {
        let plan = no_rows(&Schema::new(vec![Field::new("a", DataType::Int64, true)])).unwrap();
        let write = |mode| DeltaWrite {
            location: "/t".into(),
            plan: plan.clone(),
            mode,
            partition_by: vec!["p".into()],
            options: Options::new(),
            statement: None,
        };
        let of = |mode| operation(&write(mode), &Definition::default(), &BTreeMap::new()).parameters;
        assert_eq!(of(DeltaMode::Append)["mode"], "Append");
        assert_eq!(of(DeltaMode::OverwritePartitions)["partitionBy"], r#"["p"]"#);
    }
}
