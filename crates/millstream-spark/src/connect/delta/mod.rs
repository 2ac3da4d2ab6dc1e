//! `delta.tables.DeltaTable` of Delta's Python client over Spark Connect.

mod messages;

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{Field, Schema};
use millstream_core::versioned::{Alteration, AsOf, Operation};
use millstream_core::{Error, Result};
use prost::Message;
use prost_types::Any;
use spark_connect_proto::read::{DataSource, NamedTable, ReadType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Expression, Read, Relation};

use super::catalog::rows::batch;
use super::catalog::{NewTable, TableName, Warehouse, create_table, not_found, parts};
use super::change::{self, Action, Clause, Delete, Merge, Place, Update};
use super::errors::{incomplete, unsupported};
use super::execute::local_relation;
use super::session::ConnectSession;
use super::statement::change::evolves;
use super::versions::{self, Optimize};
use crate::analyzer::name_of;
use crate::types::{COMMENT, from_proto};
use messages::{
    Assignment, COMMAND, CreateDeltaTable, DeltaCommand, DeltaRelation, DeltaTable, MergeAction, RELATION, command, merge_action, relation,
    restore, table,
};

type Session = Arc<ConnectSession>;

/// The rows of a relation of Delta's, which does something or tells about a table; `None` for a relation that only reads one, and for
/// everything that is not Delta's.
///
/// # Errors
/// Those of what it does.
pub(super) async fn run(session: &Session, relation: &Relation) -> Result<Option<RecordBatch>> {
    let Some(RelType::Extension(any)) = &relation.rel_type else { return Ok(None) };
    match unpack(any)? {
        relation::Kind::Scan(_) => Ok(None),
        kind => answer(session, kind).await.map(Some),
    }
}

/// The relation that an extension inside of a plan stands for.
///
/// # Errors
/// `UNSUPPORTED_FEATURE` for extensions of others, and those of what it asks for.
pub(super) async fn leaf(session: &ConnectSession, any: &Any) -> Result<Relation> {
    match unpack(any)? {
        relation::Kind::Scan(scan) => read(scan.table.as_ref()),
        kind => local_relation(&answer(session, kind).await?),
    }
}

fn unpack(any: &Any) -> Result<relation::Kind> {
    if any.type_url.rsplit('/').next() != Some(RELATION) {
        return Err(unsupported(&format!("the extension {} of the protocol", any.type_url)));
    }
    let relation = DeltaRelation::decode(any.value.as_slice()).map_err(undecodable)?;
    relation.kind.ok_or_else(|| incomplete("DeltaRelation"))
}

fn undecodable(error: prost::DecodeError) -> Error {
    Error::invalid("CONNECT_INVALID_PLAN.CANNOT_PARSE", "a message of Delta's client cannot be decoded")
        .caused_by(error)
        .with_sqlstate("56K00")
}

async fn answer(session: &ConnectSession, kind: relation::Kind) -> Result<RecordBatch> {
    match kind {
        relation::Kind::Scan(_) => Err(Error::internal("a table that is read gives no answer")),
        relation::Kind::DescribeHistory(of) => versions::history(session, &place(session, of.table.as_ref()).await?, None).await,
        relation::Kind::DescribeDetail(of) => versions::detail(session, &place(session, of.table.as_ref()).await?).await,
        relation::Kind::ConvertToDelta(convert) => {
            Err(unsupported(&format!("converting {} to Delta: read it and write it as a new table", convert.identifier)))
        }
        relation::Kind::RestoreTable(restore) => {
            let to = match restore.to {
                Some(restore::To::Version(version)) => versions::as_of(Some(version), None)?,
                Some(restore::To::Timestamp(time)) => versions::as_of(None, Some(time))?,
                None => return Err(incomplete("RestoreTable.version_or_timestamp")),
            };
            versions::restore(session, &place(session, restore.table.as_ref()).await?, &to).await
        }
        relation::Kind::IsDeltaTable(asked) => {
            let tables = session.engine.registry().versioned("delta");
            let found = match tables {
                Some(tables) => tables.open(&asked.path, &AsOf::Newest).await?.is_some(),
                None => false,
            };
            batch(vec![("value", Arc::new(BooleanArray::from(vec![found])) as ArrayRef)])
        }
        relation::Kind::DeleteFromTable(delete) => {
            let place = of_target(session, delete.target.as_ref(), "DELETE").await?;
            let text = delete.condition.as_ref().map(name_of);
            change::delete(session, &Delete { place, condition: delete.condition, text }).await
        }
        relation::Kind::UpdateTable(update) => {
            let place = of_target(session, update.target.as_ref(), "UPDATE TABLE").await?;
            let text = update.condition.as_ref().map(name_of);
            let assignments = assignments(update.assignments)?;
            change::update(session, &Update { place, assignments, condition: update.condition, text }).await
        }
        relation::Kind::MergeIntoTable(merge) => {
            let place = of_target(session, merge.target.as_ref(), "MERGE INTO TABLE").await?;
            let clauses = |actions: Vec<MergeAction>| actions.into_iter().map(clause).collect::<Result<Vec<_>>>();
            let merge = Merge {
                place,
                source: merge.source.ok_or_else(|| incomplete("MergeIntoTable.source"))?,
                condition: merge.condition.ok_or_else(|| incomplete("MergeIntoTable.condition"))?,
                matched: clauses(merge.matched_actions)?,
                not_matched: clauses(merge.not_matched_actions)?,
                not_matched_by_source: clauses(merge.not_matched_by_source_actions)?,
                evolves: merge.with_schema_evolution.unwrap_or(false) || evolves(session),
            };
            change::merge(session, &merge).await
        }
        relation::Kind::OptimizeTable(asked) => {
            let place = place(session, asked.table.as_ref()).await?;
            let filters = asked.partition_filters.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" AND ");
            let condition = (!filters.is_empty()).then(|| crate::sql::parse::expression(&filters)).transpose()?;
            versions::optimize(session, &Optimize { place, condition, zorder: asked.zorder_columns }).await
        }
    }
}

