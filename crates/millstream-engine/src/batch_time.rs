//! `current_timestamp()` and its relatives: fixed for a batch, the same when the batch runs again, and different in the next one although
//! the plan is built only once.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use crate::from_datafusion;
use crate::stateful::Arbitrary;

/// The time of the batch that runs now, shared between the loop, which sets it, and the plan, which reads it.
#[derive(Clone, Debug, Default)]
pub struct BatchTime(Arc<AtomicI64>);

impl BatchTime {
    /// Sets the time, milliseconds since the epoch.
    pub fn set(&self, epoch_ms: i64) {
        self.0.store(epoch_ms, Ordering::Release);
    }

    /// The time, milliseconds since the epoch.
    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Timestamp,
    Date,
    LocalTimestamp,
}

const FUNCTIONS: &[(&str, Kind)] = &[
    ("current_timestamp", Kind::Timestamp),
    ("now", Kind::Timestamp),
    ("current_date", Kind::Date),
    ("curdate", Kind::Date),
    ("localtimestamp", Kind::LocalTimestamp),
];

/// One of the functions. Two are equal only if they read the same clock, so that plans of different queries never share one.
#[derive(Clone, Debug)]
struct BatchTimeFunction {
    name: &'static str,
    kind: Kind,
    time: BatchTime,
    signature: Signature,
}

impl PartialEq for BatchTimeFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.time.0, &other.time.0)
    }
}

impl Eq for BatchTimeFunction {}

impl Hash for BatchTimeFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        Arc::as_ptr(&self.time.0).hash(state);
    }
}

impl BatchTimeFunction {
    fn new(name: &'static str, kind: Kind, time: BatchTime) -> Self {
        // Volatile keeps the optimizer from computing it once while planning.
        BatchTimeFunction { name, kind, time, signature: Signature::nullary(Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for BatchTimeFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(match self.kind {
            Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Kind::LocalTimestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Date => DataType::Date32,
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let ms = self.time.get();
        let us = ms.saturating_mul(1_000);
        Ok(ColumnarValue::Scalar(match self.kind {
            Kind::Timestamp => ScalarValue::TimestampMicrosecond(Some(us), Some("UTC".into())),
            Kind::LocalTimestamp => ScalarValue::TimestampMicrosecond(Some(us), None),
            Kind::Date => ScalarValue::Date32(i32::try_from(ms.div_euclid(86_400_000)).ok()),
        }))
    }
}

/// `current_timestamp()` for a plan that is yet to be bound to the time of its query.
pub fn current_timestamp() -> Arc<ScalarUDF> {
    static UNBOUND: OnceLock<Arc<ScalarUDF>> = OnceLock::new();
    let unbound = || Arc::new(ScalarUDF::from(BatchTimeFunction::new("current_timestamp", Kind::Timestamp, BatchTime::default())));
    UNBOUND.get_or_init(unbound).clone()
}

/// Registers the functions, reading a time that nobody sets; [`bind`] gives them a query's own.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for (name, kind) in FUNCTIONS {
        let function = BatchTimeFunction::new(name, *kind, BatchTime::default());
        registry.register_udf(Arc::new(ScalarUDF::from(function))).map_err(from_datafusion)?;
    }
    Ok(())
}

/// The same plan with every such function, and every program that keeps state, reading `time`.
///
/// # Errors
/// Those of DataFusion's plan rewriting.
pub(crate) fn bind(plan: LogicalPlan, time: &BatchTime) -> Result<LogicalPlan> {
    let bound = plan.transform_up_with_subqueries(|node| {
        if let Some(arbitrary) = Arbitrary::of(&node) {
            return Ok(Transformed::yes(arbitrary.at(time).into_plan()));
        }
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::ScalarFunction(mut function) => match function.func.inner().downcast_ref::<BatchTimeFunction>() {
                    Some(unbound) => {
                        let bound = BatchTimeFunction::new(unbound.name, unbound.kind, time.clone());
                        function.func = Arc::new(ScalarUDF::from(bound));
                        Ok(Transformed::yes(Expr::ScalarFunction(function)))
                    }
                    None => Ok(Transformed::no(Expr::ScalarFunction(function))),
                },
                other => Ok(Transformed::no(other)),
            })
        })
    });
    bound.map(|plan| plan.data).map_err(from_datafusion)
}
