use std::collections::BTreeSet;

use super::runs::Runs;
use super::*;

const SLIDES: [Slide; 5] = [
    Slide { width: 10, slide: 5, start: 0 },
    Slide { width: 10, slide: 4, start: 1 },
    Slide { width: 60, slide: 1, start: 0 },
    Slide { width: 9, slide: 6, start: -2 },
    Slide { width: 10, slide: 10, start: -3 },
];

#[test]
fn an_instant_is_in_the_windows_that_begin_at_or_before_it_and_end_after_it() {
    for (slide, instant, expected) in [
        (Slide { width: 10, slide: 5, start: 0 }, 12, vec![10, 5]),
        (Slide { width: 10, slide: 5, start: 0 }, 10, vec![10, 5]),
        (Slide { width: 10, slide: 5, start: 0 }, -3, vec![-5, -10]),
        (Slide { width: 10, slide: 4, start: 0 }, 1, vec![0, -4, -8]),
        (Slide { width: 10, slide: 4, start: 0 }, 3, vec![0, -4]),
        (Slide { width: 10, slide: 5, start: 2 }, 6, vec![2, -3]),
        (Slide { width: 10, slide: 10, start: -3 }, 6, vec![-3]),
    ] {
        assert_eq!(slide.begins(instant).collect::<Vec<_>>(), expected, "{slide:?} {instant}");
    }
}

#[test]
fn instants_at_the_ends_of_time_do_not_fail() {
    for slide in SLIDES {
        for instant in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX] {
            let (first, last) = slide.span(instant);
            assert!(first <= last, "{slide:?} {instant}");
            slide.slice(instant);
        }
    }
}

#[test]
fn all_instants_of_a_slice_are_in_the_same_windows_and_there_are_few_slices() {
    for slide in SLIDES {
        let mut slices = BTreeSet::new();
        for instant in -100..100 {
            let slice = slide.slice(instant);
            assert!(slice <= instant && slide.begins(slice).eq(slide.begins(instant)), "{slide:?} {instant}");
            slices.insert(slice);
        }
        assert!(slices.len() as i64 <= 2 * (200 / slide.slide + 1), "{slide:?}: {} slices", slices.len());
    }
}

#[test]
fn windows_close_in_the_order_of_their_numbers() {
    for slide in SLIDES {
        for instant in -50..50 {
            let number = slide.last_closed(instant);
            assert!(slide.end(number) <= instant && slide.end(number + 1) > instant, "{slide:?} {instant}");
        }
    }
}

#[test]
fn runs_are_sets_of_numbers() {
    type Spans = &'static [(i64, i64)];
    let cases: [(Spans, (i64, i64), &[i64]); 5] = [
        (&[], (i64::MIN, i64::MAX), &[]),
        (&[(1, 3), (2, 5), (9, 9)], (i64::MIN, i64::MAX), &[1, 2, 3, 4, 5, 9]),
        (&[(1, 3), (4, 5)], (2, 4), &[3, 4]),
        (&[(1, 3), (7, 8)], (3, 6), &[]),
        (&[(3, 1)], (i64::MIN, i64::MAX), &[]),
    ];
    for (spans, (after, last), expected) in cases {
        let runs = Runs::of(spans.iter().copied()).between(after, last);
        assert_eq!(runs.numbers().collect::<Vec<_>>(), expected, "{spans:?}");
        assert_eq!(runs.count(), expected.len() as u64, "{spans:?}");
        assert_eq!(runs.first(), expected.first().copied(), "{spans:?}");
    }
}
