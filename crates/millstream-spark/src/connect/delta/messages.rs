//! The messages by which Delta's Python client asks for its tables (`delta.connect`), which come packed into the extension points of Spark
//! Connect's relations and commands. Field numbers are the protocol's.

use std::collections::HashMap;

use spark_connect_proto::{DataType, Expression, Relation};

/// The type URLs' last parts.
pub(super) const RELATION: &str = "delta.connect.DeltaRelation";
pub(super) const COMMAND: &str = "delta.connect.DeltaCommand";

/// A table by its path or its name.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeltaTable {
    #[prost(oneof = "table::Access", tags = "1, 2")]
    pub(super) access: Option<table::Access>,
}

pub(super) mod table {
    use std::collections::HashMap;

    /// A path, with settings of the file system, which mean nothing here.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(in crate::connect::delta) struct Path {
        #[prost(string, tag = "1")]
        pub(in crate::connect::delta) path: String,
        #[prost(map = "string, string", tag = "2")]
        pub(in crate::connect::delta) hadoop_conf: HashMap<String, String>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(in crate::connect::delta) enum Access {
        #[prost(message, tag = "1")]
        Path(Path),
        #[prost(string, tag = "2")]
        Name(String),
    }
}

/// What gives rows.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeltaRelation {
    #[prost(oneof = "relation::Kind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub(super) kind: Option<relation::Kind>,
}

pub(super) mod relation {
    use super::{ConvertToDelta, DeleteFromTable, IsDeltaTable, MergeIntoTable, OfTable, OptimizeTable, RestoreTable, UpdateTable};

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(in crate::connect::delta) enum Kind {
        #[prost(message, tag = "1")]
        Scan(OfTable),
        #[prost(message, tag = "2")]
        DescribeHistory(OfTable),
        #[prost(message, tag = "3")]
        DescribeDetail(OfTable),
        #[prost(message, tag = "4")]
        ConvertToDelta(ConvertToDelta),
        #[prost(message, tag = "5")]
        RestoreTable(RestoreTable),
        #[prost(message, tag = "6")]
        IsDeltaTable(IsDeltaTable),
        #[prost(message, tag = "7")]
        DeleteFromTable(Box<DeleteFromTable>),
        #[prost(message, tag = "8")]
        UpdateTable(Box<UpdateTable>),
        #[prost(message, tag = "9")]
        MergeIntoTable(Box<MergeIntoTable>),
        #[prost(message, tag = "10")]
        OptimizeTable(OptimizeTable),
    }
}

/// Something about a table, without more to say.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OfTable {
    #[prost(message, optional, tag = "1")]
    pub(super) table: Option<DeltaTable>,
}

/// A folder of parquet files that becomes a table.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ConvertToDelta {
    #[prost(string, tag = "1")]
    pub(super) identifier: String,
}

/// A table that becomes what it was.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RestoreTable {
    #[prost(message, optional, tag = "1")]
    pub(super) table: Option<DeltaTable>,
    #[prost(oneof = "restore::To", tags = "2, 3")]
    pub(super) to: Option<restore::To>,
}

pub(super) mod restore {
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(in crate::connect::delta) enum To {
        #[prost(int64, tag = "2")]
        Version(i64),
        #[prost(string, tag = "3")]
        Timestamp(String),
    }
}

/// Whether there is a table at a path.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct IsDeltaTable {
    #[prost(string, tag = "1")]
    pub(super) path: String,
}

/// `DeltaTable.delete(…)`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeleteFromTable {
    #[prost(message, optional, tag = "1")]
    pub(super) target: Option<Relation>,
    #[prost(message, optional, tag = "2")]
    pub(super) condition: Option<Expression>,
}

/// `DeltaTable.update(…)`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct UpdateTable {
    #[prost(message, optional, tag = "1")]
    pub(super) target: Option<Relation>,
    #[prost(message, optional, tag = "2")]
    pub(super) condition: Option<Expression>,
    #[prost(message, repeated, tag = "3")]
    pub(super) assignments: Vec<Assignment>,
}

/// A column and its value.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Assignment {
    #[prost(message, optional, tag = "1")]
    pub(super) field: Option<Expression>,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<Expression>,
}

