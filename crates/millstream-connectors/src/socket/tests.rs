use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use millstream_core::conformance::source::{SourceFactory, all};
use millstream_core::source_log::MemorySourceLog;
use millstream_core::{ErrorKind, Offset, ReadLimit};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::*;
use crate::rate::tests::{ManualClock, collect};

/// A listener, and the connection that a source opened last.
struct Sender {
    listener: TcpListener,
    connection: Mutex<Option<TcpStream>>,
    sent: Mutex<u32>,
    extra: Vec<(&'static str, &'static str)>,
}

impl Sender {
    async fn new(extra: &[(&'static str, &'static str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Sender { listener, connection: Mutex::new(None), sent: Mutex::new(0), extra: extra.to_vec() }
    }

    fn request(&self) -> ReadRequest {
        let mut options: Options = self.extra.iter().copied().collect();
        options.set("host", "127.0.0.1");
        options.set("port", self.listener.local_addr().unwrap().port().to_string());
        ReadRequest { options, ..ReadRequest::default() }
    }

    async fn send(&self, bytes: &[u8]) {
        let mut connection = self.connection.lock().await;
        connection.as_mut().unwrap().write_all(bytes).await.unwrap();
    }
}

#[async_trait]
impl SourceFactory for Sender {
    async fn open(&self) -> Result<Arc<dyn Source>> {
        let context = SourceContext { log: Arc::new(MemorySourceLog::default()), clock: ManualClock::at(1_704_067_200_000) };
        let source = SocketProvider::with_partitions(2).source(&self.request(), context).await?;
        *self.connection.lock().await = Some(self.listener.accept().await.unwrap().0);
        Ok(source)
    }

    async fn feed(&self) -> Result<()> {
        let mut sent = self.sent.lock().await;
        *sent += 1;
        self.send(format!("line {sent}\nand its mate\n").as_bytes()).await;
        // The lines cross a real socket.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(())
    }

    fn replayable(&self) -> bool {
        false
    }
}

async fn until(source: &dyn Source, last: i64) -> Offset {
    loop {
        let newest = source.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap().unwrap();
        if newest.read::<i64>().unwrap() >= last {
            return newest;
        }
        tokio::time::timeout(Duration::from_secs(10), source.changed()).await.unwrap();
    }
}

fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let values = batches.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter().map(|text| text.unwrap().to_owned()));
    values.collect()
}

#[tokio::test]
async fn conforms() {
    // The checks open many connections, one after the other.
    let listeners = futures::future::join_all((0..8).map(|_| Sender::new(&[]))).await;
    let listeners = std::sync::Mutex::new(listeners);
    all(|| listeners.lock().unwrap().pop().unwrap()).await.unwrap();
}

/// Recorded from Spark 4.2.
#[tokio::test]
async fn lines_are_those_of_spark() {
    let sender = Sender::new(&[("numPartitions", "2"), ("includeTimestamp", "true")]).await;
    let source = sender.open().await.unwrap();
    assert_eq!(source.description(), format!("TextSocketV2[host: 127.0.0.1, port: {}]", sender.listener.local_addr().unwrap().port()));
    let first = source.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap().unwrap();
    assert_eq!(first.as_json(), "-1");
    assert!(source.plan(None, &first).await.unwrap().is_empty());

    sender.send("one\ntwo\r\nthr".as_bytes()).await;
    let second = until(source.as_ref(), 1).await;
    assert_eq!(texts(&collect(&source.plan(Some(&first), &second).await.unwrap(), &[0]).await), ["one", "two"]);
    sender.send("ee\n\nžluť\nlast".as_bytes()).await;
    let third = until(source.as_ref(), 4).await;
    let batches = collect(&source.plan(Some(&second), &third).await.unwrap(), &[0, 1]).await;
    assert_eq!(texts(&batches), ["three", "žluť", ""]);
    assert_eq!(batches[0].column(1).as_primitive::<TimestampMicrosecondType>().value(0), 1_704_067_200_000_000);
    // What is behind the last line end is a line when the connection ends.
    *sender.connection.lock().await = None;
    let fourth = until(source.as_ref(), 5).await;
    assert_eq!(texts(&collect(&source.plan(Some(&third), &fourth).await.unwrap(), &[0]).await), ["last"]);
}

#[tokio::test]
async fn committed_lines_are_forgotten_and_said_to_be() {
    let sender = Sender::new(&[]).await;
    let source = sender.open().await.unwrap();
    sender.send(b"a\nb\n").await;
    let end = until(source.as_ref(), 1).await;
    source.commit(&end).await.unwrap();
    let error = source.plan(None, &end).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::DataLost, "SOCKET_NOT_REPLAYABLE"));
}

#[tokio::test]
async fn a_full_buffer_stops_reading_until_a_commit() {
    let sender = Sender::new(&[("maxBufferedBytes", "100")]).await;
    let source = sender.open().await.unwrap();
    sender.send(&b"0123456789\n".repeat(5)).await;
    let end = until(source.as_ref(), 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(until(source.as_ref(), 1).await, end, "two lines of 42 bytes fit into 100");
    source.commit(&end).await.unwrap();
    until(source.as_ref(), 3).await;
}

#[tokio::test]
async fn a_line_larger_than_the_buffer_fails_the_query_after_the_lines_before_it() {
    let sender = Sender::new(&[("maxBufferedBytes", "64")]).await;
    let source = sender.open().await.unwrap();
    sender.send(b"ok\n").await;
    sender.send(&[b'x'; 4096]).await;
    let end = until(source.as_ref(), 0).await;
    let failure = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            if let Err(error) = source.latest_offset(Some(&end), &ReadLimit::AllAvailable).await {
                return error;
            }
            source.changed().await;
        }
    });
    assert_eq!(failure.await.unwrap().code(), "SOCKET_LINE_TOO_LONG");
}

#[tokio::test]
async fn bad_options_have_sparks_conditions() {
    let provider = SocketProvider::with_partitions(2);
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[], "_LEGACY_ERROR_TEMP_1295"),
        (&[("host", "localhost")], "_LEGACY_ERROR_TEMP_1296"),
        (&[("host", "localhost"), ("port", "x")], "NumberFormatException"),
        (&[("host", "localhost"), ("port", "1"), ("includeTimestamp", "perhaps")], "_LEGACY_ERROR_TEMP_1297"),
    ];
    for (options, code) in cases {
        let request = ReadRequest { options: options.iter().copied().collect(), ..ReadRequest::default() };
        assert_eq!(provider.schema(&request, true).await.unwrap_err().code(), *code, "{options:?}");
    }
}
