//! `millstream checkpoint`: looks into checkpoints, of running queries too, and changes nothing in them.

mod diff;
mod rows;
mod show;
mod verify;

use std::io::Write;

use clap::{Args, Subcommand};
use millstream::wiring::Wiring;
use millstream_checkpoint::reader::CheckpointReader;
use millstream_core::progress::utc_text;
use millstream_core::{Error, Result};
use serde::Serialize;

use super::finish;

/// Subcommands of `millstream checkpoint`.
#[derive(Debug, Subcommand)]
pub(super) enum CheckpointCommand {
    /// Print how far a query is, what it keeps, and how late its rows are
    Show(show::ShowArgs),
    /// Print what happened between two batches
    Diff(diff::DiffArgs),
    /// Read every record and file and print what is not as it should be; exit code 15 if anything is
    Verify(verify::VerifyArgs),
    /// Print rows of state
    State(rows::StateArgs),
}

/// Which checkpoint, and how to print.
#[derive(Debug, Args)]
struct CheckpointArgs {
    /// The checkpoint of a query: a folder or a URL
    #[arg(value_name = "PATH")]
    checkpoint: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CheckpointArgs {
    fn open(&self) -> Result<CheckpointReader> {
        Wiring::system().checkpoint_reader(&self.checkpoint)
    }
}

/// Runs a subcommand.
pub(super) async fn run(command: CheckpointCommand) -> Result<()> {
    match command {
        CheckpointCommand::Show(args) => show::run(args).await,
        CheckpointCommand::Diff(args) => diff::run(args).await,
        CheckpointCommand::Verify(args) => verify::run(args).await,
        CheckpointCommand::State(args) => rows::run(args).await,
    }
}

/// Writes one JSON value.
fn print_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::internal("a report does not serialise").caused_by(error))?;
    print(&format!("{text}\n"))
}

fn print(text: &str) -> Result<()> {
    finish(std::io::stdout().lock().write_all(text.as_bytes()))
}

/// Lines of a name and what belongs to it.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push_str(&format!("{name:<14}{value}\n"));
    }

    fn text(&mut self, text: impl std::fmt::Display) {
        self.0.push_str(&format!("{text}\n"));
    }
}

/// A time of the report, or that there is none.
fn time(ms: Option<i64>) -> String {
    ms.map_or_else(|| "-".to_owned(), utc_text)
}

/// The batch that was asked for, or the newest committed one.
async fn batch_or_last(reader: &CheckpointReader, batch: Option<u64>) -> Result<u64> {
    // Tells first whether there is a checkpoint at all.
    reader.query_id().await?;
    match batch {
        Some(batch) => Ok(batch),
        None => reader.last_commit().await?.ok_or_else(|| {
            Error::invalid("STDS_COMMITTED_BATCH_UNAVAILABLE", format!("no batch of {} is committed yet", reader.location()))
        }),
    }
}
