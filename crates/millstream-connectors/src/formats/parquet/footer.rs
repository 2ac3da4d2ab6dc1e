//! The metadata at the end of a Parquet file.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use millstream_core::Result;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::schema::types::SchemaDescriptor;

use super::super::FileRef;
use super::super::positioned::{Positioned, decode_error, guarded, unreadable};

/// The largest footer that is read: more is taken for damage or an attack.
pub(super) const MAX_FOOTER_BYTES: u64 = 64 << 20;

/// How much of the end is read at first; most footers fit.
const TAIL_BYTES: u64 = 64 << 10;

/// The fixed end of a file: four bytes of length and four of magic.
const TRAILER_BYTES: usize = 8;

/// The metadata of an open file. Its Arrow schema follows from the Parquet types alone: an Arrow schema that the writer has embedded says
/// how the data lay in the writer's memory, which is nobody's business here.
pub(super) async fn read(file: &FileRef, open: &Positioned) -> Result<ArrowReaderMetadata> {
    let len = open.len();
    let tail_start = len.saturating_sub(TAIL_BYTES);
    let fetch = |range| async { open.read(range).await.map_err(|error| decode_error(file, error)) };
    let tail = fetch(tail_start..len).await?;
    let Some((body, [l0, l1, l2, l3, magic @ ..])) = tail.split_last_chunk::<TRAILER_BYTES>() else {
        return Err(unreadable(file, format!("it is no Parquet file: it has only {len} bytes")));
    };
    match magic {
        b"PAR1" => {}
        b"PARE" => return Err(unreadable(file, "its footer is encrypted, which is not supported")),
        _ => return Err(unreadable(file, "it is no Parquet file, or was cut off: it does not end with PAR1")),
    }
    let footer_len = u64::from(u32::from_le_bytes([*l0, *l1, *l2, *l3]));
    let before_trailer = len.saturating_sub(TRAILER_BYTES as u64);
    if footer_len > before_trailer {
        return Err(unreadable(file, format!("its footer claims {footer_len} bytes of a file of {len}")));
    }
    if footer_len > MAX_FOOTER_BYTES {
        return Err(unreadable(file, format!("its footer of {footer_len} bytes is above the limit of {MAX_FOOTER_BYTES}")));
    }
    let from = usize::try_from(footer_len).ok().and_then(|footer_len| body.len().checked_sub(footer_len));
    let footer = match from {
        Some(from) => tail.slice(from..body.len()),
        None => fetch(before_trailer - footer_len..before_trailer).await?,
    };
    guarded(file, || {
        let metadata = Arc::new(ParquetMetaDataReader::decode_metadata(&footer).map_err(|error| decode_error(file, error))?);
        let bare = ArrowReaderMetadata::try_new(metadata.clone(), ArrowReaderOptions::new().with_skip_arrow_metadata(true))
            .map_err(|error| decode_error(file, error))?;
        match int96_as_micros(bare.schema(), bare.parquet_schema()) {
            None => Ok(bare),
            Some(schema) => ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new().with_schema(Arc::new(schema)))
                .map_err(|error| decode_error(file, error)),
        }
    })
}

/// The schema with INT96 timestamps as UTC microseconds, if there are any. Nanoseconds, the decoder's default, overflow outside the years
/// 1677 to 2262.
fn int96_as_micros(schema: &Schema, parquet: &SchemaDescriptor) -> Option<Schema> {
    if !parquet.columns().iter().any(|column| column.physical_type() == PhysicalType::INT96) {
        return None;
    }
    let mut leaf = 0;
    Some(Schema::new_with_metadata(int96_fields(schema.fields(), parquet, &mut leaf), schema.metadata().clone()))
}

fn int96_fields(fields: &Fields, parquet: &SchemaDescriptor, leaf: &mut usize) -> Fields {
    fields.iter().map(|field| Arc::new(int96_field(field, parquet, leaf))).collect()
}

/// Arrow's leaves and Parquet's come in the same order.
fn int96_field(field: &Field, parquet: &SchemaDescriptor, leaf: &mut usize) -> Field {
    let kind = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(int96_fields(fields, parquet, leaf)),
        DataType::List(item) => DataType::List(Arc::new(int96_field(item, parquet, leaf))),
        DataType::Map(entries, ordered) => DataType::Map(Arc::new(int96_field(entries, parquet, leaf)), *ordered),
        kind => {
            let is_int96 = parquet.columns().get(*leaf).is_some_and(|column| column.physical_type() == PhysicalType::INT96);
            *leaf += 1;
            if is_int96 { DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())) } else { kind.clone() }
        }
    };
    field.clone().with_data_type(kind)
}
