//! The event of a number: its kind, its time, and its fields.

use std::fmt::Write;

use super::Parameters;
use super::random::Random;
use super::words::{CITIES, FIRST_NAMES, HOT_CHANNELS, LAST_NAMES, STATES};

/// Event time of the first event, milliseconds: 2023-11-14 22:13:20 UTC.
const BASE_MS: u64 = 1_700_000_000_000;
/// Events of one person, three auctions and 46 bids.
const EPOCH: u64 = 50;
const FIRST_ID: i64 = 1_000;
const FIRST_CATEGORY: i64 = 10;
/// People who may act, and auctions that are open.
const ACTIVE_PEOPLE: i64 = 1_000;
const OPEN_AUCTIONS: i64 = 100;
/// People and auctions that may be named before they exist.
const PEOPLE_AHEAD: i64 = 10;
const AUCTIONS_AHEAD: i64 = 10;
/// One number in a hundred is hot.
const HOT_STEP: i64 = 100;

/// An event.
#[derive(Debug)]
pub enum Event {
    /// Somebody registers.
    Person(Person),
    /// Something is put up for sale.
    Auction(Auction),
    /// Somebody offers a price.
    Bid(Bid),
}

/// A person.
#[derive(Debug)]
pub struct Person {
    pub id: i64,
    pub name: String,
    pub email: String,
    pub card: String,
    pub city: &'static str,
    pub state: &'static str,
    pub at_ms: i64,
    pub extra: String,
}

/// An auction.
#[derive(Debug)]
pub struct Auction {
    pub id: i64,
    pub item: String,
    pub description: String,
    pub initial_bid: i64,
    pub reserve: i64,
    pub at_ms: i64,
    pub expires_ms: i64,
    pub seller: i64,
    pub category: i64,
    pub extra: String,
}

/// A bid; prices are in cents.
#[derive(Debug)]
pub struct Bid {
    pub auction: i64,
    pub bidder: i64,
    pub price: i64,
    pub channel: String,
    pub url: String,
    pub at_ms: i64,
    pub extra: String,
}

/// The event that comes at this place of the stream.
pub fn event(parameters: &Parameters, number: u64) -> Event {
    let group = parameters.disorder;
    let id = (number / group) * group + (number * 953) % group;
    let mut random = Random::of(parameters.seed, id);
    // Microseconds first: at high rates several events share a millisecond.
    let mut at_ms = (BASE_MS + id * 1_000_000 / parameters.rate / 1_000) as i64;
    if parameters.lateness_ms > 0 && random.below(1_000) < parameters.late_per_mille {
        at_ms -= random.below(parameters.lateness_ms) as i64;
    }
    match id % EPOCH {
        0 => Event::Person(person(&mut random, id, at_ms)),
        1..=3 => Event::Auction(auction(&mut random, id, at_ms, parameters.rate)),
        _ => Event::Bid(bid(&mut random, id, at_ms)),
    }
}

/// The newest person before or at an event, counted from 0.
fn last_person(id: u64) -> i64 {
    (id / EPOCH) as i64
}

/// The newest auction before or at an event, counted from 0; −1 when there is none.
fn last_auction(id: u64) -> i64 {
    let (epoch, offset) = ((id / EPOCH) as i64, (id % EPOCH) as i64);
    epoch * 3 + if offset < 1 { -1 } else { (offset - 1).min(2) }
}

/// A price in cents: its logarithm is uniform over six decades.
fn price(random: &mut Random) -> i64 {
    (10_f64.powf(random.unit() * 6.0) * 100.0).round() as i64
}

/// Somebody who is active, or soon will be.
fn some_person(random: &mut Random, last: i64) -> i64 {
    let active = (last + 1).min(ACTIVE_PEOPLE);
    last + 1 - active + random.below((active + PEOPLE_AHEAD) as u64) as i64 + FIRST_ID
}

