//! `cargo xtask functions`: sample calls of every function of `pyspark.sql.functions`, compared with what Spark gave.

use std::process::Command;

use crate::process::{Outcome, cargo, fail, root, run, target_dir};
use crate::python;
use crate::server::Server;

/// Runs the calls of `tests/functions` on our server and fails when a function is worse than `docs/functions.md` says, that is, when fewer
/// of its calls are the same. `--write` writes that table anew; everything else goes to the runner: `-k FUNCTION …`, `-v`.
pub fn functions(arguments: &[String]) -> Outcome {
    let plan = Plan::of(arguments)?;
    run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
    let python = python::environment("spark", python::SPARK)?;
    let server = Server::start("functions", Some(&python))?;
    let document = root().join("docs/functions.md");
    let mut command = Command::new(&python);
    command.arg("-B").arg(root().join("tests/functions/run.py")).args(["--remote", server.remote()]);
    match plan.table {
        Table::Written => command.arg("--table").arg(&document),
        Table::Known => command.arg("--table").arg(target_dir().join("functions/found.md")).arg("--known").arg(&document),
    };
    run(command.args(plan.passed))
}

/// What is done with the committed table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Written,
    Known,
}

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
struct Plan<'a> {
    table: Table,
    passed: Vec<&'a str>,
}

impl<'a> Plan<'a> {
    fn of(arguments: &'a [String]) -> Outcome<Plan<'a>> {
        let (write, passed): (Vec<&str>, Vec<&str>) = arguments.iter().map(String::as_str).partition(|argument| *argument == "--write");
        if !write.is_empty() && passed.contains(&"-k") {
            return fail("a table of some functions would forget the others: --write does not go with -k");
        }
        Ok(Plan { table: if write.is_empty() { Table::Known } else { Table::Written }, passed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_functions_is_never_written_as_the_table() {
        let given = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let all = given("--write -v");
        assert_eq!(Plan::of(&all), Ok(Plan { table: Table::Written, passed: vec!["-v"] }));
        let some = given("-k abs sum");
        assert_eq!(Plan::of(&some), Ok(Plan { table: Table::Known, passed: vec!["-k", "abs", "sum"] }));
        assert!(Plan::of(&given("-k abs --write")).is_err());
    }
}
