//! Applies the changes of a batch: keys that are deleted are noted in the side table first, and forgotten when they come back; then the table
//! gets the newest values. Both statements give the same when they are run again.

use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, Schema};
use async_trait::async_trait;
use futures::TryStreamExt;
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Error, ErrorKind, Result};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Relation, Sql};

use super::shape::{DELETE, SEQUENCE};
use super::{DELETED, METADATA, UPSERTED};
use crate::analyzer::Leaf;
use crate::connect::catalog::{CATALOG, TableName};
use crate::connect::execute::visible_plan;
use crate::connect::session::ConnectSession;
use crate::connect::statement;
use crate::connect::streaming::spool::Spool;
use crate::types::{ddl_type, quote};

/// The view of the changes of a batch.
const BATCH: &str = "__spark_autocdc_batch";

/// Applies the batches of one flow to its table.
pub(in crate::connect::pipelines) struct CdcSink {
    /// A session of the flow's own: the changes of a batch are a view in it.
    session: Arc<ConnectSession>,
    spool: Arc<Spool>,
    flow: String,
    target: String,
    side: String,
    keys: Vec<String>,
}

impl fmt::Debug for CdcSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CdcSink").field("target", &self.target).finish_non_exhaustive()
    }
}

impl CdcSink {
    pub(in crate::connect::pipelines) fn new(
        session: Arc<ConnectSession>,
        flow: &str,
        target: &TableName,
        side: &TableName,
        keys: &[String],
    ) -> Self {
        let text = |name: &TableName| format!("{CATALOG}.{}.{}", quote(&name.database), quote(&name.table));
        let spool = Spool::new(session.host.clone());
        CdcSink { session, spool, flow: flow.to_owned(), target: text(target), side: text(side), keys: keys.to_vec() }
    }

    async fn apply(&self, schema: &Schema) -> Result<()> {
        let found = self.found().await?;
        for (count, condition, what) in [(found.keyless, "NULL_KEY", "key"), (found.unordered, "NULL_SEQUENCE", "sequence")] {
            if count > 0 {
                let message = format!("{count} changes of AUTO CDC flow '{}' have no {what}: leave them out in its source", self.flow);
                let code = format!("AUTOCDC_MICROBATCH_VALIDATION.{condition}");
                return Err(Error::new(ErrorKind::BadRecord, code, message).with_sqlstate("22000"));
            }
        }
        let statements = Statements { sink: self, schema };
        self.run(statements.note_deletes()?).await?;
        self.run(statements.apply()?).await
    }

    /// What the batch has that is to be refused.
    async fn found(&self) -> Result<Found> {
        let missing = self.keys.iter().map(|key| format!("{} IS NULL", quote(key))).collect::<Vec<_>>().join(" OR ");
        let text = format!("SELECT count_if({missing}), count_if({SEQUENCE} IS NULL) FROM {BATCH}");
        let analyzed = self.session.analyze(&sql(text)).await?;
        let rows: Vec<RecordBatch> = self.session.engine.rows(visible_plan(analyzed)?).await?.batches.try_collect().await?;
        let figure = |column: usize| rows.iter().map(|batch: &RecordBatch| first(batch, column)).sum();
        Ok(Found { keyless: figure(0), unordered: figure(1) })
    }

    async fn run(&self, text: String) -> Result<()> {
        statement::run(&self.session, &sql(text)).await.map(drop)
    }
}

struct Found {
    keyless: i64,
    unordered: i64,
}

fn first(batch: &RecordBatch, column: usize) -> i64 {
    let values = batch.columns().get(column).and_then(|column| column.as_primitive_opt::<Int64Type>());
    values.and_then(|values| values.iter().next().flatten()).unwrap_or(0)
}

fn sql(query: String) -> Relation {
    Relation { common: None, rel_type: Some(RelType::Sql(Sql { query, ..Sql::default() })) }
}

/// The statements for batches of a schema.
struct Statements<'a> {
    sink: &'a CdcSink,
    schema: &'a Schema,
}

