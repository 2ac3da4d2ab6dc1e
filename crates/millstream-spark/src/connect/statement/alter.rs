//! `ALTER TABLE` and `COMMENT ON`.

use arrow::array::RecordBatch;
use millstream_core::Result;

use super::{Statements, table_operation};
use crate::connect::catalog::rows::done;
use crate::connect::catalog::{Stored, TableName, Warehouse, add_columns, not_found};
use crate::connect::errors::unsupported;
use crate::sql::parse::{AlterAction, Name, ObjectKind};

impl Statements<'_> {
    pub(super) async fn alter(&self, kind: ObjectKind, name: &Name, action: AlterAction) -> Result<RecordBatch> {
        if kind == ObjectKind::Database {
            return Err(unsupported("ALTER DATABASE"));
        }
        let (warehouse, table, mut stored) = self.table(name).await?;
        match action {
            AlterAction::SetProperties(properties) => stored.properties.extend(properties),
            AlterAction::UnsetProperties(keys) => stored.properties.retain(|key, _| !keys.contains(key)),
            AlterAction::As { query, text } if kind == ObjectKind::View => {
                self.session.analyze(&self.query(*query)).await?;
                stored.view = Some(text);
            }
            AlterAction::AddColumns(columns) => {
                add_columns(self.session, &stored, columns).await?;
                return done();
            }
            AlterAction::Partitions => return done(),
            AlterAction::Rename(_) => return Err(table_operation(name, "RENAME: make a new table of its rows")),
            AlterAction::SetLocation(_) => return Err(table_operation(name, "SET LOCATION")),
            AlterAction::ClusterBy(_) => return Err(table_operation(name, "CLUSTER BY")),
            AlterAction::DropColumns { .. } => return Err(table_operation(name, "DROP COLUMNS")),
            AlterAction::RenameColumn { .. } => return Err(table_operation(name, "RENAME COLUMN")),
            AlterAction::AlterColumn { .. } | AlterAction::As { .. } => return Err(table_operation(name, "ALTER COLUMN")),
        }
        warehouse.record(&table, &stored).await?;
        done()
    }

    pub(super) async fn comment(&self, kind: ObjectKind, name: &Name, comment: Option<String>) -> Result<RecordBatch> {
        if kind == ObjectKind::Database {
            return Err(unsupported("comments of schemas"));
        }
        let (warehouse, table, stored) = self.table(name).await?;
        warehouse.record(&table, &Stored { comment, ..stored }).await?;
        done()
    }

    /// A table or stored view.
    ///
    /// # Errors
    /// `TABLE_OR_VIEW_NOT_FOUND`.
    pub(super) async fn table(&self, name: &Name) -> Result<(Warehouse, TableName, Stored)> {
        let warehouse = Warehouse::open(self.session.host.as_ref())?;
        let table = TableName::of(self.session, name).ok_or_else(|| not_found(name))?;
        let stored = warehouse.table(&table).await?.ok_or_else(|| not_found(name))?;
        Ok((warehouse, table, stored))
    }
}
