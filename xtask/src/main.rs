//! The project's own chores: `cargo xtask <task>`.

#![allow(clippy::disallowed_methods, reason = "chores wait and measure in real time")]

mod bench;
mod bugcases;
mod check;
mod clients;
mod conformance;
mod demo;
mod drill;
mod examples;
mod functions;
mod generate;
mod interop;
mod kafka;
mod packages;
mod pipelines;
mod process;
mod python;
mod server;
mod test;
mod tidy;
mod torture;
mod verdicts;

use std::process::ExitCode;

use process::fail;

const USAGE: &str = "\
cargo xtask <task>

  demo      build, run the flights pipeline on real data, print its gold table
  test      tidy, all tests, the demo read back, kills, broken inputs, the relay with real Spark
  check     formatting, lints and tidy rules; passes before each commit
  tidy      the tidy rules alone: crate edges, file length, names, one version of shared dependencies
  drill     kill the real binary while files flow: [--kills N] [--files N] [--seed N]
  torture   very many, very big and broken files, in bounded time and memory: [--full] [--binary PATH]
  conformance  recorded behaviour of Spark against our server: [-k TEXT] [--write]
  pipelines  declarative pipelines, run by Spark's own command line: [-k TEXT] [--write]
  functions  sample calls of every function of pyspark.sql.functions against recorded Spark: [-k FUNCTION …] [-v] [--write]
  clients   PySpark 4.0 to 4.3 and the Rust client, TLS and tokens, kills and load: [--full] [--only pyspark,rust,secure,faults,load]
  kafka     a real broker: the same rows as Spark, losses, transactions, kills: [--kills N] [--seed N] [--only PARTS] [--binary PATH]
  interop   hand a query from Spark to Millstream and back
  examples  the PySpark programs on our server, their tables compared with Spark's: [--with-spark] [--record]
  bench     measure, with Spark beside: [--quick] [--no-spark] [--only micro-batch,ingest,startup]; or `bench connect [--quick] [--no-spark]`
  gen       write the documents that come from the code
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match args.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    let builds = !matches!(task, "tidy" | "help" | "--help" | "-h");
    let ready = if builds { packages::protoc().and_then(|()| packages::native()) } else { Ok(()) };
    let outcome = match task {
        _ if ready.is_err() => ready,
        "demo" => demo::demo(),
        "test" => test::test(),
        "check" => check::check(),
        "tidy" => tidy::tidy(),
        "drill" => drill::drill(rest),
        "torture" => torture::torture(rest),
        "interop" => interop::interop(),
        "kafka" => kafka::kafka(rest),
        "clients" => clients::clients(rest),
        "conformance" => conformance::conformance(rest),
        "pipelines" => pipelines::pipelines(rest),
        "functions" => functions::functions(rest),
        "examples" => examples::examples(rest),
        "bench" => bench::bench(rest),
        "gen" => generate::generate(),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => fail(format!("there is no task '{other}'\n\n{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

fn report(error: &str) -> ExitCode {
    eprintln!("xtask: {error}");
    ExitCode::FAILURE
}
