//! Aggregations.

use millstream_core::{Error, Result};

use super::project::Selected;
use super::relation::{Analyzer, Node};

impl Analyzer<'_> {
    /// An aggregation of all rows.
    pub(super) fn aggregate_all(&self, _selected: Selected) -> Result<Node> {
        Err(Error::internal("aggregations are not there"))
    }
}
