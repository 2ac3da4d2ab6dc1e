//! Tables of state variables, without a query around them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};

use super::map::MapTable;
use super::rows::Expiring;
use super::state::{GroupKey, ProcessorState};
use super::{Rows, StateVariable, TimeMode};

fn long(name: &str) -> Fields {
    Fields::from(vec![Field::new(name, DataType::Int64, true)])
}

fn column(values: &[i64]) -> Vec<ArrayRef> {
    vec![Arc::new(Int64Array::from(values.to_vec()))]
}

fn numbers(columns: &[ArrayRef]) -> Vec<i64> {
    columns[0].as_primitive::<Int64Type>().values().to_vec()
}

fn state(variables: &[StateVariable]) -> (ProcessorState, GroupKey) {
    let state = ProcessorState::new(long("k").iter().cloned().collect(), TimeMode::ProcessingTime, variables).unwrap();
    let key = state.key(&column(&[1])).unwrap();
    (state, key)
}

/// Entries whose numbers are taken already go further, and come back when there is room.
#[test]
fn entries_of_a_map_with_one_number_are_told_apart() {
    let variable = StateVariable::map("m", long("u"), long("v"));
    let key_field = long("k").iter().cloned().collect::<Vec<_>>();
    let mut map =
        MapTable::new(crate::stateful::table::Tables::in_memory().open(variable.table(&key_field)).unwrap(), 1, |_, _| Ok(i64::MAX - 1));
    let (_, key) = state(&[]);
    let forever = Expiring { at: None };
    for user in 0..5 {
        map.put(&key, &column(&[user]), &column(&[user * 10]), None).unwrap();
    }
    for (removed, left) in [(0, vec![1, 2, 3, 4]), (3, vec![1, 2, 4]), (9, vec![1, 2, 4]), (4, vec![1, 2])] {
        map.remove(&key, &column(&[removed])).unwrap();
        let found: Vec<i64> = (0..5)
            .filter(|user| map.get(&key, &column(&[*user]), &forever).unwrap().is_some_and(|row| numbers(&row) == [user * 10]))
            .collect();
        assert_eq!(found, left, "after {removed}");
        assert_eq!(map.entries(&key, &forever).unwrap().0.count, left.len());
    }
    assert_eq!(map.clear(&key).unwrap(), 2);
}

#[test]
fn rows_expire_at_their_time_and_not_before() {
    let variables = [
        StateVariable::value("value", long("v")).with_ttl(10),
        StateVariable::list("list", long("v")).with_ttl(10),
        StateVariable::map("map", long("u"), long("v")).with_ttl(10),
    ];
    let (mut state, key) = state(&variables);
    state.begin(100, 0);
    state.set_value(0, &key, &column(&[1])).unwrap();
    state.append(1, &key, &Rows { columns: column(&[1, 2]), count: 2 }).unwrap();
    state.set_map_value(2, &key, &column(&[1]), &column(&[1])).unwrap();
    state.begin(105, 0);
    state.append(1, &key, &Rows { columns: column(&[3]), count: 1 }).unwrap();
    state.expire().unwrap();
    for (now, value, list, rows) in [(109, true, vec![1, 2, 3], 3), (110, false, vec![3], 1), (115, false, vec![], 0)] {
        state.begin(now, 0);
        assert_eq!(state.value(0, &key).unwrap().is_some(), value, "at {now}");
        assert_eq!(numbers(&state.list(1, &key).unwrap().columns), list, "at {now}");
        assert_eq!(state.map_value(2, &key, &column(&[1])).unwrap().is_some(), value, "at {now}");
        state.expire().unwrap();
        assert_eq!(state.rows(), rows, "at {now}");
    }
    // A list that lost its first rows goes on where it was.
    state.append(1, &key, &Rows { columns: column(&[4]), count: 1 }).unwrap();
    assert_eq!(numbers(&state.list(1, &key).unwrap().columns), [4]);
}

#[test]
fn names_and_times_to_live_are_checked() {
    let value = |name: &str| StateVariable::value(name, long("v"));
    for (variable, time_mode, refused) in [
        (value("a"), TimeMode::None, None),
        (value(""), TimeMode::None, Some("STATE_STORE_CANNOT_USE_COLUMN_FAMILY_WITH_INVALID_NAME")),
        (value("default"), TimeMode::None, Some("STATE_STORE_CANNOT_USE_COLUMN_FAMILY_WITH_INVALID_NAME")),
        (value("$a"), TimeMode::None, Some("STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY_WITH_RESERVED_CHARS")),
        (value("a").with_ttl(1), TimeMode::ProcessingTime, None),
        (value("a").with_ttl(0), TimeMode::ProcessingTime, Some("STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE")),
        (value("a").with_ttl(1), TimeMode::EventTime, Some("STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL")),
    ] {
        let checked = variable.check(time_mode);
        assert_eq!(checked.err().map(|error| error.code().to_owned()).as_deref(), refused, "{variable:?}");
    }
}
