//! The `millstream` command: its arguments, its exit codes, and one module per subcommand.

mod check;
mod checkpoint;
mod completions;
mod faults;
mod options;
mod run;
mod serve;
mod table;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use millstream_core::{Error, ErrorKind, Result};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

/// Spark Structured Streaming pipelines in one native binary.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, about, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    /// How much to log on standard error: error, warn, info, debug, trace, or a filter such as `warn,millstream_engine=debug`
    #[arg(long, global = true, env = "MILLSTREAM_LOG", default_value = "warn")]
    log: String,

    /// Log as JSON lines
    #[arg(long, global = true)]
    log_json: bool,
}

const EXAMPLES: &str = "\
Examples:
  millstream run pipeline.sql --once              bring every table up to date, then stop
  millstream run pipelines/ --storage /data/lake  run continuously; Ctrl-C stops gracefully
  millstream serve --warehouse /data/tables       serve PySpark on sc://127.0.0.1:15002
  millstream check pipelines/                     plan everything, touch nothing
  millstream table show gold_delays --limit 20    print a table
  millstream checkpoint show lake/_checkpoints/f  print how far a query is and how late its rows are

Exit codes: 0 success, 2 wrong usage, 3 invalid program or option, 10 source unavailable, 11 sink unavailable,
12 checkpoint store unavailable, 13 schema mismatch, 14 bad record, 15 checkpoint incompatible, 16 data lost,
17 fenced by another writer, 18 cancelled, 1 internal error.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a pipeline: a SQL file, or a folder of them
    Run(run::RunArgs),
    /// Serve Spark Connect: PySpark and other clients run their programs here
    Serve(serve::ServeArgs),
    /// Check a pipeline: parse, resolve and plan everything without running it
    Check(check::CheckArgs),
    /// Look at tables
    #[command(subcommand)]
    Table(table::TableCommand),
    /// Look into checkpoints
    #[command(subcommand)]
    Checkpoint(checkpoint::CheckpointCommand),
    /// Print the options of queries, sources and sinks
    Options(options::OptionsArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}

/// Which pipeline, with which variables, stored where.
#[derive(Debug, Args)]
struct PipelineArgs {
    /// A SQL file, or a folder whose `*.sql` files are one pipeline
    pipeline: PathBuf,

    /// A value for `${KEY}` in the SQL text; may be repeated
    #[arg(long = "var", value_name = "KEY=VALUE", value_parser = variable)]
    variables: Vec<(String, String)>,

    #[command(flatten)]
    storage: StorageArgs,
}

/// Where tables and checkpoints live.
#[derive(Debug, Args)]
struct StorageArgs {
    /// The root of tables and checkpoints: a folder or a URL (s3://, gs://, az://)
    #[arg(long, alias = "warehouse", env = "MILLSTREAM_STORAGE", default_value = "millstream-data", value_name = "DIR")]
    storage: String,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// Stack of every thread that plans, bytes: plans nest as deep as queries do, 20,000 terms of an `OR` for one. Memory is used only as far as
/// they do.
const STACK: usize = 256 << 20;

/// Runs the command and turns its outcome into an exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    faults::report_panics();
    let main = std::thread::Builder::new().name("main".to_owned()).stack_size(STACK).spawn(move || command(cli));
    match main {
        Ok(main) => main.join().unwrap_or_else(|panic| fail(&faults::fault(panic.as_ref()))),
        Err(error) => fail(&Error::internal("cannot start a thread").caused_by(error)),
    }
}

fn command(cli: Cli) -> ExitCode {
    if let Err(error) = set_up_logging(&cli.log, cli.log_json).and_then(|()| millstream::drill::arm_from_environment()) {
        return fail(&error);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("millstream")
        .thread_stack_size(STACK)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Error::internal("cannot start the runtime").caused_by(error)),
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Run(args) => run::run(args).await,
            Command::Serve(args) => serve::run(args).await,
            Command::Check(args) => check::run(args).await,
            Command::Table(command) => table::run(command).await,
            Command::Checkpoint(command) => checkpoint::run(command).await,
            Command::Options(args) => options::run(&args),
            Command::Completions(args) => completions::run(args),
        }
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

#[expect(clippy::print_stderr, reason = "the one place where the command tells of its failure")]
fn fail(error: &Error) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(error.kind().exit_code())
}

/// A reader that went away (`| head`) is no failure.
fn finish(written: std::io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::SinkUnavailable, "OUTPUT_FAILED", "cannot write to standard output").caused_by(error))
        }
        _ => Ok(()),
    }
}

fn set_up_logging(filter: &str, json: bool) -> Result<()> {
    // The Delta kernel logs every look for a table that is not there yet as an error.
    let filter = if filter.contains("buoyant_kernel") { filter.to_owned() } else { format!("{filter},buoyant_kernel=off") };
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| Error::invalid("INVALID_LOG_FILTER", format!("--log '{filter}' is not a log filter")).caused_by(error))?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    if json {
        logs.json().init();
    } else {
        logs.init();
    }
    Ok(())
}

/// How long an ordered stop may take.
const STOP_GRACE: std::time::Duration = std::time::Duration::from_secs(10);

/// Asks for a stop at the first Ctrl-C or SIGTERM, and ends the process at the second, or when the stop takes too long.
#[expect(clippy::print_stderr, reason = "the answer to a signal")]
async fn stop_on_signal(stop: CancellationToken) {
    let Ok(mut terminated) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
    eprintln!("stopping; again to end at once");
    stop.cancel();
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
        // One long computation cannot be interrupted. Ending in its midst loses nothing: whatever was not committed runs again.
        () = tokio::time::sleep(STOP_GRACE) => eprintln!("a computation does not end: stopping without it"),
    }
    std::process::exit(i32::from(millstream_core::ErrorKind::Cancelled.exit_code()));
}
