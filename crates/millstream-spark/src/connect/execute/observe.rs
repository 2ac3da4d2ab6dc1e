//! Metrics that users observe on the way of rows (`df.observe`): computed by an aggregation of their own when the rows were sent.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalUnit, IntervalYearMonthType, TimeUnit, TimestampMicrosecondType,
};
use futures::TryStreamExt;
use millstream_core::Result;
use spark_connect_proto::aggregate::GroupType;
use spark_connect_proto::execute_plan_response::ObservedMetrics;
use spark_connect_proto::expression::Literal;
use spark_connect_proto::expression::literal::{Decimal, LiteralType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Aggregate, Relation};

use super::query::visible_plan;
use crate::analyzer::{Analyzed, visit};
use crate::connect::session::ConnectSession;
use crate::functions::cast::{TextStyle, text_of};
use crate::types::to_proto;

/// Metrics to compute.
#[derive(Debug)]
pub(super) struct Observation {
    name: String,
    plan_id: i64,
    metrics: Analyzed,
}

/// The observations in a plan.
///
/// # Errors
/// Those of analyzing the metrics.
pub(super) async fn requested(session: &Arc<ConnectSession>, relation: &Relation) -> Result<Vec<Observation>> {
    let mut observations = Vec::new();
    for (name, plan_id, metrics) in aggregations(&mut relation.clone()) {
        observations.push(Observation { name, plan_id, metrics: session.analyze(&metrics).await? });
    }
    Ok(observations)
}

/// The metrics of every `CollectMetrics` as an aggregation of its input.
fn aggregations(relation: &mut Relation) -> Vec<(String, i64, Relation)> {
    let mut found = Vec::new();
    if let Some(RelType::CollectMetrics(collect)) = &relation.rel_type {
        let aggregate = Aggregate {
            input: collect.input.clone(),
            group_type: GroupType::Groupby.into(),
            aggregate_expressions: collect.metrics.clone(),
            ..Aggregate::default()
        };
        let plan_id = relation.common.as_ref().and_then(|common| common.plan_id).unwrap_or_default();
        let metrics = Relation { common: None, rel_type: Some(RelType::Aggregate(Box::new(aggregate))) };
        found.push((collect.name.clone(), plan_id, metrics));
    }
    found.extend(visit::inputs(relation).into_iter().flat_map(aggregations));
    found
}

/// Computes the metrics.
///
/// # Errors
/// Those of running the aggregations.
pub(super) async fn compute(session: &Arc<ConnectSession>, observations: Vec<Observation>) -> Result<Vec<ObservedMetrics>> {
    let mut computed = Vec::new();
    for Observation { name, plan_id, metrics } in observations {
        let schema = metrics.schema();
        let (_, rows) = session.engine.rows(visible_plan(metrics)?).await?;
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        let row = batches.iter().find(|batch| batch.num_rows() > 0);
        let values = schema.fields().iter().enumerate().map(|(index, field)| match row {
            Some(row) => literal(row.column(index), field),
            None => Ok(null(field)),
        });
        computed.push(ObservedMetrics {
            name,
            plan_id,
            keys: schema.fields().iter().map(|field| field.name().clone()).collect(),
            values: values.collect::<Result<_>>()?,
            ..ObservedMetrics::default()
        });
    }
    Ok(computed)
}

fn null(field: &Field) -> Literal {
    Literal { literal_type: Some(LiteralType::Null(to_proto(field))), ..Literal::default() }
}