fn clause(action: MergeAction) -> Result<Clause> {
    let kind = match action.kind.ok_or_else(|| incomplete("MergeIntoTable.Action"))? {
        merge_action::Kind::Delete(_) => Action::Delete,
        merge_action::Kind::Update(update) => Action::Update(assignments(update.assignments)?),
        merge_action::Kind::UpdateStar(_) => Action::UpdateAll,
        merge_action::Kind::Insert(insert) => Action::Insert(assignments(insert.assignments)?),
        merge_action::Kind::InsertStar(_) => Action::InsertAll,
    };
    Ok(Clause { condition: action.condition, action: kind })
}

fn assignments(given: Vec<Assignment>) -> Result<Vec<(Expression, Expression)>> {
    let pair = |assignment: Assignment| Some((assignment.field?, assignment.value?));
    given.into_iter().map(pair).collect::<Option<Vec<_>>>().ok_or_else(|| incomplete("Assignment"))
}

/// The relation that reads a table.
fn read(table: Option<&DeltaTable>) -> Result<Relation> {
    let read_type = match table.and_then(|table| table.access.as_ref()) {
        Some(table::Access::Path(path)) => {
            let source = DataSource { format: Some("delta".to_owned()), paths: vec![path.path.clone()], ..DataSource::default() };
            ReadType::DataSource(source)
        }
        Some(table::Access::Name(name)) => ReadType::NamedTable(NamedTable { unparsed_identifier: name.clone(), ..NamedTable::default() }),
        None => return Err(incomplete("DeltaTable.access_type")),
    };
    Ok(Relation { common: None, rel_type: Some(RelType::Read(Read { is_streaming: false, read_type: Some(read_type) })) })
}

async fn place(session: &ConnectSession, table: Option<&DeltaTable>) -> Result<Place> {
    match table.and_then(|table| table.access.as_ref()) {
        Some(table::Access::Path(path)) => Ok(Place::of_path(&path.path)),
        Some(table::Access::Name(name)) => Place::of_name(session, &parts(name)?, "DeltaTable.forName").await,
        None => Err(incomplete("DeltaTable.access_type")),
    }
}

/// The table that a relation reads, under the names and frames around it.
async fn of_target(session: &ConnectSession, target: Option<&Relation>, operation: &str) -> Result<Place> {
    let mut relation = target.ok_or_else(|| incomplete("the table that is changed"))?;
    let (mut alias, mut plan_ids) = (None, Vec::new());
    loop {
        plan_ids.extend(relation.common.as_ref().and_then(|common| common.plan_id));
        match &relation.rel_type {
            Some(RelType::SubqueryAlias(inner)) => {
                alias = alias.or_else(|| Some(inner.alias.clone()));
                relation = inner.input.as_deref().ok_or_else(|| incomplete("SubqueryAlias.input"))?;
            }
            Some(RelType::Extension(any)) => {
                let relation::Kind::Scan(scan) = unpack(any)? else { return Err(unsupported("changing what is not a table")) };
                let mut place = place(session, scan.table.as_ref()).await?.called(alias);
                place.plan_ids = plan_ids;
                return Ok(place);
            }
            Some(RelType::Read(Read { read_type: Some(ReadType::NamedTable(named)), .. })) => {
                let mut place = Place::of_name(session, &parts(&named.unparsed_identifier)?, operation).await?.called(alias);
                place.plan_ids = plan_ids;
                return Ok(place);
            }
            _ => return Err(unsupported("changing what is not a table")),
        }
    }
}

