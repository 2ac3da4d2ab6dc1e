//! The format `json`: one JSON object in every line, or with `multiLine` one value in every file, with the rules of Spark.
//!
//! Records are parsed from bytes straight into columns; fields that are not read are only checked and stepped over. What makes a record
//! malformed is its syntax, wherever it is wrong, and values that do not fit the columns that are read.
//!
//! Two deliberate differences: records that are not UTF-8 are malformed (Spark puts U+FFFD in their place), and so are records nested
//! deeper than 128 (Spark allows 1000).

mod column;
mod convert;
mod cursor;
mod decoder;
mod infer;
mod number;
mod object;
mod options;
mod plan;
mod stream;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{OptionSpec, Options, Result};

use super::{FileFormat, FileReader, FileRef};
use options::JsonOptions;
use plan::Plan;

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Json;

#[async_trait]
impl FileFormat for Json {
    fn names(&self) -> &'static [&'static str] {
        &["json"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        options::specs()
    }

    fn filters_rows(&self) -> bool {
        true
    }

    async fn infer(&self, files: &[FileRef], options: &Options) -> Result<SchemaRef> {
        infer::infer(files, &JsonOptions::from_options(options)?).await
    }

    fn reader(&self, schema: SchemaRef, options: &Options) -> Result<Arc<dyn FileReader>> {
        Ok(Arc::new(JsonReader { plan: Plan::new(schema, JsonOptions::from_options(options)?)? }))
    }
}

#[derive(Debug)]
struct JsonReader {
    plan: Arc<Plan>,
}

impl FileReader for JsonReader {
    fn read(&self, file: FileRef, context: ReadContext) -> BatchStream {
        match self.plan.project(&context.projection) {
            Ok(projection) => stream::batches(self.plan.clone(), projection, file, context),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }
}
