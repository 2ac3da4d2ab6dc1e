//! The data of the ingest benchmark: the same rows as JSON lines, CSV and Parquet, the same in every run.

use std::fs::{File, create_dir_all};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::outcome::{Outcome, at, say};

/// The columns, in Spark's notation.
pub const SCHEMA: &str = "id BIGINT, at TIMESTAMP, station STRING, reading DOUBLE, valid BOOLEAN, note STRING";

/// Files of a data set.
const FILES: u64 = 8;
/// Rows of a file that are made at once.
const CHUNK: u64 = 50_000;

/// The formats, by the names that both engines know.
pub const FORMATS: [&str; 3] = ["json", "csv", "parquet"];

/// One data set.
#[derive(Debug)]
pub struct DataSet {
    /// Its directory.
    pub dir: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its rows.
    pub rows: u64,
}

/// Makes the data set of a format unless it is there from an earlier run.
pub fn prepare(work: &Path, format: &str, quick: bool) -> Outcome<DataSet> {
    let rows: u64 = if quick { 200_000 } else { 1_600_000 };
    let dir = work.join(format!("data-{rows}")).join(format);
    create_dir_all(&dir).map_err(at(&dir))?;
    let mut bytes = 0;
    for file in 0..FILES {
        let path = dir.join(format!("part-{file:02}.{format}"));
        if !path.exists() {
            let unfinished = dir.join(format!(".part-{file:02}"));
            write(&unfinished, format, file * (rows / FILES), rows / FILES)?;
            std::fs::rename(&unfinished, &path).map_err(at(&path))?;
        }
        bytes += std::fs::metadata(&path).map_err(at(&path))?.len();
    }
    Ok(DataSet { dir, bytes, rows })
}

fn write(path: &Path, format: &str, first: u64, rows: u64) -> Outcome {
    let file = BufWriter::new(File::create(path).map_err(at(path))?);
    let chunks = (0..rows.div_ceil(CHUNK)).map(|chunk| {
        let start = first + chunk * CHUNK;
        rows_of(start, (first + rows).min(start + CHUNK))
    });
    match format {
        "json" => {
            let mut writer = arrow::json::LineDelimitedWriter::new(file);
            for chunk in chunks {
                writer.write(&chunk?).map_err(at(path))?;
            }
            writer.finish().map_err(at(path))
        }
        "csv" => {
            let mut writer = arrow::csv::WriterBuilder::new().with_header(false).build(file);
            for chunk in chunks {
                writer.write(&chunk?).map_err(at(path))?;
            }
            Ok(())
        }
        _ => {
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            let mut writer = ArrowWriter::try_new(file, rows_of(0, 1)?.schema(), Some(properties)).map_err(at(path))?;
            for chunk in chunks {
                writer.write(&chunk?).map_err(at(path))?;
            }
            writer.close().map_err(at(path)).map(drop)
        }
    }
}

/// Rows `first..end`: numbers, times a few milliseconds apart, few stations, mostly valid, and text that repeats only in part.
fn rows_of(first: u64, end: u64) -> Outcome<RecordBatch> {
    let ids = || (first..end).map(|id| id as i64);
    let columns: [(&str, ArrayRef); 6] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids()))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(ids().map(|id| 1_704_067_200_000_000 + id * 7_000)).with_timezone("UTC")),
        ),
        ("station", Arc::new(StringArray::from_iter_values(ids().map(|id| format!("station-{:03}", mixed(id) % 500))))),
        ("reading", Arc::new(Float64Array::from_iter_values(ids().map(|id| (mixed(id) % 1_000_000) as f64 / 1_000.0)))),
        ("valid", Arc::new(ids().map(|id| Some(!mixed(id).is_multiple_of(17))).collect::<BooleanArray>())),
        ("note", Arc::new(StringArray::from_iter_values(ids().map(|id| format!("observed by {:08x} in passing", mixed(id) as u32))))),
    ];
    RecordBatch::try_from_iter(columns).map_err(say)
}

/// A number that looks random and is the same in every run (the finaliser of SplitMix64).
fn mixed(id: i64) -> u64 {
    let mut z = (id as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
