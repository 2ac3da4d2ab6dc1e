//! Time windows: `window`, `session_window` and `window_time`.
//!
//! As in Spark a window is a column that is computed below the operator that names it. Windows are aligned to UTC whatever the time zone of
//! the session; rows without a time are dropped; sliding windows multiply rows, unless the engine finds a cheaper way to the same result.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray, TimestampMicrosecondArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit, TimestampMicrosecondType};
use datafusion::common::metadata::FieldMetadata;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, lit};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::stateful::{Slide, SlidingWindow, WATERMARK_DELAY};
use spark_connect_proto::Expression;
use spark_connect_proto::expression::ExprType;

use super::Attribute;
use super::aggregate::calls_of;
use super::columns::{item, project};
use super::expression::{Resolver, Scope};
use super::filter::filtered;
use super::relation::{Analyzer, Node};
use crate::functions::cast::CastMode;
use crate::functions::{Arguments, Kernel, Typed, cast, coercion, faults, scalar};
use crate::types;

const WINDOW: &str = "spark.timeWindow";
const SESSION: &str = "spark.sessionWindow";

const FUNCTIONS: &[&str] = &["window", "session_window", "window_time"];

/// Whether a column is a session window.
pub(super) fn is_session(column: &Attribute) -> bool {
    column.metadata.contains_key(SESSION)
}

/// The expression as event time if the window is of event time.
pub(super) fn marked(expr: Expr, window: &Attribute) -> Expr {
    match window.metadata.get(WATERMARK_DELAY) {
        Some(delay) => {
            let metadata = HashMap::from([(WATERMARK_DELAY.to_owned(), delay.clone())]);
            expr.alias_with_metadata("start", Some(FieldMetadata::from(metadata)))
        }
        None => expr,
    }
}

/// The columns of a relation that time windows were added to: in Spark they are the first columns of a filter or sort that names them.
pub(super) fn windows_first(before: usize, columns: &[Attribute]) -> Vec<Attribute> {
    let (old, new) = columns.split_at(before.min(columns.len()));
    let new = new.iter().map(|window| Attribute { hidden: false, ..window.clone() });
    new.chain(old.iter().cloned()).collect()
}

