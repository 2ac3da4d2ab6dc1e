//! The format `xml`: the elements of one name are rows, their attributes, elements and text are columns, with the rules of Spark.
//!
//! One deliberate difference: a record whose own attributes do not fit their columns is malformed (Spark fails the query whatever the mode).

mod convert;
mod decoder;
mod element;
mod infer;
mod options;
mod records;
mod stream;
#[cfg(test)]
mod tests;
mod value;
mod variants;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{OptionSpec, Options, Result};

use super::plan::TextColumns;
use super::{FileFormat, FileReader, FileRef};
use options::XmlOptions;
pub(crate) use options::row_tag;

/// A schema and options that were checked.
type Plan = super::plan::Plan<XmlOptions>;

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Xml;

#[async_trait]
impl FileFormat for Xml {
    fn names(&self) -> &'static [&'static str] {
        &["xml"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        options::specs()
    }

    async fn infer(&self, files: &[FileRef], options: &Options) -> Result<SchemaRef> {
        infer::infer(files, &XmlOptions::from_options(options)?).await
    }

    fn reader(&self, schema: SchemaRef, options: &Options) -> Result<Arc<dyn FileReader>> {
        let options = XmlOptions::from_options(options)?;
        if let Some(name) = &options.single_variant {
            super::plan::check_single_variant(&schema, name, &options.corrupt_record)?;
        }
        let plan = Plan::new("xml", schema, options, convert::is_supported, |options| TextColumns {
            corrupt_record: &options.corrupt_record,
            rescued_data: options.rescued_data.as_deref(),
        })?;
        Ok(Arc::new(XmlReader { plan }))
    }
}

#[derive(Debug)]
struct XmlReader {
    plan: Arc<Plan>,
}

impl FileReader for XmlReader {
    fn read(&self, file: FileRef, context: ReadContext) -> BatchStream {
        match self.plan.project(&context.projection) {
            Ok(projection) => stream::batches(self.plan.clone(), projection, file, context),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }
}
