//! `OPTIMIZE`, `VACUUM`, `RESTORE`, `DESCRIBE HISTORY` and `DESCRIBE DETAIL`.

use arrow::array::RecordBatch;
use millstream_core::Result;
use spark_connect_proto::Expression;

use super::Statements;
use crate::connect::change::Place;
use crate::connect::versions::{self, Optimize};
use crate::sql::parse::Name;

impl Statements<'_> {
    pub(super) async fn optimize(&self, table: &Name, condition: Option<Expression>, zorder: Vec<String>) -> Result<RecordBatch> {
        let place = Place::of_name(self.session, table, "OPTIMIZE").await?;
        versions::optimize(self.session, &Optimize { place, condition, zorder }).await
    }

    pub(super) async fn vacuum(&self, table: &Name, hours: Option<f64>, dry_run: bool) -> Result<RecordBatch> {
        let place = Place::of_name(self.session, table, "VACUUM").await?;
        versions::vacuum(self.session, &place, hours, dry_run).await
    }

    pub(super) async fn restore(&self, table: &Name, version: Option<i64>, time: Option<String>) -> Result<RecordBatch> {
        let place = Place::of_name(self.session, table, "RESTORE").await?;
        versions::restore(self.session, &place, &versions::as_of(version, time)?).await
    }

    pub(super) async fn history(&self, table: &Name, limit: Option<usize>) -> Result<RecordBatch> {
        let place = Place::of_name(self.session, table, "DESCRIBE HISTORY").await?;
        versions::history(self.session, &place, limit).await
    }

    pub(super) async fn detail(&self, table: &Name) -> Result<RecordBatch> {
        let place = Place::of_name(self.session, table, "DESCRIBE DETAIL").await?;
        versions::detail(self.session, &place).await
    }
}
