//! Relations of a logical plan that the engine itself reads: streams, and tables read as a batch.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session as CatalogSession, TableProvider};
use datafusion::common::{DFSchema, project_schema};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use millstream_core::registry::{ReadRequest, SourceProvider};
use millstream_core::source::{FilterColumns, Source, Table};

use crate::pushdown::is_decided;
use crate::scan::{QuarantineSlot, Reading, SplitFeed, SplitScanExec, Volume};

/// An unbounded relation: what `readStream…load()` and `STREAM t` give. It can be planned but not run until a query binds it to a source.
#[derive(Clone, Debug)]
pub struct StreamRelation {
    /// What makes the source.
    pub provider: Arc<dyn SourceProvider>,
    /// What the user asked for, with the final schema.
    pub request: ReadRequest,
    /// The schema of the rows.
    pub schema: SchemaRef,
    /// A name given by the user, which names the source's log directory.
    pub name: Option<String>,
}

#[async_trait]
impl TableProvider for StreamRelation {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(&self, _: &dyn CatalogSession, _: Option<&Vec<usize>>, _: &[Expr], _: Option<usize>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::External(Box::new(millstream_core::Error::invalid(
            "_LEGACY_ERROR_TEMP_3102",
            "Queries with streaming sources must be executed with writeStream.start(), or from a streaming table or flow definition \
                 within a Spark Declarative Pipeline.",
        ))))
    }
}

/// A bounded relation: read whole, as it is when a batch (or the one batch query) runs.
#[derive(Clone, Debug)]
pub struct TableRelation {
    /// The table.
    pub table: Arc<dyn Table>,
    /// How to call it in plans.
    pub label: String,
    /// About how many bytes it is, for the sides of joins.
    pub size_bytes: u64,
}

#[async_trait]
impl TableProvider for TableRelation {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        // A plain DataFusion query over the table: read the splits that are there now.
        let feed = Arc::new(SplitFeed::default());
        feed.fill(self.table.scan().await.map_err(crate::to_datafusion)?, 0);
        let quarantine = QuarantineSlot::new(Arc::new(millstream_core::quarantine::Discard));
        let input = BoundRelation {
            label: self.label.clone(),
            schema: self.schema(),
            feed,
            quarantine,
            volume: Volume::Bytes(self.size_bytes),
            filters: FilterColumns::default(),
        };
        input.scan(state, projection, filters, limit).await
    }
}

/// What fills the feed of a bound relation, batch by batch.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// The source at this index of the query.
    Source(usize),
    /// A table, read anew for each batch.
    Table(Arc<dyn Table>),
}

/// A source of a query, in plan order.
#[derive(Clone, Debug)]
pub(crate) struct BoundSource {
    /// The source.
    pub(crate) source: Arc<dyn Source>,
}

/// A relation bound to a feed.
#[derive(Clone, Debug)]
pub(crate) struct BoundRelation {
    pub(crate) label: String,
    pub(crate) schema: SchemaRef,
    pub(crate) feed: Arc<SplitFeed>,
    pub(crate) quarantine: QuarantineSlot,
    pub(crate) volume: Volume,
    /// The columns whose conditions are decided before a row counts as read.
    pub(crate) filters: FilterColumns,
}

#[async_trait]
impl TableProvider for BoundRelation {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let mut columns: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let projected = project_schema(&self.schema, Some(&columns))?;
        let kept = columns.len();
        let condition = match conjunction(filters.iter().cloned()) {
            None => None,
            Some(condition) => {
                for column in condition.column_refs() {
                    let index = self.schema.index_of(&column.name)?;
                    if !columns.contains(&index) {
                        columns.push(index);
                    }
                }
                let read = DFSchema::try_from(project_schema(&self.schema, Some(&columns))?)?;
                Some(state.create_physical_expr(condition, &read)?)
            }
        };
        Ok(Arc::new(SplitScanExec::new(
            self.label.clone(),
            self.feed.clone(),
            self.quarantine.clone(),
            projected,
            Reading { columns, kept, condition },
            state.config().target_partitions(),
            self.volume,
        )))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let decided = |filter: &&Expr| match is_decided(filter, &self.schema, &self.filters) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(decided).collect())
    }
}
