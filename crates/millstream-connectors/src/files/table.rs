//! Files read as a table.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::Result;
use millstream_core::source::{Split, Table};

use super::listing::FileStatus;
use super::scan::Scan;

/// The files that were there when the table was opened. As in Spark, files that appear later are not part of it; what is in the files is
/// read anew by every scan.
#[derive(Debug)]
pub struct FileTable {
    pub(crate) scan: Arc<Scan>,
    pub(crate) files: Vec<FileStatus>,
}

impl FileTable {
    /// About how many bytes the files have.
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).fold(0, u64::saturating_add)
    }
}

#[async_trait]
impl Table for FileTable {
    fn schema(&self) -> SchemaRef {
        self.scan.schema.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        self.scan.splits(self.files.iter().map(|file| (file.clone(), false)))
    }
}