impl Analyzer<'_> {
    /// The relation with the time windows in expressions as hidden columns, and where each is.
    pub(super) fn with_time_windows(
        &self,
        input: Node,
        expressions: &[&Expression],
        outer: Option<&Scope<'_>>,
    ) -> Result<(Node, Vec<(Expression, usize)>)> {
        let calls = calls_of(expressions, FUNCTIONS);
        let mut node = input;
        let mut computed: Vec<(Expression, usize)> = Vec::new();
        let mut windows = 0;
        for call in calls {
            let (name, arguments) = match &call.expr_type {
                Some(ExprType::UnresolvedFunction(function)) => (function.function_name.to_lowercase(), function.arguments.as_slice()),
                Some(ExprType::CallFunction(function)) => (function.function_name.to_lowercase(), function.arguments.as_slice()),
                _ => continue,
            };
            let (inner, of_arguments) = self.with_time_windows(node, &arguments.iter().collect::<Vec<_>>(), outer)?;
            node = inner;
            let scope = Scope { columns: &node.columns, outer, computed: &of_arguments };
            let resolver = Resolver::new(self.settings, &scope, self);
            let values = arguments.iter().map(|argument| resolver.value(argument)).collect::<Result<Vec<_>>>()?;
            if name == "window_time" {
                node = self.window_time(node, &call, values)?;
            } else {
                windows += 1;
                if windows > 1 {
                    return Err(Error::invalid(
                        "_LEGACY_ERROR_TEMP_1039",
                        "Multiple time/session window expressions would result in a cartesian product of rows, therefore they are \
                         currently not supported.",
                    ));
                }
                node = if name == "window" { self.time_window(node, values)? } else { self.session_window(node, values)? };
            }
            computed.push((call, node.columns.len().saturating_sub(1)));
        }
        Ok((node, computed))
    }

    fn time_window(&self, node: Node, values: Vec<Typed>) -> Result<Node> {
        let (time, durations) = match values.as_slice() {
            [time, durations @ ..] if (1..=3).contains(&durations.len()) => (time.clone(), durations),
            _ => return Err(faults::wrong_number("window", "[2, 3, 4]", values.len())),
        };
        let micros = durations.iter().map(|duration| self.micros(duration)).collect::<Result<Vec<i64>>>()?;
        let (width, slide, start) = match micros.as_slice() {
            [width] => (*width, *width, 0),
            [width, slide] => (*width, *slide, 0),
            [width, slide, start, ..] => (*width, *slide, *start),
            [] => return Err(faults::wrong_number("window", "[2, 3, 4]", 1)),
        };
        check(width, slide, start)?;
        let time = self.time_of("window", time)?;
        let mut metadata = time.metadata.clone();
        metadata.insert(WINDOW.to_owned(), "true".to_owned());
        let slide = Slide { width, slide, start };
        // A row is in one window, or in as many as overlap: only then can Spark's column be null.
        let nullable = slide.width != slide.slide;
        // Rows without event time are in no window; a filter would have to stay above the watermark, and cost what it costs.
        let plan = match time.metadata.contains_key(WATERMARK_DELAY) {
            true => node.plan,
            false => filtered(node.plan, time.expr.clone().is_not_null())?,
        };
        let value = Typed::new(time.expr.clone(), bounds_type(&time.data_type), nullable).with_metadata(metadata);
        let attribute = Attribute::of("window", &value).hidden();
        let time = item(&time, &super::columns::fresh(), &plan)?;
        let plan = SlidingWindow::try_new(plan, time, slide, &attribute.internal)?.into_plan();
        let mut columns = node.columns;
        columns.push(attribute);
        Ok(Node { plan, columns, below: node.below, grouped: node.grouped })
    }

    fn session_window(&self, node: Node, values: Vec<Typed>) -> Result<Node> {
        let [time, gap] = values.as_slice() else { return Err(faults::wrong_number("session_window", 2, values.len())) };
        let time = self.time_of("session_window", time.clone())?;
        let gap = match &gap.data_type {
            DataType::Utf8 => cast::explicit(gap.clone(), &DataType::Interval(IntervalUnit::MonthDayNano), CastMode::Try, self.settings)?,
            DataType::Interval(_) | DataType::Duration(_) | DataType::Null => gap.clone(),
            other => return Err(faults::unexpected_type("session_window", 1, "\"INTERVAL\"", other)),
        };
        let no_gap = coercion::constant_of(&gap).is_some_and(|gap| gap.is_null());
        let scope = Scope { columns: &node.columns, ..Scope::default() };
        let end = Resolver::new(self.settings, &scope, self).call("+", vec![Typed { metadata: HashMap::new(), ..time.clone() }, gap])?;
        let mut metadata = time.metadata.clone();
        metadata.insert(SESSION.to_owned(), "true".to_owned());
        let session = bounds_type(&time.data_type);
        let kernel = Bounds { time: time.data_type.clone() };
        let value = scalar("session_window", kernel, vec![time.clone(), end.clone()], session, false).with_metadata(metadata);
        let attribute = Attribute::of("session_window", &value);
        let mut items: Vec<Expr> = node.columns.iter().map(Attribute::column).collect();
        items.push(item(&value, &attribute.internal, &node.plan)?);
        let plan = project(node.plan, items)?;
        let bound = |name: &str| get_field(attribute.column(), name);
        // A gap that nothing can be read from is known before any row: as in Spark, its rows do not even move the watermark.
        let lasts = if no_gap { lit(false) } else { bound("end").gt(bound("start")) };
        let plan = filtered(plan, lasts)?;
        let mut columns = node.columns;
        columns.push(attribute.hidden());
        Ok(Node { plan, columns, below: node.below, grouped: node.grouped })
    }

    /// `window_time(w)`: the last instant that is in the window.
    fn window_time(&self, node: Node, call: &Expression, values: Vec<Typed>) -> Result<Node> {
        let [window] = values.as_slice() else { return Err(faults::wrong_number("window_time", 1, values.len())) };
        let value = last_instant(window)?;
        let attribute = Attribute::of(super::naming::name_of(call), &value);
        let mut items: Vec<Expr> = node.columns.iter().map(Attribute::column).collect();
        items.push(item(&value, &attribute.internal, &node.plan)?);
        let mut columns = node.columns;
        columns.push(attribute.hidden());
        Ok(Node { plan: project(node.plan, items)?, columns, below: node.below, grouped: node.grouped })
    }

    /// A time as a timestamp; the time of a window is its last instant.
    fn time_of(&self, function: &str, time: Typed) -> Result<Typed> {
        let is_column = matches!(time.expr, Expr::Column(_));
        let mut value = match &time.data_type {
            DataType::Timestamp(TimeUnit::Microsecond, _) => time,
            DataType::Struct(_) => return last_instant(&time),
            DataType::Date32 | DataType::Utf8 | DataType::Null => cast::implicit(time, &types::timestamp(), self.settings)?,
            other => return Err(faults::unexpected_type(function, 0, "(\"TIMESTAMP\" or \"TIMESTAMP WITHOUT TIME ZONE\")", other)),
        };
        if !(is_column && matches!(value.expr, Expr::Column(_))) {
            value.metadata.clear();
        }
        Ok(value)
    }

    /// A constant duration in microseconds.
    fn micros(&self, duration: &Typed) -> Result<i64> {
        let value = match &duration.data_type {
            DataType::Utf8 => Some(self.interval_of(duration)?),
            _ => duration.as_literal().cloned(),
        };
        match value {
            Some(ScalarValue::Int32(Some(micros))) => Ok(i64::from(micros)),
            Some(ScalarValue::Int64(Some(micros))) => Ok(micros),
            Some(ScalarValue::IntervalMonthDayNano(Some(interval))) => {
                if interval.months != 0 {
                    return Err(Error::invalid("_LEGACY_ERROR_TEMP_3231", "Intervals greater than a month is not supported"));
                }
                Ok(i64::from(interval.days).saturating_mul(86_400_000_000).saturating_add(interval.nanoseconds / 1_000))
            }
            _ => Err(Error::invalid(
                "_LEGACY_ERROR_TEMP_1207",
                "The duration and time inputs to window must be an integer, long or string literal.",
            )),
        }
    }

    /// An interval that is written as a constant text.
    ///
    /// # Errors
    /// `CANNOT_PARSE_INTERVAL`.
    pub(super) fn interval_of(&self, text: &Typed) -> Result<ScalarValue> {
        let to = DataType::Interval(IntervalUnit::MonthDayNano);
        let interval = cast::explicit(text.clone(), &to, CastMode::Try, self.settings)?;
        coercion::constant_of(&interval).filter(|value| !value.is_null()).ok_or_else(|| {
            let shown = text.as_literal().map_or_else(String::new, ToString::to_string);
            Error::invalid("CANNOT_PARSE_INTERVAL", format!("'{shown}' is not an interval: write a number and a unit, as in '10 seconds'"))
                .with_sqlstate("22006")
        })
    }
}

