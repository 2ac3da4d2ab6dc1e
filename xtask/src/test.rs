//! `cargo xtask test`: everything that must hold, in one command.

use crate::process::{Outcome, cargo, run};
use crate::{demo, drill, generate, interop, tidy, torture};

/// Tidy rules, unit and property tests, the demo read by another implementation, 20 kills, inputs that are broken in every way, and the
/// relay with real Spark. Lints are `cargo xtask check`, before each commit.
pub fn test() -> Outcome {
    tidy::tidy()?;
    run(cargo().args(["test", "--workspace", "--locked", "--quiet"]))?;
    generate::up_to_date()?;
    demo::verified()?;
    drill::drill(&[])?;
    torture::torture(&[])?;
    interop::interop()
}
