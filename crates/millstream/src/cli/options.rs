//! `millstream options`: the option reference, from the specifications that check the options.

use std::io::Write;

use clap::Args;
use millstream::wiring::Wiring;
use millstream_core::options::OptionKind;
use millstream_core::{OptionSpec, Result};
use millstream_spark::connect::QUERY_OPTIONS;

/// Arguments of `millstream options`.
#[derive(Debug, Args)]
pub(super) struct OptionsArgs {
    /// Only this format
    format: Option<String>,
}

/// Prints the options of every source and sink as Markdown.
pub(super) fn run(args: &OptionsArgs) -> Result<()> {
    let registry = Wiring::system().registry(std::io::sink());
    let wanted = |names: &[&str]| args.format.as_deref().is_none_or(|format| names.iter().any(|name| name.eq_ignore_ascii_case(format)));
    if let Some(format) = &args.format
        && registry.source(format).is_err()
    {
        registry.sink(format)?;
    }
    let mut text = String::from("# Options\n\nOptions of queries, sources and sinks, as `millstream options` prints them.\n");
    if args.format.is_none() {
        text.push_str(QUERY);
        table(&mut text, QUERY_OPTIONS);
    }
    for provider in registry.sources().filter(|provider| wanted(provider.names())) {
        section(&mut text, "Source", provider.names(), &provider.options());
    }
    for provider in registry.sinks().filter(|provider| wanted(provider.names())) {
        section(&mut text, "Sink", provider.names(), &provider.options());
    }
    super::finish(std::io::stdout().lock().write_all(text.as_bytes()))
}

fn section(text: &mut String, what: &str, names: &[&str], options: &[OptionSpec]) {
    text.push_str(&format!("\n## {what} `{}`\n\n", names.join("`, `")));
    if options.is_empty() {
        text.push_str("It has no options.\n");
        return;
    }
    table(text, options);
}

/// What is said before the options of queries.
const QUERY: &str = "\n## Queries\n\nOptions of `writeStream` that Spark does not have. With `spark.` before it, each is a setting of a session for \
                     all its queries.\n\n";

fn table(text: &mut String, options: &[OptionSpec]) {
    text.push_str("| option | takes | default | |\n|---|---|---|---|\n");
    for option in options {
        let default = option.default.map(|default| format!("`{default}`")).unwrap_or_default();
        let doc = option.doc.replace('|', "\\|");
        text.push_str(&format!("| `{}` | {} | {default} | {doc} |\n", option.name, takes(option.kind)));
    }
}

fn takes(kind: OptionKind) -> String {
    match kind {
        OptionKind::Text => "text".to_owned(),
        OptionKind::Bool => "`true` or `false`".to_owned(),
        OptionKind::Integer { min } if min == i64::MIN => "a whole number".to_owned(),
        OptionKind::Integer { min } => format!("a whole number from {min}"),
        OptionKind::Number { min, max } => format!("a number from {min} to {max}"),
        OptionKind::Bytes => "a size: `512k`, `10g`".to_owned(),
        OptionKind::Duration => "a time span: `10 seconds`, `7d`".to_owned(),
        OptionKind::OneOf(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
    }
}