/// The first value of a column. Values of types that literals do not have are sent as their text.
fn literal(column: &Arc<dyn Array>, field: &Field) -> Result<Literal> {
    if column.is_empty() || column.is_null(0) {
        return Ok(null(field));
    }
    let value = match column.data_type() {
        DataType::Boolean => column.as_boolean_opt().map(|values| LiteralType::Boolean(values.value(0))),
        DataType::Int8 => column.as_primitive_opt::<Int8Type>().map(|values| LiteralType::Byte(values.value(0).into())),
        DataType::Int16 => column.as_primitive_opt::<Int16Type>().map(|values| LiteralType::Short(values.value(0).into())),
        DataType::Int32 => column.as_primitive_opt::<Int32Type>().map(|values| LiteralType::Integer(values.value(0))),
        DataType::Int64 => column.as_primitive_opt::<Int64Type>().map(|values| LiteralType::Long(values.value(0))),
        DataType::Float32 => column.as_primitive_opt::<Float32Type>().map(|values| LiteralType::Float(values.value(0))),
        DataType::Float64 => column.as_primitive_opt::<Float64Type>().map(|values| LiteralType::Double(values.value(0))),
        DataType::Decimal128(precision, scale) => column.as_primitive_opt::<Decimal128Type>().map(|values| {
            LiteralType::Decimal(Decimal {
                value: values.value_as_string(0),
                precision: Some(i32::from(*precision)),
                scale: Some(i32::from(*scale)),
            })
        }),
        DataType::Date32 => column.as_primitive_opt::<Date32Type>().map(|values| LiteralType::Date(values.value(0))),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => column.as_primitive_opt::<TimestampMicrosecondType>().map(|values| {
            let micros = values.value(0);
            if zone.is_some() { LiteralType::Timestamp(micros) } else { LiteralType::TimestampNtz(micros) }
        }),
        DataType::Duration(TimeUnit::Microsecond) => {
            column.as_primitive_opt::<DurationMicrosecondType>().map(|values| LiteralType::DayTimeInterval(values.value(0)))
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            column.as_primitive_opt::<IntervalYearMonthType>().map(|values| LiteralType::YearMonthInterval(values.value(0)))
        }
        DataType::Binary => column.as_binary_opt::<i32>().map(|values| LiteralType::Binary(values.value(0).to_vec().into())),
        _ => None,
    };
    let value = match value {
        Some(value) => value,
        None => {
            let texts = text_of(&column.slice(0, 1), field, &TextStyle::cast(crate::functions::TimeZone::Region(chrono_tz::UTC)))?;
            LiteralType::String(texts.value(0).to_owned())
        }
    };
    Ok(Literal { literal_type: Some(value), ..Literal::default() })
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Decimal128Array, Int64Array, StringArray};
    use spark_connect_proto::{CollectMetrics, Limit, Range};

    use super::*;

    #[test]
    fn every_observation_of_a_plan_is_found() {
        let range = Relation { common: None, rel_type: Some(RelType::Range(Range { end: 3, step: 1, ..Range::default() })) };
        let observe = |name: &str, input: Relation| Relation {
            common: None,
            rel_type: Some(RelType::CollectMetrics(Box::new(CollectMetrics {
                input: Some(Box::new(input)),
                name: name.to_owned(),
                metrics: vec![],
            }))),
        };
        let inner = observe("inner", range);
        let limit = Relation { common: None, rel_type: Some(RelType::Limit(Box::new(Limit { input: Some(Box::new(inner)), limit: 1 }))) };
        let names: Vec<String> = aggregations(&mut observe("outer", limit)).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["outer", "inner"]);
    }

    #[test]
    fn values_become_literals() {
        let cases: [(ArrayRef, LiteralType); 3] = [
            (Arc::new(Int64Array::from(vec![7])), LiteralType::Long(7)),
            (Arc::new(StringArray::from(vec!["x"])), LiteralType::String("x".into())),
            (
                Arc::new(Decimal128Array::from(vec![150]).with_precision_and_scale(10, 2).unwrap()),
                LiteralType::Decimal(Decimal { value: "1.50".into(), precision: Some(10), scale: Some(2) }),
            ),
        ];
        for (column, expected) in cases {
            let field = Field::new("m", column.data_type().clone(), true);
            assert_eq!(literal(&column, &field).unwrap().literal_type, Some(expected));
        }
    }
}
