//! Records of a part until its batch is committed: in memory while they are few, in a file without a name when they are many.
//!
//! A record that was sent cannot be taken back, so nothing is sent before the commit. The file goes away with the process.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use async_trait::async_trait;
use bytes::Bytes;
use millstream_core::sink::{Part, PartWriter};
use millstream_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::columns::Columns;

/// How many bytes of a part stay in memory.
const IN_MEMORY: usize = 8 << 20;

/// Files of parts, by number.
#[derive(Debug, Default)]
pub(super) struct Files {
    next: AtomicU64,
    open: Mutex<HashMap<u64, File>>,
}

impl Files {
    fn keep(&self, file: File) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, file);
        number
    }

    /// Forgets the files of parts.
    pub(super) fn forget(&self, parts: &[Part]) {
        let mut open = self.open.lock();
        for number in parts.iter().filter_map(|part| number_of(&part.staged)) {
            open.remove(&number);
        }
    }

    /// Reads the rows of a part. Blocks on the file, if there is one.
    ///
    /// # Errors
    /// `SINK_STAGING_FAILED` for a file that cannot be read, `INTERNAL_ERROR`.
    pub(super) fn read(&self, staged: &Bytes) -> Result<StreamReader<Box<dyn Read>>> {
        let source: Box<dyn Read> = match number_of(staged) {
            Some(number) => {
                let file = self.open.lock().get(&number).map(File::try_clone);
                let mut file = file.ok_or_else(|| Error::internal("a part of another process cannot be sent"))?.map_err(failed)?;
                file.seek(SeekFrom::Start(0)).map_err(failed)?;
                Box::new(BufReader::with_capacity(1 << 20, file))
            }
            None => Box::new(Cursor::new(staged.slice(1..))),
        };
        StreamReader::try_new(source, None).map_err(|error| Error::internal("staged records do not decode").caused_by(error))
    }
}

/// Staged bytes begin with 0 and are the rows, or with 1 and are the number of their file.
fn number_of(staged: &Bytes) -> Option<u64> {
    let (1, number) = (staged.first()?, staged.get(1..9)?) else { return None };
    number.try_into().ok().map(u64::from_le_bytes)
}

fn failed(error: std::io::Error) -> Error {
    let message = "records that wait for their batch cannot be kept in the folder of temporary files: check its space";
    Error::new(ErrorKind::SinkUnavailable, "SINK_STAGING_FAILED", message).caused_by(error)
}

/// Stages the rows of a part.
pub(super) struct StagingWriter {
    columns: Arc<Columns>,
    writer: StreamWriter<Vec<u8>>,
    file: Option<File>,
    files: Arc<Files>,
    rows: u64,
}

impl StagingWriter {
    pub(super) fn new(columns: Arc<Columns>, files: Arc<Files>) -> Result<Self> {
        let writer = StreamWriter::try_new(vec![0], &columns.schema).map_err(encoding)?;
        Ok(StagingWriter { columns, writer, file: None, files, rows: 0 })
    }

    /// Moves what is in memory to the file.
    async fn spill(&mut self) -> Result<()> {
        let bytes = std::mem::take(self.writer.get_mut());
        let file = self.file.take();
        let writing = tokio::task::spawn_blocking(move || -> std::io::Result<File> {
            match file {
                Some(mut file) => file.write_all(&bytes).map(|()| file),
                None => {
                    let mut file = tempfile::tempfile()?;
                    // Without the byte that says that these are the rows.
                    file.write_all(bytes.get(1..).unwrap_or_default())?;
                    Ok(file)
                }
            }
        });
        self.file = Some(writing.await.map_err(|error| Error::internal("staging records ended early").caused_by(error))?.map_err(failed)?);
        Ok(())
    }
}

fn encoding(error: arrow::error::ArrowError) -> Error {
    Error::internal("records do not encode").caused_by(error)
}

#[async_trait]
impl PartWriter for StagingWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        let records = self.columns.of(&rows)?;
        self.rows += records.num_rows() as u64;
        self.writer.write(&records).map_err(encoding)?;
        if self.writer.get_ref().len() > IN_MEMORY {
            self.spill().await?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<Part> {
        self.writer.finish().map_err(encoding)?;
        if self.file.is_some() {
            self.spill().await?;
        }
        let staged = match self.file.take() {
            Some(file) => Bytes::from([&[1][..], &self.files.keep(file).to_le_bytes()].concat()),
            None => Bytes::from(std::mem::take(self.writer.get_mut())),
        };
        Ok(Part { rows: self.rows, bytes: 0, staged })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[tokio::test]
    async fn few_rows_stay_in_memory_and_many_go_to_a_file_and_all_come_back() {
        let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Utf8, true)]));
        let columns = Arc::new(Columns::bind(&schema, true).unwrap());
        let text = "x".repeat(100_000);
        for batches in [0_usize, 1, 200] {
            let files = Arc::new(Files::default());
            let mut writer = Box::new(StagingWriter::new(columns.clone(), files.clone()).unwrap());
            for _ in 0..batches {
                let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(StringArray::from(vec![text.as_str(), "y"]))]).unwrap();
                writer.write(rows).await.unwrap();
            }
            let part = writer.finish().await.unwrap();
            assert_eq!(part.rows, 2 * batches as u64);
            assert_eq!(number_of(&part.staged).is_some(), batches == 200);
            // A part may be read again, after an attempt that failed.
            for _ in 0..2 {
                let read: Vec<RecordBatch> = files.read(&part.staged).unwrap().collect::<Result<_, _>>().unwrap();
                let values: usize = read.iter().map(|rows| rows.column(0).as_binary::<i32>().value_data().len()).sum();
                assert_eq!(values, batches * 100_001);
                assert!(read.iter().all(|rows| rows.column(0).null_count() == 0));
            }
            files.forget(std::slice::from_ref(&part));
            assert!(files.open.lock().is_empty());
        }
    }
}
