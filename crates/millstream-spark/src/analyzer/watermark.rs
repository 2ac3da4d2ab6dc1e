//! `withWatermark`.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::Column;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::plan::is_streaming;
use millstream_engine::stateful::{WATERMARK_DELAY, Watermark, delay_ms};
use spark_connect_proto::WithWatermark;

use super::expression::{Resolver, Scope, name_parts};
use super::relation::{Analyzer, Node};
use crate::functions::Typed;
use crate::types::ddl_type;

impl Analyzer<'_> {
    pub(super) fn with_watermark(&self, with: &WithWatermark, outer: Option<&Scope<'_>>) -> Result<Node> {
        let mut input = self.input(with.input.as_deref(), outer)?;
        let delay = match self.interval_of(&Typed::text(&with.delay_threshold))? {
            ScalarValue::IntervalMonthDayNano(Some(delay)) => delay_ms(delay.months, delay.days, delay.nanoseconds / 1_000)?,
            _ => return Err(Error::internal("a delay is an interval")),
        };
        // Over a table there is nothing to wait for: Spark leaves the watermark out before it looks at the column.
        if !is_streaming(&input.plan)? {
            return Ok(input);
        }
        let parts = name_parts(&with.event_time)?;
        let scope = Scope { columns: &input.columns, outer: None, computed: &[] };
        let resolver = Resolver::new(self.settings, &scope, self);
        let place = match resolver.place(&parts) {
            Ok(place) => place,
            Err(error) => {
                let attribute = spark_connect_proto::expression::UnresolvedAttribute {
                    unparsed_identifier: with.event_time.clone(),
                    ..Default::default()
                };
                let kind = spark_connect_proto::expression::ExprType::UnresolvedAttribute(attribute);
                let nested = resolver.value(&spark_connect_proto::Expression { common: None, expr_type: Some(kind) });
                return Err(match nested {
                    Ok(_) => Error::invalid(
                        "EVENT_TIME_MUST_BE_TOP_LEVEL_COLUMN",
                        format!("the event time '{}' is inside of a column: make it a column of its own first", with.event_time),
                    )
                    .with_sqlstate("42K09"),
                    Err(_) => error,
                });
            }
        };
        let Some(column) = input.columns.get(place) else { return Err(Error::internal("a column that was found is not there")) };
        if !is_event_time(&column.data_type) {
            return Err(Error::invalid(
                "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE",
                format!("the event time `{}` is a \"{}\" and not a \"TIMESTAMP\"", column.name, ddl_type(&column.data_type)),
            )
            .with_sqlstate("42K09"));
        }
        let plan = Watermark::try_new(input.plan, Column::new_unqualified(column.internal.clone()), delay)?.into_plan();
        for (index, column) in input.columns.iter_mut().enumerate() {
            if index == place {
                column.metadata.insert(WATERMARK_DELAY.to_owned(), delay.to_string());
            } else {
                column.metadata.remove(WATERMARK_DELAY);
            }
        }
        Ok(Node { plan, ..input })
    }
}

/// Event time is an instant, or a window of instants.
fn is_event_time(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, zone) => zone.is_some(),
        DataType::Struct(fields) => fields.iter().any(|field| field.name() == "end" && is_event_time(field.data_type())),
        _ => false,
    }
}
