//! The source of a merge, computed once: it is read twice, and has to be the same both times.

use millstream_core::sink::OutputMode;
use millstream_core::{Error, Result};
use spark_connect_proto::Relation;

use super::Session;
use crate::analyzer::{Analyzed, Attribute, apart};
use crate::connect::analyze::refuse_streaming;
use crate::connect::execute::visible_plan;
use crate::connect::streaming::spool::SpoolSink;
use crate::functions::Typed;

/// The rows of a source, in memory or on local disk.
pub(super) struct Source {
    /// The rows; a last, hidden column is true in each of them, and null in rows of an outer join that have none.
    pub(super) rows: Analyzed,
    /// The source's columns.
    pub(super) columns: Vec<Attribute>,
    /// The last column.
    pub(super) present: Attribute,
    /// How many rows there are.
    pub(super) count: u64,
}

impl Source {
    /// Computes a relation.
    ///
    /// # Errors
    /// Those of the relation.
    pub(super) async fn compute(session: &Session, relation: &Relation) -> Result<Source> {
        let analyzed = session.analyze(relation).await?;
        refuse_streaming(&analyzed.plan, "merge")?;
        let known: Vec<Attribute> = analyzed.columns.iter().filter(|column| !column.hidden).cloned().collect();
        let sink = SpoolSink::new(session.host.clone());
        let ids = session.host.ids();
        let written = session.engine.write_batch(visible_plan(analyzed)?, sink.clone(), OutputMode::Append, &[], ids.next(), 0).await?;
        let count = written.map_or(0, |written| written.committed.rows);
        let spooled = sink.take().ok_or_else(|| Error::internal("the rows of a merge's source are not there"))?;
        let schema = spooled.schema_ref().clone();
        let rows = spooled.analyzed(&schema, "source", &ids.next().simple().to_string())?;
        let named = rows.columns.into_iter().zip(known).map(|(kept, known)| Attribute { internal: kept.internal, ..known });
        let columns: Vec<Attribute> = named.collect();
        let marker = Typed::literal(datafusion::scalar::ScalarValue::Boolean(Some(true)));
        let mut present = apart::attribute("__millstream_present", &marker);
        present.hidden = true;
        let mut all: Vec<(Attribute, Typed)> = columns.iter().map(|column| (column.clone(), apart::value_of(column))).collect();
        all.push((present.clone(), marker));
        Ok(Source { rows: apart::computed(rows.plan, all)?, columns, present, count })
    }
}
