//! A file as a stream of records, and of batches.

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{Error, Result};

use super::super::FileRef;
use super::super::input::Input;
use super::super::plan::Projection;
use super::Plan;
use super::decoder::{Decoder, Next};
use super::options::XmlOptions;
use super::records::{Found, Splitter};

/// A batch is handed out when its records have this many bytes, however few rows they make.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

/// The longest file of which the text is kept when it is malformed; of longer ones it is the record's.
const MOST_TEXT: usize = 128 * 1024 * 1024;

/// Something in a file, and where it begins.
pub(super) struct Record {
    /// What it is.
    pub(super) content: Content,
    /// Where it begins in the file.
    pub(super) position: u64,
}

/// What was found in a file.
pub(super) enum Content {
    /// A record.
    Row(Vec<u8>),
    /// The place where the document is broken, and why. It is the last.
    Broken(&'static str),
    /// A record that is too long, and how long it is.
    TooLarge(u64),
}

/// The records of a file, one after the other.
pub(super) struct Records {
    file: FileRef,
    options: super::super::input::InputOptions,
    splitter: Splitter,
    input: Option<Input>,
}

impl Records {
    /// The records of this file.
    pub(super) fn open(file: FileRef, options: &XmlOptions) -> Self {
        let splitter = Splitter::new(&options.row_tag, options.values.ignore_namespace, options.limit);
        Records { file, options: options.input, splitter, input: None }
    }

    /// The next one.
    ///
    /// # Errors
    /// Those of reading the file.
    pub(super) async fn next(&mut self) -> Result<Option<Record>> {
        loop {
            let (content, position) = match self.splitter.find() {
                Found::Row { start, end, position } => (Content::Row(self.splitter.bytes(start, end).to_vec()), position),
                Found::Broken { position, what } => (Content::Broken(what), position),
                Found::TooLarge { position, length } => (Content::TooLarge(length), position),
                Found::End => return Ok(None),
                Found::Incomplete => {
                    let input = match &mut self.input {
                        Some(input) => input,
                        none => none.insert(Input::open(&self.file, &self.options).await?),
                    };
                    if input.read(self.splitter.space()).await? == 0 {
                        self.splitter.finish();
                    }
                    continue;
                }
            };
            return Ok(Some(Record { content, position }));
        }
    }

    /// Nothing more is read: the last record is no XML, and so the document is none.
    pub(super) fn stop(&mut self) {
        self.splitter.stop();
    }

    /// The text of the whole file, unless it is too long.
    ///
    /// # Errors
    /// Those of reading the file.
    pub(super) async fn text(&mut self) -> Result<Option<String>> {
        let mut input = Input::open(&self.file, &self.options).await?;
        let mut bytes = Vec::new();
        while input.read(&mut bytes).await? > 0 {
            if bytes.len() > MOST_TEXT {
                return Ok(None);
            }
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Reads a file. A fault of the file comes after the rows before it.
pub(super) fn batches(plan: Arc<Plan>, projection: Projection, file: FileRef, context: ReadContext) -> BatchStream {
    let decoder = Decoder::new(plan.clone(), projection, file.url.clone(), context.quarantine.clone());
    let reading = Reading { records: Records::open(file, &plan.options), decoder, batch_size: context.batch_size.max(1), fault: None };
    futures::stream::try_unfold(reading, |mut reading| async move { Ok(reading.next_batch().await?.map(|batch| (batch, reading))) }).boxed()
}

struct Reading {
    records: Records,
    decoder: Decoder,
    batch_size: usize,
    /// What ends the reading once the rows before it are out.
    fault: Option<Error>,
}

impl Reading {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.fault.is_none()
            && let Err(fault) = self.fill().await
        {
            self.fault = Some(fault);
        }
        if self.decoder.rows() > 0 {
            return self.decoder.finish().map(Some);
        }
        self.fault.take().map_or(Ok(None), Err)
    }

    /// Decodes records until there is a batch, or nothing more.
    async fn fill(&mut self) -> Result<()> {
        let mut decoded = 0;
        while let Some(record) = self.records.next().await? {
            if let Content::Row(bytes) = &record.content {
                decoded += bytes.len();
            }
            match self.decoder.record(&record)? {
                Next::Going => {}
                Next::TextWanted => {
                    let text = self.records.text().await?;
                    self.decoder.file_text(text);
                    if self.decoder.record(&record)? == Next::Broken {
                        self.records.stop();
                    }
                }
                Next::Broken => self.records.stop(),
            }
            // Without a row it would look like the end of the file, however many records were left out.
            if self.decoder.rows() >= self.batch_size || decoded >= BATCH_BYTES && self.decoder.rows() > 0 {
                return Ok(());
            }
        }
        Ok(())
    }
}