/// Does what a command of Delta's says.
///
/// # Errors
/// `UNSUPPORTED_FEATURE` for extensions of others, and those of what it does.
pub(super) async fn command(session: &Session, any: &Any) -> Result<()> {
    if any.type_url.rsplit('/').next() != Some(COMMAND) {
        return Err(unsupported(&format!("the extension {} of the protocol", any.type_url)));
    }
    let command = DeltaCommand::decode(any.value.as_slice()).map_err(undecodable)?;
    match command.kind.ok_or_else(|| incomplete("DeltaCommand"))? {
        command::Kind::Vacuum(vacuum) => {
            let place = place(session, vacuum.table.as_ref()).await?;
            versions::vacuum(session, &place, vacuum.retention_hours, false).await.map(drop)
        }
        command::Kind::UpgradeProtocol(upgrade) => {
            let table = place(session, upgrade.table.as_ref()).await?.open(session).await?;
            let protocol = Some((upgrade.reader_version, upgrade.writer_version));
            let operation = Operation::new("UPGRADE PROTOCOL");
            table.alter(Alteration { operation, protocol, ..Alteration::default() }).await.map(drop)
        }
        command::Kind::AddFeature(feature) => {
            let table = place(session, feature.table.as_ref()).await?.open(session).await?;
            let operation = Operation::new("SET TBLPROPERTIES");
            table.alter(Alteration { operation, features: vec![feature.feature_name], ..Alteration::default() }).await.map(drop)
        }
        command::Kind::Create(create) => create_delta(session, create).await,
        command::Kind::Clone(_) => Err(unsupported("cloning tables: write the rows of one into another")),
        command::Kind::Generate(_) => Err(unsupported("manifests of Delta tables: readers take the log")),
        command::Kind::DropFeature(feature) => {
            Err(unsupported(&format!("dropping the table feature {}: make a new table of its rows", feature.feature_name)))
        }
    }
}

async fn create_delta(session: &Session, create: CreateDeltaTable) -> Result<()> {
    const IF_NOT_EXISTS: i32 = 2;
    const REPLACE: i32 = 3;
    const CREATE_OR_REPLACE: i32 = 4;
    let mut fields: Vec<Field> = Vec::with_capacity(create.columns.len());
    for column in &create.columns {
        if column.identity_info.is_some() {
            return Err(unsupported("identity columns"));
        }
        let field: Field = from_proto(column.data_type.as_ref().ok_or_else(|| incomplete("Column.data_type"))?)?;
        let mut metadata = field.metadata().clone();
        metadata.extend(column.comment.iter().map(|comment| (COMMENT.to_owned(), comment.clone())));
        metadata.extend(column.generated_always_as.iter().map(|text| (change::GENERATED.to_owned(), text.clone())));
        fields.push(Field::new(&column.name, field.data_type().clone(), column.nullable).with_metadata(metadata));
    }
    let new = NewTable {
        format: Some("delta".to_owned()),
        path: create.location.clone(),
        schema: Some(Schema::new(fields)),
        partition_by: create.partitioning_columns,
        clustering: create.clustering_columns,
        properties: create.properties.into_iter().collect(),
        comment: create.comment,
        replaces: matches!(create.mode, REPLACE | CREATE_OR_REPLACE),
        ..NewTable::default()
    };
    match (&create.table_name, &create.location) {
        (Some(name), _) => {
            let name_parts = parts(name)?;
            let name = TableName::of(session, &name_parts).ok_or_else(|| not_found(&name_parts))?;
            let known = Warehouse::open(session.host.as_ref())?.table(&name).await?;
            match create.mode {
                IF_NOT_EXISTS if known.is_some() => return Ok(()),
                REPLACE if known.is_none() => return Err(not_found(&name_parts)),
                _ => {}
            }
            create_table(session, &name, new).await.map(drop)
        }
        (None, Some(location)) => {
            let exists = session.engine.registry().versioned("delta").ok_or_else(|| unsupported("Delta tables"))?;
            let exists = exists.open(location, &AsOf::Newest).await?.is_some();
            match create.mode {
                IF_NOT_EXISTS if exists => Ok(()),
                REPLACE if !exists => {
                    let message = format!("there is no table at {location} to replace: create it");
                    Err(Error::invalid("DELTA_TABLE_NOT_FOUND", message).with_sqlstate("42P01"))
                }
                REPLACE | CREATE_OR_REPLACE => super::catalog::define(session, location, &new).await,
                _ if exists => {
                    let message = format!("there is a table at {location} already: replace it, or create it if it does not exist");
                    Err(Error::invalid("DELTA_TABLE_ALREADY_EXISTS", message).with_sqlstate("42P07"))
                }
                _ => super::catalog::define(session, location, &new).await,
            }
        }
        (None, None) => {
            let message = "Table name or location has to be specified.";
            Err(Error::invalid("DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION", message).with_sqlstate("42601"))
        }
    }
}

#[cfg(test)]
mod tests;
