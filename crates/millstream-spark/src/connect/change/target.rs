//! The table that a statement changes.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Field, Int32Type, Int64Type, Schema};
use datafusion::common::Column;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use futures::TryStreamExt;
use millstream_core::registry::Registry;
use millstream_core::versioned::{AsOf, ColumnBounds, FILE, ROW, VersionedTable};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::prune::Files;
use millstream_engine::relation::TableRelation;

use super::Session;
use crate::analyzer::{Analyzed, Attribute, apart};
use crate::connect::catalog::{CATALOG, TableName, Warehouse, not_found};
use crate::connect::errors::table_operation;
use crate::connect::session::{DEFAULT_DATABASE, GLOBAL_TEMP};
use crate::types::quote;

/// Where a table is that a statement names.
#[derive(Clone, Debug)]
pub(in crate::connect) struct Place {
    /// The format.
    pub(in crate::connect) format: String,
    /// Its path or URL.
    pub(in crate::connect) location: String,
    /// The name that its columns can be called by.
    pub(in crate::connect) qualifier: Vec<String>,
    /// The frames that stand for it.
    pub(in crate::connect) plan_ids: Vec<i64>,
    /// How to call it in messages.
    pub(in crate::connect) label: String,
}

impl Place {
    /// The place of a table's name; `operation` is what is done to it.
    ///
    /// # Errors
    /// `TABLE_OR_VIEW_NOT_FOUND`; `UNSUPPORTED_FEATURE.TABLE_OPERATION` for views and for formats whose rows cannot be changed.
    pub(in crate::connect) async fn of_name(session: &Session, name: &[String], operation: &str) -> Result<Place> {
        let label = name.iter().map(|part| quote(part)).collect::<Vec<_>>().join(".");
        if let [format, path] = name
            && session.engine.registry().source(format).is_ok()
            && path.contains('/')
        {
            let qualifier = name.to_vec();
            return Place { format: format.to_lowercase(), location: path.clone(), qualifier, plan_ids: Vec::new(), label }
                .checked(session.engine.registry(), operation);
        }
        let is_view = matches!(name, [view] if session.view(view).is_some())
            || matches!(name, [database, _] if database.eq_ignore_ascii_case(GLOBAL_TEMP));
        if is_view {
            return Err(table_operation(&label, operation));
        }
        let table = TableName::of(session, name).ok_or_else(|| not_found(name))?;
        let stored = Warehouse::open(session.host.as_ref())?.table(&table).await?.ok_or_else(|| not_found(name))?;
        if stored.view.is_some() {
            return Err(table_operation(&label, operation));
        }
        let given = [CATALOG, DEFAULT_DATABASE].into_iter().take(3_usize.saturating_sub(name.len())).map(str::to_owned);
        let qualifier = given.chain(name.iter().cloned()).collect();
        Place { format: stored.format.clone(), location: stored.location().to_owned(), qualifier, plan_ids: Vec::new(), label }
            .checked(session.engine.registry(), operation)
    }

    /// A table of Delta at a path.
    pub(in crate::connect) fn of_path(path: &str) -> Place {
        Place {
            format: "delta".to_owned(),
            location: path.to_owned(),
            qualifier: Vec::new(),
            plan_ids: Vec::new(),
            label: format!("delta.{}", quote(path)),
        }
    }

    fn checked(self, registry: &Registry, operation: &str) -> Result<Place> {
        match registry.versioned(&self.format) {
            Some(_) => Ok(self),
            None => Err(table_operation(&self.label, operation)),
        }
    }

    /// The same place, whose columns are called by another name.
    #[must_use]
    pub(in crate::connect) fn called(mut self, alias: Option<String>) -> Place {
        if let Some(alias) = alias {
            self.qualifier = vec![alias];
        }
        self
    }

    /// Opens the table at its newest version.
    ///
    /// # Errors
    /// `DELTA_TABLE_NOT_FOUND`, and those of its log.
    pub(in crate::connect) async fn open(&self, session: &Session) -> Result<Arc<dyn VersionedTable>> {
        self.open_at(session, &AsOf::Newest).await
    }

    /// Opens the table at a version.
    ///
    /// # Errors
    /// As [`Place::open`], and that there is no such version.
    pub(in crate::connect) async fn open_at(&self, session: &Session, as_of: &AsOf) -> Result<Arc<dyn VersionedTable>> {
        let tables = session.engine.registry().versioned(&self.format).ok_or_else(|| table_operation(&self.label, "this statement"))?;
        tables.open(&self.location, as_of).await?.ok_or_else(|| {
            let message = format!("{} is not a Delta table: check the path, or write rows there first", self.label);
            Error::invalid("DELTA_MISSING_DELTA_TABLE", message).with_sqlstate("42P01")
        })
    }
}

/// A table that is changed, at the version that the statement reads.
pub(in crate::connect) struct Target<'a> {
    pub(in crate::connect) session: &'a Session,
    pub(in crate::connect) place: &'a Place,
    pub(in crate::connect) table: Arc<dyn VersionedTable>,
}

/// Rows of some files of the table.
#[derive(Clone, Debug)]
pub(in crate::connect) struct Scanned {
    /// The rows: the table's columns, then the hidden `file` and `row`.
    pub(in crate::connect) rows: Analyzed,
    /// The table's columns.
    pub(in crate::connect) columns: Vec<Attribute>,
    /// The file of a row.
    pub(in crate::connect) file: Attribute,
    /// The place of a row in its file.
    pub(in crate::connect) row: Attribute,
}

