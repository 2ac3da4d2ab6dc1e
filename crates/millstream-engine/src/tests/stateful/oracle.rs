//! Random events in random batches: what a stream gives is what a naive computation over the same rows gives.

use std::collections::BTreeMap;

use millstream_core::Trigger;
use proptest::prelude::*;

use super::*;

const KEYS: [&str; 3] = ["a", "b", "c"];
const WIDTH: i64 = 10;

fn files() -> impl Strategy<Value = Vec<Vec<(usize, i64, i64)>>> {
    prop::collection::vec(prop::collection::vec((0..KEYS.len(), 0i64..200, 1i64..10), 0..6), 1..8)
}

/// Windowed sums as Spark's rules give them, computed row by row: rows of each batch, the batch's two watermarks, and one last batch without
/// data after each.
fn expected(files: &[Vec<(usize, i64, i64)>], delay: i64) -> Vec<String> {
    let (mut late, mut evict, mut largest) = (0i64, 0i64, 0i64);
    let mut open: BTreeMap<(i64, usize), i64> = BTreeMap::new();
    let mut out = Vec::new();
    let mut batches: std::collections::VecDeque<&[(usize, i64, i64)]> = files.iter().map(Vec::as_slice).collect();
    while let Some(rows) = batches.pop_front() {
        for (k, second, v) in rows {
            let start = (second.div_euclid(WIDTH)) * WIDTH;
            if start + WIDTH > late {
                *open.entry((start, *k)).or_default() += v;
            }
        }
        for (k, second, _) in rows {
            let _ = k;
            largest = largest.max(second - delay);
        }
        open.retain(|(start, k), sum| {
            let closed = start + WIDTH <= evict;
            if closed {
                out.push(format!("{start}|{}|{}|{sum}", start + WIDTH, KEYS[*k]));
            }
            !closed
        });
        let next = evict.max(largest);
        // All files are there from the start, so only the last is followed by a batch without data.
        if next > evict && batches.is_empty() {
            batches.push_back(&[]);
        }
        (late, evict) = (evict, next);
    }
    out.sort();
    out
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn windows_agree_with_a_naive_computation_whenever_the_query_is_restarted(files in files(), delay in 0i64..30, restart_after in 0usize..8) {
        let expected = expected(&files, delay);
        let actual = run(async {
            let events = Events::new("");
            let mut lab = Lab::new();
            let plan = || sums(events.watermarked(delay * 1_000), WIDTH, Some(delay * 1_000));
            let add = |file: &Vec<(usize, i64, i64)>| {
                let file: Vec<Event> = file.iter().map(|(k, second, v)| at(KEYS[*k], *second as f64, *v)).collect();
                events.add(&file);
            };
            let split = restart_after.min(files.len());
            lab.settings.no_data_batches = split == files.len();
            files[..split].iter().for_each(add);
            if split > 0 {
                lab.start_by(plan(), Append, Trigger::AvailableNow).await.unwrap().await_termination().await.unwrap();
            }
            if split < files.len() {
                files[split..].iter().for_each(add);
                lab = lab.restarted();
                lab.settings.no_data_batches = true;
                lab.start_by(plan(), Append, Trigger::AvailableNow).await.unwrap().await_termination().await.unwrap();
            }
            lab.results.since(0)
        });
        prop_assert_eq!(actual, expected);
    }

    #[test]
    fn an_inner_join_gives_every_pair_once(left in files(), right in files()) {
        let mut expected = Vec::new();
        for (lk, ls, lv) in left.iter().flatten() {
            for (rk, rs, rv) in right.iter().flatten() {
                if lk == rk && rs >= ls && *rs <= ls + 50 {
                    expected.push(format!("{}|{}|{lv}|{}|{}|{rv}", KEYS[*lk], ls + 1, KEYS[*rk], rs + 1));
                }
            }
        }
        expected.sort();
        let actual = run(async {
            use datafusion::common::JoinType;
            use datafusion::logical_expr::{LogicalPlanBuilder, lit};
            use datafusion::prelude::col;
            use datafusion::scalar::ScalarValue;
            let (l, r) = (Events::new("l"), Events::new("r"));
            for (events, files) in [(&l, &left), (&r, &right)] {
                for file in files {
                    // Second 0 is the watermark at the beginning, so a row of it is late.
                    events.add(&file.iter().map(|(k, second, v)| at(KEYS[*k], *second as f64 + 1.0, *v)).collect::<Vec<_>>());
                }
            }
            let range = lit(ScalarValue::new_interval_mdn(0, 0, 50_000_000_000));
            let on = col("lk").eq(col("rk")).and(col("rts").gt_eq(col("lts"))).and(col("rts").lt_eq(col("lts") + range));
            let plan = LogicalPlanBuilder::from(l.watermarked(200_000)).join_on(r.watermarked(200_000), JoinType::Inner, vec![on]).unwrap();
            let lab = Lab::new();
            lab.start_by(plan.build().unwrap(), Append, Trigger::AvailableNow).await.unwrap().await_termination().await.unwrap();
            lab.results.since(0)
        });
        prop_assert_eq!(actual, expected);
    }
}
