//! `OPTIMIZE`: small files put together, and rows arranged by the columns that are searched.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::functions_window::expr_fn::ntile;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Partitioning, lit};
use millstream_core::versioned::{Change, DataFile, Operation, Reads, Removes, VersionedTable};
use millstream_core::{Error, Options, Result};
use millstream_engine::from_datafusion;
use serde_json::{Value, json};
use spark_connect_proto::Expression;

use super::{Session, typed_rows};
use crate::analyzer::{Attribute, apart, name_of};
use crate::connect::change::{Place, Scanned, Target, condition, internal, write};
use crate::functions::{Arguments, Kernel, Typed, scalar};

/// Files smaller than this are put together, up to this many bytes (`spark.databricks.delta.optimize.maxFileSize`).
const TARGET_BYTES: u64 = 1 << 30;

/// Ranges into which the values of a column are cut to be interleaved.
const RANGES: i64 = 1024;

/// The columns of the answer.
const ANSWER: &str = "path STRING, metrics STRUCT<numFilesAdded: BIGINT, numFilesRemoved: BIGINT, \
     filesAdded: STRUCT<min: BIGINT, max: BIGINT, avg: DOUBLE, totalFiles: BIGINT, totalSize: BIGINT>, \
     filesRemoved: STRUCT<min: BIGINT, max: BIGINT, avg: DOUBLE, totalFiles: BIGINT, totalSize: BIGINT>, \
     partitionsOptimized: BIGINT, zOrderStats: STRUCT<strategyName: STRING, inputCubeFiles: STRUCT<num: BIGINT, size: BIGINT>, \
     inputOtherFiles: STRUCT<num: BIGINT, size: BIGINT>, inputNumCubes: BIGINT, mergedFiles: STRUCT<num: BIGINT, size: BIGINT>, \
     numOutputCubes: BIGINT, mergedNumCubes: BIGINT>, numBatches: BIGINT, totalConsideredFiles: BIGINT, totalFilesSkipped: BIGINT, \
     preserveInsertionOrder: BOOLEAN, numFilesSkippedToReduceWriteAmplification: BIGINT, \
     numBytesSkippedToReduceWriteAmplification: BIGINT, startTimeMs: BIGINT, endTimeMs: BIGINT, totalClusterParallelism: BIGINT, \
     totalScheduledTasks: BIGINT, numTableColumns: BIGINT, numTableColumnsWithStats: BIGINT, totalTaskExecutionTimeMs: BIGINT>";

/// What to arrange.
#[derive(Clone, Debug)]
pub(in crate::connect) struct Optimize {
    /// The table.
    pub(in crate::connect) place: Place,
    /// Which partitions; all of them without it.
    pub(in crate::connect) condition: Option<Expression>,
    /// Columns to arrange rows by.
    pub(in crate::connect) zorder: Vec<String>,
}

