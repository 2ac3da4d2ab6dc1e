//! Tables on the terminal: rows, and what there is to know about a table.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use millstream_connectors::delta::TableInfo;
use millstream_core::progress::utc_text;
use millstream_core::versioned::Version;
use millstream_core::{Error, Result};
use millstream_spark::types::simple_name;

/// Rows laid out as a table.
pub(crate) struct Rows {
    table: Table,
    count: usize,
}

impl Rows {
    /// Writes the table and the number of its rows.
    pub(crate) fn and_then_write(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(out, "{}\n{} row{}", self.table, self.count, if self.count == 1 { "" } else { "s" })
    }
}

/// Lays rows out as a table.
///
/// # Errors
/// `INTERNAL_ERROR` for a type that has no text form.
pub(crate) fn rows(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Rows> {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(schema.fields().iter().map(|field| field.name().as_str()));
    let options = FormatOptions::default()
        .with_null("null")
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    let no_text = |error: arrow::error::ArrowError| Error::internal("a column has no text form").caused_by(error);
    let mut count = 0;
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<_, _>>().map_err(no_text)?;
        for row in 0..batch.num_rows() {
            let cells: Vec<String> =
                columns.iter().map(|column| column.value(row).try_to_string()).collect::<Result<_, _>>().map_err(no_text)?;
            table.add_row(cells);
            count += 1;
        }
    }
    for (column, field) in table.column_iter_mut().zip(schema.fields()) {
        if field.data_type().is_numeric() {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Ok(Rows { table, count })
}

/// What there is to know about a table, as text.
pub(crate) fn table_info(info: &TableInfo) -> String {
    let mut text = String::new();
    let rows = info.rows.map_or_else(|| "unknown".to_owned(), |rows| rows.to_string());
    let mut line = |name: &str, value: &str| text.push_str(&format!("{name:<14}{value}\n"));
    line("location", &info.location);
    line("id", &info.id);
    line("version", &info.version.to_string());
    line("rows", &rows);
    line("files", &info.files.to_string());
    line("bytes", &info.bytes.to_string());
    if let Some(created) = info.created_ms {
        line("created", &utc_text(created));
    }
    if !info.partition_columns.is_empty() {
        line("partitioned by", &format!(" {}", info.partition_columns.join(", ")));
    }
    for (name, value) in &info.properties {
        line("property", &format!("{name} = {value}"));
    }
    for (application, version) in &info.transactions {
        line("transaction", &format!("{application} wrote batch {version}"));
    }
    for field in info.schema.fields() {
        line("column", &format!("{} {}", field.name(), simple_name(field.data_type())));
    }
    text
}

/// The commits of a table, as text.
pub(crate) fn table_history(entries: &[Version]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(["version", "time", "operation", "parameters", "metrics", "batches"]);
    let pairs = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    for entry in entries {
        let batches: Vec<String> = entry.transactions.iter().map(|(application, version)| format!("{application}:{version}")).collect();
        table.add_row(vec![
            Cell::new(entry.version),
            Cell::new(utc_text(entry.timestamp_ms)),
            Cell::new(entry.operation.as_deref().unwrap_or("")),
            Cell::new(pairs(&entry.parameters)),
            Cell::new(pairs(&entry.metrics)),
            Cell::new(batches.join(" ")),
        ]);
    }
    format!("{table}\n")
}
