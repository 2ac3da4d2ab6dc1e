use proptest::prelude::*;

use super::*;

fn offsets(end: u64, watermark_ms: i64) -> OffsetRecord {
    OffsetRecord {
        watermark_ms,
        timestamp_ms: 1_000,
        conf: BTreeMap::new(),
        offsets: vec![Some(Offset::from_json(format!("{{\"logOffset\":{end}}}")).unwrap())],
        extra: BTreeMap::new(),
    }
}

fn commit(next_watermark_ms: i64) -> CommitRecord {
    CommitRecord { next_watermark_ms, extra: BTreeMap::new() }
}

fn tail(planned: Option<u64>, before: bool, committed: Option<u64>) -> LogTail {
    LogTail {
        latest_offsets: planned.map(|n| (n, offsets(n, 10 * n as i64))),
        previous_offsets: planned.and_then(|n| n.checked_sub(1)).filter(|_| before).map(|n| (n, offsets(n, 10 * n as i64))),
        latest_commit: committed.map(|n| (n, commit(10 * n as i64 + 7))),
    }
}

#[test]
fn table_of_decisions() {
    let batch = |resume: Result<Resume>| match resume {
        Ok(Resume::Fresh) => "fresh".to_owned(),
        Ok(Resume::Rerun { batch_id, .. }) => format!("rerun {batch_id}"),
        Ok(Resume::Next { batch_id, .. }) => format!("next {batch_id}"),
        Err(error) => error.code().to_owned(),
    };
    for (planned, before, committed, expected) in [
        (None, false, None, "fresh"),
        (None, false, Some(0), "CHECKPOINT_LOG_HOLE"),
        (Some(0), false, None, "rerun 0"),
        (Some(0), false, Some(0), "next 1"),
        (Some(3), true, Some(3), "next 4"),
        (Some(3), true, Some(2), "rerun 3"),
        (Some(3), true, Some(1), "rerun 3"),
        (Some(3), true, None, "rerun 3"),
        (Some(3), false, Some(3), "CHECKPOINT_LOG_HOLE"),
        (Some(3), true, Some(4), "CHECKPOINT_LOG_HOLE"),
    ] {
        assert_eq!(batch(resume(&tail(planned, before, committed))), expected, "{planned:?} {before} {committed:?}");
    }
}

#[test]
fn a_rerun_starts_where_the_batch_before_ended_and_keeps_its_record() {
    let Resume::Rerun { record, start, late_watermark_ms, .. } = resume(&tail(Some(3), true, Some(2))).unwrap() else { panic!() };
    assert_eq!(record, offsets(3, 30));
    assert_eq!(start, offsets(2, 20).offsets);
    assert_eq!(late_watermark_ms, 20);
}

#[test]
fn the_next_watermark_never_goes_below_either_log() {
    let mut logs = tail(Some(3), true, Some(3));
    logs.latest_commit = Some((3, commit(5)));
    let Resume::Next { watermark_ms, late_watermark_ms, .. } = resume(&logs).unwrap() else { panic!() };
    assert_eq!((watermark_ms, late_watermark_ms), (30, 30));
}

#[test]
fn another_number_of_sources_is_refused_with_both_numbers() {
    let error = check_sources(&offsets(1, 0), 2).unwrap_err();
    assert_eq!(error.code(), "CHECKPOINT_SOURCES_CHANGED");
    assert!(error.message().contains("[1]") && error.message().contains("[2]"));
}

proptest! {
    /// Whatever a crash leaves, no committed batch runs again, and every planned one does before a new one is planned.
    #[test]
    fn a_crash_anywhere_neither_skips_nor_repeats(batches in 0u64..50, step in 0u8..3) {
        let (planned, committed) = match (batches, step) {
            (0, 0) => (None, None),
            (n, 0) => (Some(n - 1), Some(n - 1)),
            (n, _) => (Some(n), n.checked_sub(1)),
        };
        let decision = resume(&tail(planned, true, committed)).unwrap();
        let runs = match decision {
            Resume::Fresh => 0,
            Resume::Rerun { batch_id, .. } | Resume::Next { batch_id, .. } => batch_id,
        };
        prop_assert_eq!(runs, committed.map_or(0, |n| n + 1));
    }
}