/// Fills a record up to about `average` bytes.
fn extra(random: &mut Random, size: usize, average: usize) -> String {
    let mut text = String::new();
    let Some(missing) = average.checked_sub(size).filter(|missing| *missing > 0) else { return text };
    let spread = (missing as f64 * 0.2).round() as u64;
    let count = missing as u64 - spread + random.below(2 * spread + 1);
    random.exactly(&mut text, count, ' ');
    text
}

fn person(random: &mut Random, id: u64, at_ms: i64) -> Person {
    let name = format!("{} {}", random.among(&FIRST_NAMES), random.among(&LAST_NAMES));
    let mut email = String::new();
    random.letters(&mut email, 7, 'x');
    email.push('@');
    random.letters(&mut email, 5, 'x');
    email.push_str(".com");
    let mut card = String::new();
    for group in 0..4 {
        // Writing to a string cannot fail.
        let _ = write!(card, "{}{:04}", if group == 0 { "" } else { " " }, random.below(10_000));
    }
    let (city, state) = (random.among(&CITIES), random.among(&STATES));
    let size = 8 + name.len() + email.len() + card.len() + city.len() + state.len() + 8;
    Person { id: last_person(id) + FIRST_ID, name, email, card, city, state, at_ms, extra: extra(random, size, 200) }
}

fn auction(random: &mut Random, id: u64, at_ms: i64, rate: u64) -> Auction {
    let mut item = String::new();
    random.letters(&mut item, 20, ' ');
    let mut description = String::new();
    random.letters(&mut description, 100, ' ');
    let initial_bid = price(random);
    let reserve = initial_bid + price(random);
    let person = last_person(id);
    let seller = if random.below(4) > 0 { person / HOT_STEP * HOT_STEP + FIRST_ID } else { some_person(random, person) };
    // The time in which as many auctions are opened as are open at once.
    let horizon_ms = (OPEN_AUCTIONS as u64 * EPOCH / 3) * 1_000 / rate;
    let expires_ms = at_ms + 1 + random.below((2 * horizon_ms).max(1)) as i64;
    let category = FIRST_CATEGORY + random.below(5) as i64;
    let size = 8 * 6 + item.trim().len() + description.trim().len();
    let extra = extra(random, size, 500);
    Auction {
        id: last_auction(id) + FIRST_ID,
        item: item.trim().to_owned(),
        description: description.trim().to_owned(),
        initial_bid,
        reserve,
        at_ms,
        expires_ms,
        seller,
        category,
        extra,
    }
}

fn bid(random: &mut Random, id: u64, at_ms: i64) -> Bid {
    let (last, person) = (last_auction(id), last_person(id));
    let auction = if random.below(2) > 0 {
        last / HOT_STEP * HOT_STEP
    } else {
        let first = (last - OPEN_AUCTIONS).max(0);
        first + random.below((last - first + AUCTIONS_AHEAD + 1) as u64) as i64
    };
    let bidder = if random.below(4) > 0 { person / HOT_STEP * HOT_STEP + 1 + FIRST_ID } else { some_person(random, person) };
    let price = price(random);
    let (channel, mut url) = if random.below(2) > 0 {
        let hot = random.below(HOT_CHANNELS.len() as u64);
        let channel = HOT_CHANNELS.get(hot as usize).copied().unwrap_or_default();
        (channel.to_owned(), page(&mut Random::of(0, hot)))
    } else {
        let number = random.below(10_000);
        let mut url = page(&mut Random::of(1, number));
        if Random::of(2, number).below(10) > 0 {
            let _ = write!(url, "&channel_id={}", (number as u32).reverse_bits() as i32 & i32::MAX);
        }
        (format!("channel-{number}"), url)
    };
    url.shrink_to_fit();
    let extra = extra(random, 32, 100);
    Bid { auction: auction + FIRST_ID, bidder, price, channel, url, at_ms, extra }
}

/// A page of three directories.
fn page(random: &mut Random) -> String {
    let mut url = "https://www.nexmark.com/".to_owned();
    for _ in 0..3 {
        random.letters(&mut url, 5, '_');
        url.push('/');
    }
    url.push_str("item.htm?query=1");
    url
}