impl Statements<'_> {
    /// The newest change of each key: of changes with the same sequence the one that came last.
    fn newest(&self) -> String {
        let keys = self.sink.keys.iter().map(|key| quote(key)).collect::<Vec<_>>().join(", ");
        format!(
            "(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY {SEQUENCE} DESC, \
             __spark_autocdc_place DESC) AS __spark_autocdc_rank FROM (SELECT *, monotonically_increasing_id() AS __spark_autocdc_place \
             FROM {BATCH})) WHERE __spark_autocdc_rank = 1)"
        )
    }

    fn on(&self, one: &str, other: &str) -> String {
        let same = |key: &String| format!("{one}.{key} = {other}.{key}", key = quote(key));
        self.sink.keys.iter().map(same).collect::<Vec<_>>().join(" AND ")
    }

    fn no_sequence(&self) -> Result<String> {
        let field = self.schema.field_with_name(SEQUENCE).map_err(|error| Error::internal("changes have no sequence").caused_by(error))?;
        Ok(format!("CAST(NULL AS {})", ddl_type(field.data_type())))
    }

    /// Notes keys that are deleted, and forgets those that come back.
    fn note_deletes(&self) -> Result<String> {
        let keys: Vec<String> = self.sink.keys.iter().map(|key| quote(key)).collect();
        let sequences = format!("named_struct('{DELETED}', s.{SEQUENCE}, '{UPSERTED}', {})", self.no_sequence()?);
        Ok(format!(
            "MERGE INTO {side} AS t USING (SELECT * FROM {newest}) AS s ON {on} \
             WHEN MATCHED AND s.{DELETE} AND s.{SEQUENCE} > t.{METADATA}.{DELETED} THEN UPDATE SET {METADATA} = {sequences} \
             WHEN MATCHED AND NOT s.{DELETE} AND s.{SEQUENCE} >= t.{METADATA}.{DELETED} THEN DELETE \
             WHEN NOT MATCHED AND s.{DELETE} THEN INSERT ({columns}, {METADATA}) VALUES ({values}, {sequences})",
            side = self.sink.side,
            newest = self.newest(),
            on = self.on("t", "s"),
            columns = keys.join(", "),
            values = keys.iter().map(|key| format!("s.{key}")).collect::<Vec<_>>().join(", "),
        ))
    }

    /// Applies the changes. On a tie with an earlier batch values count, and deletes do not.
    fn apply(&self) -> Result<String> {
        let own = |name: &&String| name.as_str() != SEQUENCE && name.as_str() != DELETE;
        let columns: Vec<String> = self.schema.fields().iter().map(|field| field.name()).filter(own).map(|name| quote(name)).collect();
        let sequences = format!("named_struct('{DELETED}', {}, '{UPSERTED}', s.{SEQUENCE})", self.no_sequence()?);
        let assigned: Vec<String> = columns.iter().map(|column| format!("{column} = s.{column}")).collect();
        Ok(format!(
            "MERGE INTO {target} AS t USING (SELECT n.*, d.{METADATA}.{DELETED} AS __spark_autocdc_deleted FROM {newest} AS n \
             LEFT JOIN {side} AS d ON {on_side}) AS s ON {on} \
             WHEN MATCHED AND s.{DELETE} AND s.{SEQUENCE} > t.{METADATA}.{UPSERTED} THEN DELETE \
             WHEN MATCHED AND NOT s.{DELETE} AND s.{SEQUENCE} >= t.{METADATA}.{UPSERTED} THEN UPDATE SET {assigned}, {METADATA} = {sequences} \
             WHEN NOT MATCHED AND NOT s.{DELETE} AND (s.__spark_autocdc_deleted IS NULL OR s.{SEQUENCE} >= s.__spark_autocdc_deleted) \
             THEN INSERT ({columns}, {METADATA}) VALUES ({values}, {sequences})",
            target = self.sink.target,
            side = self.sink.side,
            newest = self.newest(),
            on_side = self.on("n", "d"),
            on = self.on("t", "s"),
            assigned = assigned.join(", "),
            columns = columns.join(", "),
            values = columns.iter().map(|column| format!("s.{column}")).collect::<Vec<_>>().join(", "),
        ))
    }
}

#[async_trait]
impl Sink for CdcSink {
    fn description(&self) -> String {
        format!("AutoCdcSink[{}]", self.target)
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn supports(&self, mode: OutputMode) -> bool {
        mode == OutputMode::Append
    }

    fn reports_rows(&self) -> bool {
        false
    }

    async fn admit(&self, _batch: &BatchInfo) -> Result<Admission> {
        // A batch that was applied changes nothing when it is applied again.
        Ok(Admission::Write)
    }

    async fn writer(&self, batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        Ok(self.spool.writer(batch.schema.clone()))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        let rows: u64 = parts.iter().map(|part| part.rows).sum();
        let changes = self.spool.take(batch.schema.clone(), &parts)?;
        if rows > 0 {
            let prefix = self.session.host.ids().next().simple().to_string();
            self.session.set_view(BATCH, Leaf::Analyzed(changes.analyzed(&batch.schema, BATCH, &prefix)?));
            let applied = self.apply(&batch.schema).await;
            self.session.drop_view(BATCH);
            applied?;
        }
        Ok(Committed { rows, ..Committed::default() })
    }

    async fn abort(&self, _batch: &BatchInfo, parts: Vec<Part>) {
        self.spool.forget(&parts);
    }
}
