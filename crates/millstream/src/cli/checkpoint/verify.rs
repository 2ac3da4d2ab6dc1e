//! `millstream checkpoint verify`.

use clap::Args;
use millstream_checkpoint::reader::Severity;
use millstream_core::{Error, ErrorKind, Result};
use millstream_engine::inspect::verify;
use serde_json::json;

use super::{CheckpointArgs, print, print_json};

/// Arguments of `millstream checkpoint verify`.
#[derive(Debug, Args)]
pub(in crate::cli) struct VerifyArgs {
    #[command(flatten)]
    checkpoint: CheckpointArgs,
}

/// Prints every finding; fails if one of them is a fault.
pub(super) async fn run(args: VerifyArgs) -> Result<()> {
    let reader = args.checkpoint.open()?;
    let findings = verify(&reader).await?;
    let faults = findings.iter().filter(|finding| finding.severity == Severity::Fault).count();
    let word = |severity| if severity == Severity::Fault { "fault" } else { "note" };
    if args.checkpoint.json {
        let findings: Vec<_> = findings
            .iter()
            .map(|finding| json!({"severity": word(finding.severity), "place": finding.place, "what": finding.what}))
            .collect();
        print_json(&json!({"checkpoint": reader.location(), "faults": faults, "findings": findings}))?;
    } else {
        let mut text: String =
            findings.iter().map(|finding| format!("{}: {}: {}\n", word(finding.severity), finding.place, finding.what)).collect();
        if faults == 0 {
            text.push_str(&format!("ok: {}\n", reader.location()));
        }
        print(&text)?;
    }
    match faults {
        0 => Ok(()),
        _ => Err(Error::new(
            ErrorKind::CheckpointIncompatible,
            "CHECKPOINT_DAMAGED",
            format!("{faults} fault(s) in {}: restore it from a backup, or start a new checkpoint", reader.location()),
        )),
    }
}
