//! Where the state of an operator is: tasks own ranges of key groups, and each has tables of its own.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::Result as DfResult;
use millstream_checkpoint::KEY_GROUPS;
use millstream_checkpoint::state::store::Stores;
use millstream_core::Error;

use super::{StateTable, TableSchema};
use crate::to_datafusion;

/// Tables that an operator may have.
const TABLES: usize = 64;

/// Into how many tasks the operators of a query are split, and where they keep their state.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    tasks: usize,
    stores: Arc<Stores>,
    /// The operator's number in its query.
    operator: usize,
}

impl Placement {
    /// Up to so many tasks for each operator that can be split, with state in these stores.
    pub(crate) fn new(tasks: usize, stores: Arc<Stores>) -> Self {
        Placement { tasks: tasks.clamp(1, usize::from(KEY_GROUPS)), stores, operator: 0 }
    }

    /// One task in memory: for batch queries.
    pub(crate) fn alone() -> Self {
        Self::new(1, Stores::unlimited())
    }

    /// That of an operator that can be split.
    pub(crate) fn of_operator(&self, operator: usize) -> Self {
        Placement { operator, ..self.clone() }
    }

    /// That of an operator that must see all rows.
    pub(crate) fn in_one_task(&self, operator: usize) -> Self {
        Placement { operator, tasks: 1, stores: self.stores.clone() }
    }

    /// The tables of each task in turn.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = Tables> + '_ {
        let tables = |task| Tables {
            groups: task_groups(task, self.tasks),
            stores: self.stores.clone(),
            operator: self.operator,
            opened: Arc::default(),
        };
        (0..self.tasks).map(tables)
    }

    /// The stores.
    pub(crate) fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }
}

/// Opens the tables of one task, always in the same order. Clones open the next ones.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    groups: Range<u16>,
    stores: Arc<Stores>,
    operator: usize,
    /// How many tables it has opened.
    opened: Arc<AtomicUsize>,
}

impl Tables {
    /// Tables in memory with all keys.
    pub(crate) fn in_memory() -> Self {
        let groups = 0..KEY_GROUPS;
        Tables { groups, stores: Stores::unlimited(), operator: 0, opened: Arc::default() }
    }

    /// The key groups of the task.
    pub(crate) fn groups(&self) -> Range<u16> {
        self.groups.clone()
    }

    /// An empty table.
    ///
    /// # Errors
    /// When a column's type cannot be kept, and those of the store.
    pub(crate) fn open(&self, schema: TableSchema) -> DfResult<StateTable> {
        let opened = self.opened.fetch_add(1, Ordering::Relaxed);
        let number = u16::try_from(self.operator * TABLES + opened).ok().filter(|number| *number < 1 << 15 && opened < TABLES);
        let number = number.ok_or_else(|| to_datafusion(Error::internal("a query has too many tables of state")))?;
        let store = self.stores.open(number, schema.shape(), self.groups()).map_err(to_datafusion)?;
        StateTable::new(schema, self.groups(), store)
    }
}

/// The key groups that a task owns.
fn task_groups(task: usize, tasks: usize) -> Range<u16> {
    let first = |task: usize| (task * usize::from(KEY_GROUPS)).div_ceil(tasks.max(1)).min(usize::from(KEY_GROUPS)) as u16;
    first(task)..first(task + 1)
}

/// The task that owns a key group.
pub(crate) fn task_of(group: u16, tasks: usize) -> usize {
    usize::from(group) * tasks / usize::from(KEY_GROUPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_the_task_whose_range_it_is_in() {
        for tasks in [1, 2, 3, 7, 16, 100, 128] {
            let mut next = 0;
            for task in 0..tasks {
                let groups = task_groups(task, tasks);
                assert_eq!(groups.start, next);
                next = groups.end;
                for group in groups {
                    assert_eq!(task_of(group, tasks), task, "{group} of {tasks}");
                }
            }
            assert_eq!(next, KEY_GROUPS);
        }
    }
}
