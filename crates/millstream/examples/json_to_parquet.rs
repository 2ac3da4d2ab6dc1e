//! Embeds Millstream: JSON lines from one folder to Parquet files in another, exactly once, until everything that is there is done.
//!
//!     cargo run --example json_to_parquet -- IN OUT CHECKPOINT 'id BIGINT, name STRING'
//!
//! The checkpoint and the `_spark_metadata` of the output are Spark's formats: Spark can go on where this stopped, and this where Spark did.

use std::error::Error;

use millstream::wiring::Wiring;
use millstream::{QueryRequest, Session, SessionOptions, Trigger};
use millstream_core::registry::{ReadRequest, WriteRequest};
use millstream_core::sink::OutputMode;
use millstream_core::{Options, Result};
use millstream_spark::types::parse_schema;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, checkpoint, schema] = args.as_slice() else {
        return Err("usage: json_to_parquet IN OUT CHECKPOINT SCHEMA".into());
    };
    run(input, output, checkpoint, schema).await?;
    Ok(())
}

async fn run(input: &str, output: &str, checkpoint: &str, schema: &str) -> Result<()> {
    let wiring = Wiring::system();
    let session = Session::new(wiring.registry(std::io::stdout()), SessionOptions::default())?;
    let read = ReadRequest {
        schema: Some(Arc::new(parse_schema(schema)?)),
        paths: vec![input.to_owned()],
        options: Options::new().with("maxFilesPerTrigger", "1"),
    };
    let stream = session.stream_relation("json", read).await?;
    session.context().register_table("input", Arc::new(stream)).map_err(millstream_engine::from_datafusion)?;
    let write = WriteRequest { path: Some(output.to_owned()), ..WriteRequest::default() };
    let request = QueryRequest {
        name: Some("json_to_parquet".to_owned()),
        plan: session.plan_sql("SELECT * FROM input").await?,
        output: None,
        sink: session.registry().sink("parquet")?.sink(&write).await?,
        mode: OutputMode::Append,
        trigger: Trigger::AvailableNow,
        checkpoint: wiring.checkpoint(checkpoint).await?,
        quarantine: None,
        expectations: vec![],
        settings: millstream::QuerySettings::default(),
    };
    let query = session.start(request).await?;
    // Its progress says what happened; the error, if there is one, why it ended.
    query.await_termination().await.map_err(|error| millstream::Error::new(error.kind(), error.code().to_owned(), error.message()))
}
