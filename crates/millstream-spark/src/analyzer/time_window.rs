//! Time windows: `window`, `session_window` and `window_time`.

use millstream_core::Result;
use spark_connect_proto::Expression;

use super::expression::Scope;
use super::relation::{Analyzer, Node};

impl Analyzer<'_> {
    /// The relation with the time windows in expressions as hidden columns, and where each is.
    pub(super) fn with_time_windows(
        &self,
        input: Node,
        _expressions: &[&Expression],
        _outer: Option<&Scope<'_>>,
    ) -> Result<(Node, Vec<(Expression, usize)>)> {
        Ok((input, Vec::new()))
    }
}
