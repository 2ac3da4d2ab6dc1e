//! The source. Its offset is the number of the last line, counted from 0.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::{StreamExt, stream};
use millstream_core::source::{BatchStream, ReadContext, Source, Split};
use millstream_core::{Clock, Error, ErrorKind, Offset, ReadLimit, Result};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::SocketOptions;
use super::buffer::{Buffer, Line};

/// Reads lines from one connection for as long as it lasts.
#[derive(Debug)]
pub struct SocketSource {
    options: SocketOptions,
    schema: SchemaRef,
    buffer: Arc<Buffer>,
    reader: AbortHandle,
}

impl SocketSource {
    /// Connects and begins to read.
    ///
    /// # Errors
    /// `SOCKET_UNREACHABLE`.
    pub(super) async fn connect(options: SocketOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let stream = TcpStream::connect((options.host.as_str(), options.port)).await.map_err(|error| {
            Error::new(
                ErrorKind::SourceUnavailable,
                "SOCKET_UNREACHABLE",
                format!("cannot connect to {}:{}: start the program that sends lines first", options.host, options.port),
            )
            .caused_by(error)
        })?;
        let buffer = Arc::new(Buffer::new(options.buffer_bytes));
        let reader = tokio::spawn(read_lines(stream, options.buffer_bytes, buffer.clone(), clock)).abort_handle();
        Ok(SocketSource { schema: options.schema(), options, buffer, reader })
    }
}

impl Drop for SocketSource {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Reads until the connection ends. The last line counts without a line end, too.
async fn read_lines(stream: impl AsyncRead + Unpin, limit: u64, buffer: Arc<Buffer>, clock: Arc<dyn Clock>) {
    let mut stream = BufReader::new(stream);
    let mut pending = Vec::new();
    loop {
        let (used, complete) = match stream.fill_buf().await {
            Ok([]) => break,
            Ok(bytes) => match bytes.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    pending.extend_from_slice(bytes.get(..end).unwrap_or_default());
                    (end + 1, true)
                }
                None => {
                    pending.extend_from_slice(bytes);
                    (bytes.len(), false)
                }
            },
            Err(error) => {
                tracing::warn!(%error, "the socket failed; no more lines come");
                break;
            }
        };
        stream.consume(used);
        if pending.len() as u64 > limit {
            return buffer.fail(format!("a line of the socket is longer than {limit} bytes: raise option 'maxBufferedBytes'"));
        }
        if complete {
            buffer.push(line(&mut pending, clock.now_ms())).await;
        }
    }
    if !pending.is_empty() {
        buffer.push(line(&mut pending, clock.now_ms())).await;
    }
    tracing::warn!("the socket was closed by the other side; no more lines come");
}

/// The line, without the carriage return of a Windows sender; bytes that are not UTF-8 are replaced.
fn line(pending: &mut Vec<u8>, arrived_ms: i64) -> Line {
    if pending.last() == Some(&b'\r') {
        pending.pop();
    }
    let text = String::from_utf8_lossy(pending).into_owned();
    pending.clear();
    Line { text, arrived_ms }
}

fn number(offset: Option<&Offset>) -> Result<i64> {
    offset.map_or(Ok(-1), Offset::read)
}

#[async_trait]
impl Source for SocketSource {
    fn description(&self) -> String {
        format!("TextSocketV2[host: {}, port: {}]", self.options.host, self.options.port)
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Lines from now on are numbered behind those of the checkpoint, so that offsets never go back.
    async fn restore(&self, committed: Option<&Offset>) -> Result<()> {
        self.buffer.continue_after(number(committed)?);
        Ok(())
    }

    /// The first batch of a query ends at line −1 and has no rows when nothing has arrived yet, as in Spark.
    async fn latest_offset(&self, start: Option<&Offset>, _limit: &ReadLimit) -> Result<Option<Offset>> {
        let newest = self.buffer.newest().max(number(start)?);
        if let Some(reason) = self.buffer.failure().filter(|_| start.is_some_and(|start| start.as_json() == newest.to_string())) {
            return Err(Error::new(ErrorKind::SourceUnavailable, "SOCKET_LINE_TOO_LONG", reason));
        }
        Offset::of(&newest).map(Some)
    }

    fn reported_latest(&self) -> Option<Offset> {
        Offset::of(&self.buffer.newest()).ok()
    }

    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let lines = self.buffer.range(number(start)?, number(Some(end))?)?;
        let mut dealt = vec![Vec::new(); self.options.partitions.min(lines.len())];
        let partitions = dealt.len().max(1);
        for (number, line) in lines.into_iter().enumerate() {
            if let Some(lines) = dealt.get_mut(number % partitions) {
                lines.push(line);
            }
        }
        let splits = dealt.into_iter().enumerate().map(|(partition, lines)| {
            Arc::new(SocketSplit { label: format!("socket-{partition}"), schema: self.schema.clone(), lines: lines.into() })
                as Arc<dyn Split>
        });
        Ok(splits.collect())
    }

    async fn commit(&self, end: &Offset) -> Result<()> {
        self.buffer.forget(number(Some(end))?);
        Ok(())
    }

    async fn changed(&self) {
        self.buffer.grew.notified().await;
    }

    async fn stop(&self) {
        self.reader.abort();
    }
}

#[derive(Debug)]
struct SocketSplit {
    label: String,
    schema: SchemaRef,
    lines: Arc<[Line]>,
}

impl Split for SocketSplit {
    fn label(&self) -> &str {
        &self.label
    }

    fn size_bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.text.len() as u64).sum()
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let (schema, lines) = (self.schema.clone(), self.lines.clone());
        let batch_size = context.batch_size.max(1);
        let batches = (0..lines.len()).step_by(batch_size).map(move |from| {
            let lines = lines.get(from..lines.len().min(from + batch_size)).unwrap_or_default();
            batch(&schema, lines, &context.projection)
        });
        stream::iter(batches).boxed()
    }
}

fn batch(schema: &SchemaRef, lines: &[Line], projection: &[usize]) -> Result<RecordBatch> {
    let column = |index: &usize| -> ArrayRef {
        if *index == 0 {
            Arc::new(StringArray::from_iter_values(lines.iter().map(|line| line.text.as_str())))
        } else {
            let micros = lines.iter().map(|line| line.arrived_ms.saturating_mul(1000));
            Arc::new(TimestampMicrosecondArray::from_iter_values(micros).with_timezone("UTC"))
        }
    };
    let misfit = |error| Error::internal("lines of a socket do not fit their schema").caused_by(error);
    let projected = Arc::new(schema.project(projection).map_err(misfit)?);
    let options = RecordBatchOptions::new().with_row_count(Some(lines.len()));
    RecordBatch::try_new_with_options(projected, projection.iter().map(column).collect(), &options).map_err(misfit)
}