fn check(width: i64, slide: i64, start: i64) -> Result<()> {
    let range = |name: &str, value: i64| {
        faults::mismatch("VALUE_OUT_OF_RANGE", format!("the {name} of `window` must be positive but is {value} microseconds"))
    };
    if width <= 0 {
        return Err(range("window duration", width));
    }
    if slide <= 0 {
        return Err(range("slide duration", slide));
    }
    let constraint = |what: &str| faults::mismatch("PARAMETER_CONSTRAINT_VIOLATION", format!("of `window` {what}"));
    if slide > width {
        return Err(constraint("the slide duration must be at most the window duration"));
    }
    if start.unsigned_abs() >= slide.unsigned_abs() {
        return Err(constraint("the absolute start time must be less than the slide duration"));
    }
    Ok(())
}

/// The type of a window over times of a type.
fn bounds_type(time: &DataType) -> DataType {
    DataType::Struct(bounds_fields(time))
}

fn bounds_fields(time: &DataType) -> Fields {
    Fields::from(vec![Field::new("start", time.clone(), true), Field::new("end", time.clone(), true)])
}

/// The last instant of a window.
fn last_instant(window: &Typed) -> Result<Typed> {
    let time = match &window.data_type {
        DataType::Struct(fields) if window.metadata.contains_key(WINDOW) || window.metadata.contains_key(SESSION) => {
            fields.iter().find(|field| field.name() == "end").map(|field| field.data_type().clone())
        }
        DataType::Struct(_) => None,
        other => return Err(faults::unexpected_type("window_time", 0, "\"STRUCT\"", other)),
    };
    let Some(time @ DataType::Timestamp(TimeUnit::Microsecond, _)) = time else {
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_3101", "The input is not a correct window column"));
    };
    let mut metadata = window.metadata.clone();
    metadata.remove(WINDOW);
    metadata.remove(SESSION);
    Ok(scalar("window_time", LastInstant, vec![window.clone()], time, true).with_metadata(metadata))
}

/// `{start, end}` of two columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bounds {
    time: DataType,
}

impl Kernel for Bounds {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Ok(Arc::new(StructArray::try_new(bounds_fields(&self.time), arguments.arrays()?, None).map_err(failed)?))
    }
}

/// The end of a window less a microsecond.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LastInstant;

impl Kernel for LastInstant {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let windows = arguments.array(0)?;
        let windows = windows.as_struct();
        let ends = windows.column_by_name("end").ok_or_else(|| Error::internal("a window has no end"))?;
        let ends = ends.as_primitive::<TimestampMicrosecondType>();
        let last: TimestampMicrosecondArray = ends.unary(|end| end.wrapping_sub(1));
        let nulls = NullBuffer::union(last.nulls(), windows.nulls());
        let last = TimestampMicrosecondArray::new(last.values().clone(), nulls);
        Ok(match ends.data_type() {
            DataType::Timestamp(_, zone) => Arc::new(last.with_timezone_opt(zone.clone())),
            _ => Arc::new(last),
        })
    }
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::internal("the bounds of a window cannot be made").caused_by(error)
}
