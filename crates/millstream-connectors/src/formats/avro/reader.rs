//! Reading the rows of an Avro file: blocks are framed, decompressed and checked here, and decoded by `arrow-avro`.

use std::io::{BufRead, Cursor, Read};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::AvroSchema;
use futures::stream::{self, StreamExt, TryStreamExt};
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{Error, ErrorKind, Options, Result};

use super::super::positioned::{decode_error, guarded, unreadable};
use super::super::resolve::{Clash, Resolution, find};
use super::super::{FileReader, FileRef};
use super::container::{Block, Container, SYNC_BYTES};
use super::infer::incompatible;
use super::schema::{Type, bare, parse};
use super::types;
use super::union::{replace_unions, without_unions};
use super::validate::{validate, write_long};

/// How many bytes of records are decoded together at least, unless a batch is full before.
const GROUP_BYTES: usize = 4 << 20;

/// Reads Avro files into one schema.
#[derive(Debug)]
pub(super) struct AvroReader {
    schema: SchemaRef,
    reader_schema: Option<Arc<ReaderSchema>>,
    by_position: bool,
}

/// The schema of the option `avroSchema`.
#[derive(Debug)]
struct ReaderSchema {
    json: String,
    columns: Vec<String>,
}

impl AvroReader {
    /// # Errors
    /// `AVRO_INCOMPATIBLE_SCHEMA` for an `avroSchema` that cannot be used.
    pub(super) fn new(schema: SchemaRef, options: &Options) -> Result<Self> {
        let reader_schema = options.get("avroSchema").map(|json| {
            let (parsed, value) = parse(json).map_err(|why| incompatible("the option avroSchema", &why))?;
            let columns = column_names(&parsed).ok_or_else(|| incompatible("the option avroSchema", "it is no record"))?;
            Ok(Arc::new(ReaderSchema { json: bare(&value, false).to_string(), columns }))
        });
        let by_position = options.bool("positionalFieldMatching", false)?;
        Ok(AvroReader { schema, reader_schema: reader_schema.transpose()?, by_position })
    }
}

impl FileReader for AvroReader {
    fn read(&self, file: FileRef, context: ReadContext) -> BatchStream {
        let bound = match self.schema.project(&context.projection) {
            Ok(bound) => Arc::new(bound),
            Err(error) => {
                let error = Error::internal("the projection of an Avro read does not fit its schema").caused_by(error);
                return stream::once(async { Err(error) }).boxed();
            }
        };
        let positions = self.by_position.then(|| context.projection.clone());
        let batch_size = context.batch_size.max(1);
        let reader_schema = self.reader_schema.clone();
        let open = async move {
            let Some(container) = Container::open(&file).await? else { return Ok(stream::empty().boxed()) };
            let plan = Plan::new(&file, &container.schema, reader_schema.as_deref(), bound, positions, batch_size)?;
            let state = Reading { file, container, plan, failure: None };
            let batches = stream::try_unfold(Some(state), |state| async {
                match state {
                    Some(mut state) => {
                        Ok(state.next_group().await?.map(|batches| (stream::iter(batches.into_iter().map(Ok)), Some(state))))
                    }
                    None => Ok(None),
                }
            });
            Ok(batches.try_flatten().boxed())
        };
        stream::once(open).try_flatten().boxed()
    }
}

fn column_names(record: &Type) -> Option<Vec<String>> {
    match record {
        Type::Record(fields) => Some(fields.iter().map(|(name, _)| name.clone()).collect()),
        _ => None,
    }
}

struct Reading {
    file: FileRef,
    container: Container,
    plan: Plan,
    /// What went wrong after the blocks that were handed out last.
    failure: Option<Error>,
}

