use super::event::{Event, event};
use super::*;

fn parameters(events: u64) -> Parameters {
    let (_, parameters) = Parameters::parse(&["dir", "--events", &events.to_string()]).unwrap();
    parameters
}

#[test]
fn proportions_and_selectivities_are_those_of_the_benchmark() {
    let dir = std::env::temp_dir().join(format!("nexmark-{}", std::process::id()));
    let counts = write(&dir, &Parameters { files: 2, ..parameters(100_000) }).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!((counts["people"].as_u64(), counts["auctions"].as_u64(), counts["bids"].as_u64()), (Some(2_000), Some(6_000), Some(92_000)));
    for (what, expected, tolerance) in [
        ("auctions_of_category_10", 0.2, 0.02),
        ("people_in_three_states", 0.5, 0.04),
        ("bids_on_every_123rd", 1.0 / 123.0, 0.006),
        ("bids_of_middle_price", 0.283, 0.01),
        ("bids_with_channel", 0.95, 0.01),
    ] {
        let found = counts[what].as_f64().unwrap();
        assert!((found - expected).abs() < tolerance, "{what}: {found} instead of {expected}");
    }
}

#[test]
fn disorder_stays_inside_of_its_groups_and_loses_nothing() {
    let shuffled = Parameters { disorder: 1_000, rate: 1_000, ..parameters(0) };
    let times: Vec<i64> = (0..3_000).map(|number| time(&event(&shuffled, number))).collect();
    let mut sorted = times.clone();
    sorted.sort_unstable();
    assert_ne!(times, sorted);
    assert_eq!(sorted, (0..3_000).map(|number| time(&event(&Parameters { disorder: 1, ..shuffled.clone() }, number))).collect::<Vec<_>>());
    for (number, at) in times.iter().enumerate() {
        let group = (number / 1_000) as i64;
        assert_eq!((at - 1_700_000_000_000) / 1_000, group, "number {number}");
    }
}

#[test]
fn late_events_are_as_many_and_as_late_as_asked() {
    let on_time = parameters(0);
    let late = Parameters { late_per_mille: 100, lateness_ms: 5_000, ..on_time.clone() };
    let delays: Vec<i64> = (0..10_000).map(|number| time(&event(&on_time, number)) - time(&event(&late, number))).collect();
    assert!(delays.iter().all(|delay| (0..5_000).contains(delay)));
    let count = delays.iter().filter(|delay| **delay > 0).count();
    assert!((900..1_100).contains(&count), "{count}");
}

fn time(event: &Event) -> i64 {
    match event {
        Event::Person(person) => person.at_ms,
        Event::Auction(auction) => auction.at_ms,
        Event::Bid(bid) => bid.at_ms,
    }
}
