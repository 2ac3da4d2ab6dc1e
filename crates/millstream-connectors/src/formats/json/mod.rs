//! The format `json`: one JSON object in every line, or with `multiLine` one value in every file, with the rules of Spark.
//!
//! Records are parsed from bytes straight into columns; fields that are not read are only checked and stepped over. What makes a record
//! malformed is its syntax, wherever it is wrong, and values that do not fit the columns that are read.
//!
//! Two deliberate differences: records that are not UTF-8 are malformed (Spark puts U+FFFD in their place), and so are records nested
//! deeper than 128 (Spark allows 1000).

mod column;
mod convert;
mod decoder;
mod infer;
mod object;
mod options;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{OptionSpec, Options, Result};

use super::plan::TextColumns;
use super::{FileFormat, FileReader, FileRef};
use options::JsonOptions;

/// A schema and options that were checked.
type Plan = super::plan::Plan<JsonOptions>;

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

    fn streams_need_schema(&self, options: &Options) -> bool {
        options.get("singleVariantColumn").is_none()
    }

    fn filters_rows(&self) -> bool {
        true
    }

    async fn infer(&self, files: &[FileRef], options: &Options) -> Result<SchemaRef> {
        infer::infer(files, &JsonOptions::from_options(options)?).await
    }

    fn reader(&self, schema: SchemaRef, options: &Options) -> Result<Arc<dyn FileReader>> {
        Ok(Arc::new(JsonReader { plan: plan_of(schema, JsonOptions::from_options(options)?)? }))
    }
}

fn plan_of(schema: SchemaRef, options: JsonOptions) -> Result<Arc<Plan>> {
    if let Some(name) = &options.single_variant {
        super::plan::check_single_variant(&schema, name, &options.corrupt_record)?;
    }
    Plan::new("json", schema, options, column::is_supported, |options| TextColumns {
        corrupt_record: &options.corrupt_record,
        rescued_data: options.rescued_data.as_deref(),
    })
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
