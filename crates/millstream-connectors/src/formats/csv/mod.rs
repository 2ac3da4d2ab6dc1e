//! The format `csv`: one record in every line, or with `multiLine` where quotes allow, with the rules of Spark.
//!
//! Columns go by position. What makes a record malformed is another number of values than the schema has columns, unless only some of the
//! columns are read, and values that do not fit the columns that are read.
//!
//! One deliberate difference: quotes, escapes and comments are ASCII characters.

mod column;
mod decoder;
mod dialect;
mod infer;
mod options;
mod plan;
mod records;
mod source;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{OptionSpec, Options, Result};

use super::{FileFormat, FileReader, FileRef};
use options::CsvOptions;
use plan::Plan;

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Csv;

#[async_trait]
impl FileFormat for Csv {
    fn names(&self) -> &'static [&'static str] {
        &["csv"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        options::specs()
    }

    fn streams_need_schema(&self, options: &Options) -> bool {
        options.get("singleVariantColumn").is_none()
    }

    fn filters_rows(&self) -> bool {
        true
    }

    async fn infer(&self, files: &[FileRef], options: &Options) -> Result<SchemaRef> {
        let checked = CsvOptions::from_options(options)?;
        // Files without a line in them are read as no columns, as Spark does.
        infer::infer(files, &checked, options.get("dateFormat")).await
    }

    fn reader(&self, schema: SchemaRef, options: &Options) -> Result<Arc<dyn FileReader>> {
        Ok(Arc::new(CsvReader { plan: Plan::new(schema, CsvOptions::from_options(options)?)? }))
    }
}

#[derive(Debug)]
struct CsvReader {
    plan: Arc<Plan>,
}

impl FileReader for CsvReader {
    fn read(&self, file: FileRef, context: ReadContext) -> BatchStream {
        match self.plan.project(&context.projection) {
            Ok(projection) => stream::batches(self.plan.clone(), projection, file, context),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }
}
