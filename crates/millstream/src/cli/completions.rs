//! `millstream completions`: scripts that complete the command line.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use millstream_core::Result;

use super::{Cli, finish};

/// Arguments of `millstream completions`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script on standard output.
pub(super) fn run(args: CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "millstream", &mut script);
    finish(std::io::stdout().lock().write_all(&script))
}
