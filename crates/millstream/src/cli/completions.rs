//! `millstream completions`: scripts that complete the command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use millstream_core::Result;

use super::Cli;

/// Arguments of `millstream completions`.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script on standard output.
pub(super) fn run(args: CompletionsArgs) -> Result<()> {
    clap_complete::generate(args.shell, &mut Cli::command(), "millstream", &mut std::io::stdout());
    Ok(())
}