/// Puts small files together. Gives Spark's figures.
///
/// # Errors
/// `DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST`, `DELTA_ZORDERING_ON_PARTITION_COLUMN`, and those of the table.
pub(in crate::connect) async fn optimize(session: &Session, optimize: &Optimize) -> Result<RecordBatch> {
    let started_ms = session.host.clock().now_ms();
    let target = Target::open(session, &optimize.place).await?;
    let table = target.table.clone();
    let facts = table.facts();
    for column in &optimize.zorder {
        check_zorder(&table, column)?;
    }
    let mut considered = target.all();
    if let Some(wanted) = &optimize.condition {
        let all = target.scan(&considered)?;
        let found = condition(session, wanted, &all.columns, "OPTIMIZE")?;
        considered = target.decided(&all, &found)?.ok_or_else(|| {
            let message = "OPTIMIZE takes conditions on partition columns only: leave the others out of WHERE";
            Error::invalid("DELTA_UNSUPPORTED_PARTITION_PREDICATES", message).with_sqlstate("0AKDC")
        })?;
    }
    let arranged: &[String] = if optimize.zorder.is_empty() { &facts.clustering_columns } else { &optimize.zorder };
    let chosen = chosen(table.files(), &considered, !arranged.is_empty());
    let partitions = by_partition(table.files(), &chosen).len();
    let mut figures = (0, 0, 0, 0);
    if !chosen.is_empty() {
        let scanned = target.scan(&chosen)?;
        let plan = arrange(&scanned, arranged, &facts.partition_columns)?;
        let predicate = optimize.condition.as_ref().map(name_of);
        let operation = Operation::new("OPTIMIZE")
            .with("predicate", json!(predicate.into_iter().collect::<Vec<_>>()).to_string())
            .with("zOrderBy", json!(optimize.zorder).to_string())
            .with("clusterBy", json!(facts.clustering_columns).to_string())
            .with("auto", "false");
        let change = Change {
            operation,
            removes: Removes::Files(chosen.clone()),
            reads: Reads::Table,
            rearranges: true,
            checked: crate::connect::change::Constraints::features(),
            options: Options::new().with("targetFileSize", TARGET_BYTES.to_string()),
            ..Change::default()
        };
        if let Some(done) = write(session, plan, table.change(change).await?).await? {
            let of = |name: &str| done.of(name);
            figures = (of("numAddedFiles"), of("numAddedBytes"), of("numRemovedFiles"), of("numRemovedBytes"));
        }
    }
    let ended_ms = session.host.clock().now_ms();
    let sizes = |count: i64, bytes: i64, least: Option<u64>, most: Option<u64>| json!({"min": least, "max": most, "avg": if count == 0 { 0.0 } else { bytes as f64 / count as f64 }, "totalFiles": count, "totalSize": bytes});
    let old = || chosen.iter().filter_map(|place| table.files().get(*place)).map(|file| file.size);
    let zorder = match optimize.zorder.is_empty() {
        true => Value::Null,
        false => {
            json!({"strategyName": "all", "inputCubeFiles": {"num": 0, "size": 0}, "inputOtherFiles": {"num": figures.2, "size": figures.3},
            "inputNumCubes": 0, "mergedFiles": {"num": figures.2, "size": figures.3}, "numOutputCubes": partitions})
        }
    };
    let metrics = json!({
        "numFilesAdded": figures.0,
        "numFilesRemoved": figures.2,
        "filesAdded": sizes(figures.0, figures.1, None, None),
        "filesRemoved": sizes(figures.2, figures.3, old().min(), old().max()),
        "partitionsOptimized": partitions,
        "zOrderStats": zorder,
        "numBatches": i64::from(!chosen.is_empty()),
        "totalConsideredFiles": considered.len(),
        "totalFilesSkipped": considered.len() - chosen.len(),
        "preserveInsertionOrder": false,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": started_ms,
        "endTimeMs": ended_ms,
        "totalClusterParallelism": 1,
        "totalScheduledTasks": 1,
        "numTableColumns": table.schema().fields().len(),
        "numTableColumnsWithStats": table.schema().fields().len(),
        "totalTaskExecutionTimeMs": ended_ms - started_ms,
    });
    let path = facts.location.trim_end_matches('/').replacen("file:///", "file:/", 1);
    typed_rows(session, ANSWER, vec![json!({"path": path, "metrics": metrics})]).await
}

fn check_zorder(table: &Arc<dyn VersionedTable>, column: &str) -> Result<()> {
    if table.facts().partition_columns.iter().any(|known| known.eq_ignore_ascii_case(column)) {
        let message = format!("{column} is a partition column. Z-Ordering can only be performed on data columns");
        return Err(Error::invalid("DELTA_ZORDERING_ON_PARTITION_COLUMN", message).with_sqlstate("42P10"));
    }
    if !table.schema().fields().iter().any(|field| field.name().eq_ignore_ascii_case(column)) {
        let message = format!("Z-Ordering column {column} does not exist in the table: check its name");
        return Err(Error::invalid("DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST", message).with_sqlstate("42703"));
    }
    Ok(())
}

fn by_partition<'a>(files: &'a [DataFile], places: &[usize]) -> BTreeMap<&'a BTreeMap<String, Option<String>>, Vec<usize>> {
    let mut groups: BTreeMap<&BTreeMap<String, Option<String>>, Vec<usize>> = BTreeMap::new();
    for place in places {
        if let Some(file) = files.get(*place) {
            groups.entry(&file.partition).or_default().push(*place);
        }
    }
    groups
}

/// The files worth rewriting: all of them to arrange rows, else small ones that are not alone in their partition, and those with deletions.
fn chosen(files: &[DataFile], considered: &[usize], arranges: bool) -> Vec<usize> {
    if arranges {
        return considered.to_vec();
    }
    let worth = |place: &usize| files.get(*place).is_some_and(|file| file.size < TARGET_BYTES || file.has_deletions);
    let mut chosen: Vec<usize> = Vec::new();
    for group in by_partition(files, considered).into_values() {
        let small: Vec<usize> = group.into_iter().filter(worth).collect();
        let alone = small.len() < 2 && !small.iter().any(|place| files.get(*place).is_some_and(|file| file.has_deletions));
        if !alone {
            chosen.extend(small);
        }
    }
    chosen.sort_unstable();
    chosen
}

