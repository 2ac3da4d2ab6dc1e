//! Tables of which only the columns are known: those of a graph that is being checked.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use millstream_core::options::OptionSpec;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{Source, Split, Table};
use millstream_core::{Error, Result};
use millstream_engine::relation::{StreamRelation, TableRelation};
use millstream_engine::stateful::WATERMARK_DELAY;

use super::schema::nullable;
use crate::analyzer::Leaf;

/// A table of these columns, read as a stream or as it is. Nothing can be read from it.
pub(crate) fn leaf(label: &str, schema: &SchemaRef, streaming: bool) -> Leaf {
    let mut fields: Vec<Field> = nullable(schema).fields().iter().map(|field| field.as_ref().clone()).collect();
    for field in &mut fields {
        // What is stored has no watermark any more.
        field.metadata_mut().remove(WATERMARK_DELAY);
    }
    let schema = Arc::new(Schema::new(fields));
    let provider: Arc<dyn TableProvider> = if streaming {
        let request = ReadRequest { schema: Some(schema.clone()), ..ReadRequest::default() };
        Arc::new(StreamRelation { provider: Arc::new(Declared(schema.clone())), request, schema, name: None })
    } else {
        Arc::new(TableRelation { table: Arc::new(Declared(schema)), label: label.to_owned(), size_bytes: 0 })
    };
    Leaf::Table(provider)
}

#[derive(Debug)]
struct Declared(SchemaRef);

fn unread() -> Error {
    Error::internal("a table was read that was only declared")
}

#[async_trait]
impl SourceProvider for Declared {
    fn names(&self) -> &'static [&'static str] {
        &["declared"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    async fn schema(&self, _request: &ReadRequest, _streaming: bool) -> Result<SchemaRef> {
        Ok(self.0.clone())
    }

    async fn source(&self, _request: &ReadRequest, _context: SourceContext) -> Result<Arc<dyn Source>> {
        Err(unread())
    }

    async fn table(&self, _request: &ReadRequest) -> Result<Arc<dyn Table>> {
        Err(unread())
    }
}

#[async_trait]
impl Table for Declared {
    fn schema(&self) -> SchemaRef {
        self.0.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        Err(unread())
    }
}
