//! XPath 1.0 over a document.

mod evaluate;
mod functions;
mod syntax;

use super::tree::{Document, NodeId};

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct XPath {
    expression: syntax::Expression,
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Nodes in the order of the document.
    Nodes(Vec<NodeId>),
    Text(String),
    Number(f64),
    Boolean(bool),
}

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault(pub(super) String);

impl Fault {
    fn syntax(what: impl Into<String>) -> Self {
        Fault(what.into())
    }
}

impl XPath {
    /// Compiles an expression.
    ///
    /// # Errors
    /// When the text is none, or calls a function that there is not.
    pub(super) fn compile(text: &str) -> Result<XPath, Fault> {
        let expression = syntax::parse(text)?;
        functions::check(&expression)?;
        Ok(XPath { expression })
    }

    /// Its value for a document.
    ///
    /// # Errors
    /// When it wants nodes of something that is none.
    pub(super) fn evaluate(&self, document: &Document) -> Result<Value, Fault> {
        evaluate::evaluate(&self.expression, evaluate::Context { document, node: 0, position: 1, size: 1 })
    }
}
