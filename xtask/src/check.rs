//! `cargo xtask check`: what passes before each commit.

use crate::process::{Outcome, cargo, run};
use crate::tidy;

/// Formatting, lints and tidy rules, cheapest first.
pub fn check() -> Outcome {
    tidy::tidy()?;
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"]))
}