impl Reading {
    /// The rows of the next blocks; `None` at the end.
    async fn next_group(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let (mut rows, mut data) = (0_usize, Vec::new());
        while rows < self.plan.batch_size && data.len() < GROUP_BYTES {
            match self.next_block().await {
                Ok(Some((count, block))) => {
                    rows = rows.saturating_add(count);
                    if data.is_empty() { data = block.data } else { data.extend_from_slice(&block.data) }
                }
                Ok(None) => break,
                Err(error) if rows == 0 => return Err(error),
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        guarded(&self.file, || self.plan.decode(&self.file, rows, &data)).map(Some)
    }

    async fn next_block(&mut self) -> Result<Option<(usize, Block)>> {
        let Some(block) = self.container.next_block().await? else { return Ok(None) };
        validate(&self.plan.record, block.count, &block.data).map_err(|why| unreadable(&self.file, why))?;
        let count = usize::try_from(block.count).map_err(|_| unreadable(&self.file, "a block has an impossible number of records"))?;
        Ok(Some((count, block)))
    }
}

/// How the records of one file become the bound columns.
struct Plan {
    /// The writer's record type.
    record: Arc<Type>,
    /// A header for `arrow-avro`: blocks reach it decompressed, and its schema is reduced to what Spark knows.
    header: Vec<u8>,
    reader_schema: Option<String>,
    /// The columns to decode, of the reader's schema if there is one and of the writer's otherwise.
    columns: Vec<usize>,
    /// Columns as they come, with unions replaced.
    decoded: SchemaRef,
    resolution: Resolution,
    batch_size: usize,
}

impl Plan {
    fn new(
        file: &FileRef,
        writer: &str,
        reader: Option<&ReaderSchema>,
        bound: SchemaRef,
        positions: Option<Vec<usize>>,
        batch_size: usize,
    ) -> Result<Self> {
        let (record, value) = parse(writer).map_err(|why| unreadable(file, &why))?;
        let names = match reader {
            Some(reader) => reader.columns.clone(),
            None => column_names(&record).ok_or_else(|| unreadable(file, "its Avro schema is no record, so it has no columns"))?,
        };
        let columns = wanted(&names, &bound, positions.as_deref()).map_err(|clash| mismatch(file, &clash))?;
        let mut plan = Plan {
            record,
            header: header(&bare(&value, true).to_string()),
            reader_schema: reader.map(|reader| reader.json.clone()),
            columns,
            decoded: Arc::new(Schema::empty()),
            resolution: Resolution::new(&Schema::empty().fields, bound.clone(), types::rules).map_err(|clash| mismatch(file, &clash))?,
            batch_size,
        };
        if !plan.columns.is_empty() {
            let schema = guarded(file, || {
                let open = plan.builder().build(Cursor::new(plan.header.as_slice()));
                open.map(|reader| reader.schema()).map_err(|error| decode_error(file, error))
            })?;
            plan.decoded = Arc::new(Schema::new(without_unions(schema.fields())));
            let matched = if let Some(positions) = &positions { renamed(&plan, &bound, positions) } else { plan.decoded.clone() };
            plan.resolution = Resolution::new(matched.fields(), bound, types::rules).map_err(|clash| mismatch(file, &clash))?;
        }
        Ok(plan)
    }

    fn builder(&self) -> ReaderBuilder {
        let builder = ReaderBuilder::new().with_batch_size(self.batch_size).with_projection(self.columns.clone());
        match &self.reader_schema {
            Some(json) => builder.with_reader_schema(AvroSchema::new(json.clone())),
            None => builder,
        }
    }

    /// Decodes `rows` records, which are all of `data`.
    fn decode(&self, file: &FileRef, rows: usize, data: &[u8]) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        let mut finish = |batch: &RecordBatch| -> Result<()> {
            let batch = self.resolution.apply(batch).map_err(|error| does_not_fit(file, error))?;
            batches.push(batch);
            Ok(())
        };
        if self.columns.is_empty() {
            let mut left = rows;
            while left > 0 {
                let step = left.min(self.batch_size);
                let options = RecordBatchOptions::new().with_row_count(Some(step));
                let empty = RecordBatch::try_new_with_options(self.decoded.clone(), vec![], &options);
                finish(&empty.map_err(|error| decode_error(file, error))?)?;
                left -= step;
            }
            return Ok(batches);
        }
        let mut seen = 0;
        for batch in self.builder().build(self.framed(rows, data)).map_err(|error| decode_error(file, error))? {
            let batch = batch.map_err(|error| decode_error(file, error))?;
            seen += batch.num_rows();
            finish(&replace_unions(&batch, &self.decoded).map_err(|error| decode_error(file, error))?)?;
        }
        if seen != rows {
            return Err(unreadable(file, format!("{rows} records were expected in a block but {seen} were found")));
        }
        Ok(batches)
    }

    /// A container file of one block.
    fn framed<'a>(&'a self, rows: usize, data: &'a [u8]) -> impl BufRead + 'a {
        let mut frame = Vec::new();
        write_long(rows as u64, &mut frame);
        write_long(data.len() as u64, &mut frame);
        Cursor::new(self.header.as_slice()).chain(Cursor::new(frame)).chain(Cursor::new(data)).chain(Cursor::new([0_u8; SYNC_BYTES]))
    }
}

/// The columns of a file that are needed, by name or by position.
fn wanted(names: &[String], bound: &SchemaRef, positions: Option<&[usize]>) -> Result<Vec<usize>, Clash> {
    if let Some(positions) = positions {
        return Ok(positions.iter().copied().filter(|position| *position < names.len()).collect());
    }
    let fields = names.iter().map(|name| arrow::datatypes::Field::new(name, DataType::Null, true)).collect();
    let mut columns = Vec::new();
    for field in bound.fields() {
        if let Some(position) = find(&fields, field.name())?
            && !columns.contains(&position)
        {
            columns.push(position);
        }
    }
    Ok(columns)
}

/// The decoded columns under the names of the bound columns at their positions.
fn renamed(plan: &Plan, bound: &SchemaRef, positions: &[usize]) -> SchemaRef {
    let named = plan.decoded.fields().iter().zip(&plan.columns).map(|(field, column)| {
        let name = positions.iter().position(|position| position == column).and_then(|at| bound.fields().get(at));
        match name {
            Some(name) => field.as_ref().clone().with_name(name.name()),
            None => field.as_ref().clone(),
        }
    });
    Arc::new(Schema::new(named.collect::<Vec<_>>()))
}

fn header(schema: &str) -> Vec<u8> {
    let mut header = b"Obj\x01".to_vec();
    write_long(2, &mut header);
    for text in ["avro.schema", schema, "avro.codec", "null"] {
        write_long(text.len() as u64, &mut header);
        header.extend_from_slice(text.as_bytes());
    }
    header.push(0);
    header.extend_from_slice(&[0; SYNC_BYTES]);
    header
}

fn mismatch(file: &FileRef, clash: &Clash) -> Error {
    let message = format!("file {} does not fit the schema: {clash}", file.url);
    Error::new(ErrorKind::SchemaMismatch, "FAILED_READ_FILE.NO_HINT", message).with_sqlstate("KD001")
}

fn does_not_fit(file: &FileRef, error: arrow::error::ArrowError) -> Error {
    let message = format!("file {} has a value that does not fit its column's type", file.url);
    Error::new(ErrorKind::SchemaMismatch, "FAILED_READ_FILE.NO_HINT", message).with_sqlstate("KD001").caused_by(error)
}
