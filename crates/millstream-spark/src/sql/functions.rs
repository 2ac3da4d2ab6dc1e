//! Spark's functions.

use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::ScalarUDF;
use millstream_core::Result;
use millstream_engine::from_datafusion;

/// Functions of the engine that must stay as they are: their value is fixed for a batch, whenever it runs.
const BATCH_TIME: &[&str] = &["current_timestamp", "now", "current_date", "curdate", "localtimestamp"];

/// Registers Spark's functions over those of DataFusion, which keep what Spark does not define.
///
/// # Errors
/// Those of the registry.
pub fn register(context: &SessionContext) -> Result<()> {
    let state = context.state_ref();
    let mut state = state.write();
    let kept: Vec<Arc<ScalarUDF>> = BATCH_TIME.iter().filter_map(|name| state.scalar_functions().get(*name).cloned()).collect();
    datafusion_spark::register_all(&mut *state).map_err(from_datafusion)?;
    for function in kept {
        state.register_udf(function).map_err(from_datafusion)?;
    }
    Ok(())
}