/// The rows, those of a partition together and in the order of the columns that they are arranged by.
fn arrange(scanned: &Scanned, by: &[String], partitions: &[String]) -> Result<LogicalPlan> {
    let named = |name: &String| scanned.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name));
    let mut plan = LogicalPlanBuilder::from(scanned.rows.plan.clone());
    let keys: Vec<&Attribute> = by.iter().filter_map(named).collect();
    let partitioned: Vec<Expr> = partitions.iter().filter_map(named).map(internal).collect();
    if keys.is_empty() {
        plan = match partitioned.is_empty() {
            true => plan.repartition(Partitioning::RoundRobinBatch(1)).map_err(from_datafusion)?,
            false => plan.repartition(Partitioning::Hash(partitioned, 1)).map_err(from_datafusion)?,
        };
    } else {
        let ranges: Vec<Expr> = keys
            .iter()
            .enumerate()
            .map(|(place, key)| {
                let ranked = ntile(lit(RANGES)).order_by(vec![internal(key).sort(true, true)]).build();
                ranked.map(|ranked| ranked.alias(format!("__millstream_range{place}"))).map_err(from_datafusion)
            })
            .collect::<Result<_>>()?;
        let names: Vec<String> = (0..ranges.len()).map(|place| format!("__millstream_range{place}")).collect();
        plan = plan.window(ranges).map_err(from_datafusion)?;
        let ranks = names.iter().map(|name| {
            let column = Expr::Column(datafusion::common::Column::new_unqualified(name));
            Typed::new(datafusion::logical_expr::cast(column, DataType::Int64), DataType::Int64, true)
        });
        let key = scalar("interleaved", Interleave, ranks.collect(), DataType::Binary, false).expr;
        let order = partitioned.into_iter().chain([key]).map(|expr| expr.sort(true, true)).collect::<Vec<_>>();
        plan = plan.sort(order).map_err(from_datafusion)?;
    }
    let columns: Vec<Expr> = scanned.columns.iter().map(|column| apart::value_of(column).expr.alias(&column.name)).collect();
    plan.project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

/// The bits of several numbers in turn, from the highest: rows that are near in all of them are near in this.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Interleave;

/// Bits of each number.
const BITS: usize = 10;

impl Kernel for Interleave {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let numbers: Option<Vec<_>> = columns.iter().map(|column| column.as_primitive_opt::<Int64Type>()).collect();
        let numbers = numbers.ok_or_else(|| Error::internal("a range is no number"))?;
        let mut out = BinaryBuilder::new();
        for row in 0..arguments.rows() {
            let values: Vec<i64> =
                numbers.iter().map(|column| if column.is_valid(row) { (column.value(row) - 1).clamp(0, RANGES - 1) } else { 0 }).collect();
            out.append_value(interleaved(&values));
        }
        Ok(Arc::new(out.finish()))
    }
}

fn interleaved(values: &[i64]) -> Vec<u8> {
    let mut bytes = vec![0_u8; (values.len() * BITS).div_ceil(8)];
    let mut place = 0;
    for bit in (0..BITS).rev() {
        for value in values {
            if value >> bit & 1 == 1
                && let Some(byte) = bytes.get_mut(place / 8)
            {
                *byte |= 0x80 >> (place % 8);
            }
            place += 1;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_are_put_together_and_lone_ones_stay() {
        let file = |p: &str, size: u64, has_deletions: bool| DataFile {
            partition: [("p".to_owned(), Some(p.to_owned()))].into(),
            size,
            has_deletions,
            ..DataFile::default()
        };
        let files = [file("a", 10, false), file("a", 20, false), file("b", 10, false), file("c", 10, true), file("a", TARGET_BYTES, false)];
        let all: Vec<usize> = (0..files.len()).collect();
        assert_eq!(chosen(&files, &all, false), [0, 1, 3]);
        assert_eq!(chosen(&files, &all, true), all);
    }

    #[test]
    fn near_rows_have_near_keys() {
        assert!(interleaved(&[0, 0]) < interleaved(&[1, 0]) && interleaved(&[1, 1]) < interleaved(&[2, 0]));
        assert!(interleaved(&[511, 511]) < interleaved(&[512, 0]));
        assert_eq!(interleaved(&[1023, 1023]), [0xff, 0xff, 0xf0]);
    }
}