/// `DeltaTable.merge(…)`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MergeIntoTable {
    #[prost(message, optional, tag = "1")]
    pub(super) target: Option<Relation>,
    #[prost(message, optional, tag = "2")]
    pub(super) source: Option<Relation>,
    #[prost(message, optional, tag = "3")]
    pub(super) condition: Option<Expression>,
    #[prost(message, repeated, tag = "4")]
    pub(super) matched_actions: Vec<MergeAction>,
    #[prost(message, repeated, tag = "5")]
    pub(super) not_matched_actions: Vec<MergeAction>,
    #[prost(message, repeated, tag = "6")]
    pub(super) not_matched_by_source_actions: Vec<MergeAction>,
    #[prost(bool, optional, tag = "7")]
    pub(super) with_schema_evolution: Option<bool>,
}

/// One `WHEN` of a merge.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MergeAction {
    #[prost(message, optional, tag = "1")]
    pub(super) condition: Option<Expression>,
    #[prost(oneof = "merge_action::Kind", tags = "2, 3, 4, 5, 6")]
    pub(super) kind: Option<merge_action::Kind>,
}

pub(super) mod merge_action {
    use super::{Assignments, Nothing};

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(in crate::connect::delta) enum Kind {
        #[prost(message, tag = "2")]
        Delete(Nothing),
        #[prost(message, tag = "3")]
        Update(Assignments),
        #[prost(message, tag = "4")]
        UpdateStar(Nothing),
        #[prost(message, tag = "5")]
        Insert(Assignments),
        #[prost(message, tag = "6")]
        InsertStar(Nothing),
    }
}

/// A message without fields.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Nothing {}

/// Columns and their values.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Assignments {
    #[prost(message, repeated, tag = "1")]
    pub(super) assignments: Vec<Assignment>,
}

/// Small files put together.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OptimizeTable {
    #[prost(message, optional, tag = "1")]
    pub(super) table: Option<DeltaTable>,
    #[prost(string, repeated, tag = "2")]
    pub(super) partition_filters: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) zorder_columns: Vec<String>,
}

/// What gives no rows.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeltaCommand {
    #[prost(oneof = "command::Kind", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(super) kind: Option<command::Kind>,
}

pub(super) mod command {
    use super::{CreateDeltaTable, Feature, OfTable, UpgradeTableProtocol, VacuumTable};

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(in crate::connect::delta) enum Kind {
        #[prost(message, tag = "1")]
        Clone(OfTable),
        #[prost(message, tag = "2")]
        Vacuum(VacuumTable),
        #[prost(message, tag = "3")]
        UpgradeProtocol(UpgradeTableProtocol),
        #[prost(message, tag = "4")]
        Generate(OfTable),
        #[prost(message, tag = "5")]
        Create(CreateDeltaTable),
        #[prost(message, tag = "6")]
        AddFeature(Feature),
        #[prost(message, tag = "7")]
        DropFeature(Feature),
    }
}

/// Files that nobody needs.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct VacuumTable {
    #[prost(message, optional, tag = "1")]
    pub(super) table: Option<DeltaTable>,
    #[prost(double, optional, tag = "2")]
    pub(super) retention_hours: Option<f64>,
}

/// Newer versions of the protocol.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct UpgradeTableProtocol {
    #[prost(message, optional, tag = "1")]
    pub(super) table: Option<DeltaTable>,
    #[prost(int32, tag = "2")]
    pub(super) reader_version: i32,
    #[prost(int32, tag = "3")]
    pub(super) writer_version: i32,
}

/// A feature of a table.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Feature {
    #[prost(message, optional, tag = "1")]
    pub(super) table: Option<DeltaTable>,
    #[prost(string, tag = "2")]
    pub(super) feature_name: String,
}

/// `DeltaTable.create(…)` and its like.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CreateDeltaTable {
    /// 1 to create, 2 unless it exists, 3 to replace, 4 to create or replace.
    #[prost(int32, tag = "1")]
    pub(super) mode: i32,
    #[prost(string, optional, tag = "2")]
    pub(super) table_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) location: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(super) comment: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) columns: Vec<Column>,
    #[prost(string, repeated, tag = "6")]
    pub(super) partitioning_columns: Vec<String>,
    #[prost(map = "string, string", tag = "7")]
    pub(super) properties: HashMap<String, String>,
    #[prost(string, repeated, tag = "8")]
    pub(super) clustering_columns: Vec<String>,
}

/// A column of a new table.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Column {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) data_type: Option<DataType>,
    #[prost(bool, tag = "3")]
    pub(super) nullable: bool,
    #[prost(string, optional, tag = "4")]
    pub(super) generated_always_as: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub(super) comment: Option<String>,
    #[prost(message, optional, tag = "6")]
    pub(super) identity_info: Option<Nothing>,
}
