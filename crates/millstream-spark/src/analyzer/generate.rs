//! Generators: functions that give rows.

use millstream_core::{Error, Result};

use super::Attribute;
use super::relation::{Analyzer, Node};
use crate::functions::Typed;

impl Analyzer<'_> {
    /// The relation with the columns of a generator beside its own; they are hidden.
    pub(super) fn generate(
        &self,
        _input: Node,
        function: &str,
        _arguments: Vec<Typed>,
        _argument_names: &[String],
        _names: Vec<String>,
        _outer: bool,
    ) -> Result<(Node, Vec<Attribute>)> {
        Err(Error::internal(format!("the generator `{function}` is not there")))
    }
}
