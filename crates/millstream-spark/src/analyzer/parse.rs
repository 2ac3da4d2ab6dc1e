//! `spark.read.json(df)` and `spark.read.csv(df)`: the texts of a column as rows.

use arrow::datatypes::DataType;
use millstream_core::{Error, Result};
use spark_connect_proto::Parse;
use spark_connect_proto::parse::ParseFormat;

use super::Attribute;
use super::call::{attribute, function, text};
use super::columns::{item, project};
use super::expression::{Resolver, Scope};
use super::gather::incomplete;
use super::relation::{Analyzer, Node};
use crate::functions::Typed;
use crate::types;

impl Analyzer<'_> {
    pub(super) fn parse(&self, parse: &Parse, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(parse.input.as_deref(), outer)?;
        let reader = match parse.format() {
            ParseFormat::Json => "from_json",
            ParseFormat::Csv => "from_csv",
            ParseFormat::Xml | ParseFormat::Unspecified => {
                return Err(Error::invalid("UNSUPPORTED_FEATURE", "only JSON and CSV texts can be parsed").with_sqlstate("0A000"));
            }
        };
        let column = input.visible().next().cloned().ok_or_else(|| incomplete("the column of texts"))?;
        if column.data_type != DataType::Utf8 {
            return Err(Error::invalid("INVALID_PLAN_INPUT", "only a column of texts can be parsed").with_sqlstate("42000"));
        }
        let schema = parse.schema.as_ref().map(types::from_proto).transpose()?;
        let schema = schema.ok_or_else(|| {
            Error::invalid("UNSUPPORTED_FEATURE", "the schema of texts is not inferred: give one with .schema(…)").with_sqlstate("0A000")
        })?;
        let DataType::Struct(fields) = schema.data_type() else {
            return Err(Error::invalid("INVALID_PLAN_INPUT", "a schema is a struct").with_sqlstate("42000"));
        };
        let ddl = types::to_ddl(&arrow::datatypes::Schema::new(fields.clone()));
        let mut arguments = vec![attribute(&column.name), text(&ddl)];
        if !parse.options.is_empty() {
            let mut options: Vec<(&String, &String)> = parse.options.iter().collect();
            options.sort();
            arguments.push(function("map", options.into_iter().flat_map(|(key, value)| [text(key), text(value)]).collect()));
        }
        let scope = Scope { columns: std::slice::from_ref(&column), ..Scope::default() };
        let parsed = self.value(&function(reader, arguments), &scope)?;
        let whole = Attribute::of("parsed", &parsed);
        let parsed = item(&parsed, &whole.internal, &input.plan)?;
        let plan = project(input.plan, vec![parsed])?;
        let resolver = Resolver::new(self.settings, &scope, self);
        let mut columns = Vec::with_capacity(fields.len());
        let mut items = Vec::with_capacity(fields.len());
        for field in fields {
            let value = resolver.call("extract_value", vec![whole.typed(), Typed::text(field.name())])?;
            let column = Attribute::of(field.name(), &value);
            items.push(item(&value, &column.internal, &plan)?);
            columns.push(column);
        }
        Ok(Node::new(project(plan, items)?, columns))
    }
}
