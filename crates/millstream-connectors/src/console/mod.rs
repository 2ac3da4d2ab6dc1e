//! The sink `console`: shows the first rows of each batch as a table, in Spark's form, on a writer that the binary installs.

mod show;

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use millstream_core::options::OptionKind;
use millstream_core::registry::{SinkProvider, WriteRequest};
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Error, ErrorKind, OptionSpec, Result};
use parking_lot::Mutex;

use crate::formats::write::datetime::DateTimeText;
use crate::formats::write::spark_text::Style;
use crate::memory::staged;
use crate::memory::staging::Rows;

/// Where consoles write. Shared by every console sink of a process, so that tables do not mix.
#[derive(Clone)]
pub struct ConsoleOutput(Arc<Mutex<Box<dyn Write + Send>>>);

impl ConsoleOutput {
    /// Output on `writer`.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        ConsoleOutput(Arc::new(Mutex::new(Box::new(writer))))
    }
}

impl fmt::Debug for ConsoleOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConsoleOutput")
    }
}

/// Makes [`Console`] sinks.
#[derive(Debug)]
pub struct ConsoleProvider {
    output: ConsoleOutput,
}

impl ConsoleProvider {
    /// Sinks that write on `output`.
    pub fn new(output: ConsoleOutput) -> Self {
        ConsoleProvider { output }
    }
}

#[async_trait]
impl SinkProvider for ConsoleProvider {
    fn names(&self) -> &'static [&'static str] {
        &["console"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![
            OptionSpec {
                name: "numRows",
                kind: OptionKind::Integer { min: 0 },
                default: Some("20"),
                doc: "How many rows of a batch are shown.",
            },
            OptionSpec { name: "truncate", kind: OptionKind::Bool, default: Some("true"), doc: "Whether values are cut to 20 characters." },
            OptionSpec { name: "timeZone", kind: OptionKind::Text, default: Some("UTC"), doc: "The zone in which timestamps are shown." },
        ]
    }

    async fn sink(&self, request: &WriteRequest) -> Result<Arc<dyn Sink>> {
        let rows = request.options.integer("numRows", 0)?.unwrap_or(20);
        Ok(Arc::new(Console {
            output: self.output.clone(),
            rows: usize::try_from(rows).unwrap_or(usize::MAX - 1).min(usize::MAX - 1),
            truncate: request.options.bool("truncate", true)?,
            style: Style::show(DateTimeText::cast(&request.options)?),
            newest: Mutex::new(None),
        }))
    }
}

/// Shows the first rows of each batch.
#[derive(Debug)]
pub struct Console {
    output: ConsoleOutput,
    rows: usize,
    truncate: bool,
    style: Style,
    newest: Mutex<Option<u64>>,
}

impl Console {
    fn has(&self, batch_id: u64) -> bool {
        self.newest.lock().is_some_and(|newest| newest >= batch_id)
    }

    fn show(&self, batch: &BatchInfo, rows: &[RecordBatch]) -> Result<()> {
        let table = show::table(&batch.schema, rows, self.rows, self.truncate, &self.style)?;
        let rule = "-".repeat(43);
        let text = format!("{rule}\nBatch: {}\n{rule}\n{table}\n", batch.batch_id);
        let mut output = self.output.0.lock();
        output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| {
            Error::new(ErrorKind::SinkUnavailable, "CONSOLE_WRITE_FAILED", "cannot write a batch on the console").caused_by(error)
        })
    }
}

#[async_trait]
impl Sink for Console {
    fn description(&self) -> String {
        "org.apache.spark.sql.execution.streaming.ConsoleTable$".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::None
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    async fn admit(&self, batch: &BatchInfo) -> Result<Admission> {
        Ok(if self.has(batch.batch_id) { Admission::AlreadyCommitted } else { Admission::Write })
    }

    async fn writer(&self, batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        // One row more than is shown tells whether there are more.
        Ok(Box::new(Rows::new(batch.schema.clone(), self.rows + 1)))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        if !self.has(batch.batch_id) {
            let mut rows = Vec::new();
            for part in &parts {
                rows.extend(staged::decode(&part.staged)?);
            }
            self.show(batch, &rows)?;
            *self.newest.lock() = Some(batch.batch_id);
        }
        Ok(Committed { rows: parts.iter().map(|part| part.rows).sum(), ..Committed::default() })
    }
}

#[cfg(test)]
mod tests;