impl<'a> Target<'a> {
    pub(in crate::connect) async fn open(session: &'a Session, place: &'a Place) -> Result<Target<'a>> {
        Ok(Target { session, place, table: place.open(session).await? })
    }

    /// Whether files of changes want rows as they were.
    pub(in crate::connect) fn records_changes(&self) -> bool {
        self.table.facts().records_changes
    }

    /// All its files.
    pub(in crate::connect) fn all(&self) -> Vec<usize> {
        (0..self.table.files().len()).collect()
    }

    /// The rows of some files.
    pub(in crate::connect) fn scan(&self, files: &[usize]) -> Result<Scanned> {
        let listed = self.table.files();
        let size_bytes = files.iter().filter_map(|place| listed.get(*place)).map(|file| file.size).sum();
        let relation = TableRelation { table: self.table.read(files), label: self.place.label.clone(), size_bytes };
        let mut rows = apart::scan(Arc::new(relation), &self.place.qualifier)?;
        for column in &mut rows.columns {
            column.hidden = [FILE, ROW].contains(&column.name.as_str());
            column.plan_ids.clone_from(&self.place.plan_ids);
        }
        let named = |name: &str| rows.columns.iter().find(|column| column.name == name).cloned();
        let (Some(file), Some(row)) = (named(FILE), named(ROW)) else {
            return Err(Error::internal("rows of a table do not know their places"));
        };
        let columns = rows.columns.iter().filter(|column| !column.hidden).cloned().collect();
        Ok(Scanned { rows, columns, file, row })
    }

    /// The files in which conditions on the table alone may hold, among all of them. Parts of the condition about anything else are left out.
    pub(in crate::connect) fn candidates(&self, scanned: &Scanned, condition: Option<&Expr>) -> Result<Vec<usize>> {
        let Some(condition) = condition else { return Ok(self.all()) };
        let own = |part: &&Expr| {
            let columns = part.column_refs();
            !columns.is_empty() && columns.iter().all(|column| scanned.columns.iter().any(|known| known.internal == column.name))
        };
        let parts = datafusion::logical_expr::utils::split_conjunction(condition);
        let about_table = datafusion::logical_expr::utils::conjunction(parts.into_iter().filter(own).cloned());
        self.with_files(scanned, |files| files.candidates(about_table.as_ref(), &self.session.engine))
    }

    /// The files whose every row a condition holds for, if that can be told without reading them.
    pub(in crate::connect) fn decided(&self, scanned: &Scanned, condition: &Expr) -> Result<Option<Vec<usize>>> {
        let partitions = &self.table.facts().partition_columns;
        let constant: Vec<String> =
            scanned.columns.iter().filter(|column| partitions.contains(&column.name)).map(|column| column.internal.clone()).collect();
        self.with_files(scanned, |files| files.decided(condition, &constant, &self.session.engine))
    }

    fn with_files<T>(&self, scanned: &Scanned, ask: impl FnOnce(&Files<'_>) -> Result<T>) -> Result<T> {
        let fields = scanned.columns.iter().map(|column| Field::new(&column.internal, column.data_type.clone(), true));
        let bounds = |internal: &str| -> Option<ColumnBounds> {
            let column = scanned.columns.iter().find(|column| column.internal == internal)?;
            self.table.bounds(&column.name)
        };
        ask(&Files { files: self.table.files(), schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())), bounds: &bounds })
    }

    /// Counts by file: the files among the rows of a plan that has [`Scanned::file`], each with the sum of an integer expression.
    pub(in crate::connect) async fn by_file(&self, plan: LogicalPlan, file: &Attribute, counted: Expr) -> Result<Vec<(usize, i64)>> {
        let plan = LogicalPlanBuilder::from(plan)
            .aggregate(vec![internal(file)], vec![sum(counted).alias("counted")])
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
        let counted = self.figures_by_file(plan).await?;
        Ok(counted.into_iter().map(|(file, figures)| (file, figures.first().copied().unwrap_or(0))).collect())
    }

    /// The rows of a plan whose columns are a file and integers, by file; null counts as 0.
    pub(in crate::connect) async fn figures_by_file(&self, plan: LogicalPlan) -> Result<Vec<(usize, Vec<i64>)>> {
        let rows = self.rows(plan).await?;
        let mut files: Vec<(usize, Vec<i64>)> = Vec::new();
        for batch in &rows {
            let file = batch.columns().first().and_then(|column| column.as_primitive_opt::<Int32Type>());
            let figures: Option<Vec<_>> = batch.columns().iter().skip(1).map(|column| column.as_primitive_opt::<Int64Type>()).collect();
            let (Some(file), Some(figures)) = (file, figures) else {
                return Err(Error::internal("files of rows are no numbers"));
            };
            for row in (0..batch.num_rows()).filter(|row| file.is_valid(*row)) {
                let values = figures.iter().map(|column| if column.is_valid(row) { column.value(row) } else { 0 });
                let file = usize::try_from(file.value(row)).map_err(|error| Error::internal("a file has no position").caused_by(error))?;
                files.push((file, values.collect()));
            }
        }
        files.sort_unstable();
        Ok(files)
    }

    /// The rows of a plan.
    pub(in crate::connect) async fn rows(&self, plan: LogicalPlan) -> Result<Vec<RecordBatch>> {
        self.session.engine.rows(plan).await?.batches.try_collect().await
    }
}

/// A column in expressions.
pub(in crate::connect) fn internal(attribute: &Attribute) -> Expr {
    Expr::Column(Column::new_unqualified(&attribute.internal))
}
