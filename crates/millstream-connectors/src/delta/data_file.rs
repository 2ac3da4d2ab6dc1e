//! The bytes of a data file, as the parquet reader asks for them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

/// Files up to this many bytes are fetched whole: one request instead of several for the small files of frequent batches.
const WHOLE: u64 = 1 << 20;
/// Bytes at the end of a larger file that are fetched first, and mostly hold its whole footer.
const FOOTER: usize = 64 << 10;

/// A data file in a store.
pub(super) struct DataFile {
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    whole: Option<Bytes>,
}

impl DataFile {
    pub(super) fn new(store: Arc<dyn ObjectStore>, path: Path, size: u64) -> Self {
        DataFile { store, path, size, whole: None }
    }

    async fn ranges(&mut self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        if self.size > WHOLE {
            return Ok(self.store.get_ranges(&self.path, &ranges).await?);
        }
        let whole = match &self.whole {
            Some(whole) => whole,
            None => self.whole.insert(self.store.get(&self.path).await?.bytes().await?),
        };
        ranges
            .into_iter()
            .map(|range| {
                let end = usize::try_from(range.end).unwrap_or(usize::MAX);
                match usize::try_from(range.start) {
                    Ok(start) if start <= end && end <= whole.len() => Ok(whole.slice(start..end)),
                    _ => Err(ParquetError::EOF(format!("{} has {} bytes and not {}", self.path, whole.len(), self.size))),
                }
            })
            .collect()
    }
}

impl AsyncFileReader for DataFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            let mut found = self.ranges(vec![range]).await?;
            found.pop().ok_or_else(|| ParquetError::EOF(format!("{} gave no bytes", self.path)))
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        self.ranges(ranges).boxed()
    }

    fn get_metadata<'a>(&'a mut self, options: Option<&'a ArrowReaderOptions>) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        async move {
            let size = self.size;
            let reader = ParquetMetaDataReader::new()
                .with_metadata_options(options.map(|options| options.metadata_options().clone()))
                .with_prefetch_hint(Some(FOOTER));
            Ok(Arc::new(reader.load_and_finish(self, size).await?))
        }
        .boxed()
    }
}
