//! `cargo xtask test`: everything that must hold, in one command.

use crate::process::{Outcome, cargo, run};
use crate::{clients, conformance, demo, drill, examples, functions, generate, interop, kafka, pipelines, tidy, torture};

/// Tidy rules, unit and property tests, the demo read by another implementation, 20 kills, inputs that are broken in every way, the relay
/// with real Spark, Kafka under kills of brokers and servers, the recorded behaviour of Spark over Connect, pipelines, sample calls of every
/// function, the clients of every version, and the PySpark examples. Lints are `cargo xtask check`, before each commit.
pub fn test() -> Outcome {
    tidy::tidy()?;
    run(cargo().args(["fmt", "--all", "--check"]))?;
    // The stack of the threads that plan queries in the binary.
    run(cargo().args(["test", "--workspace", "--locked", "--quiet"]).env("RUST_MIN_STACK", (16 << 20).to_string()))?;
    generate::up_to_date()?;
    demo::verified()?;
    drill::drill(&[])?;
    torture::torture(&[])?;
    interop::interop()?;
    kafka::kafka(&kafka::TESTED.map(str::to_owned))?;
    conformance::conformance(&[])?;
    pipelines::pipelines(&[])?;
    functions::functions(&[])?;
    clients::clients(&[])?;
    examples::examples(&[])
}
