//! Events as files of one wide table: the kind of event, and a struct of the fields of each kind.

use std::fs::{File, create_dir_all};
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBufferBuilder, Int32Array, Int64Array, RecordBatch, StringArray, StructArray, TimestampMillisecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Field, Fields};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use super::Parameters;
use super::event::{Auction, Bid, Event, Person, event};
use crate::outcome::{Outcome, at, say};

/// Events that are turned into columns at once.
const CHUNK: u64 = 8_192;

/// Writes the files, one after the other, and counts what the queries select by.
pub fn write(dir: &Path, parameters: &Parameters) -> Outcome<Value> {
    create_dir_all(dir).map_err(at(dir))?;
    let mut counts = Counts::default();
    for file in 0..parameters.files {
        let bounds = file * parameters.events / parameters.files..(file + 1) * parameters.events / parameters.files;
        let hidden = dir.join(format!(".{file:06}"));
        let out = BufWriter::new(File::create(&hidden).map_err(at(&hidden))?);
        let chunks = bounds.clone().step_by(CHUNK as usize).map(|first| {
            let events: Vec<Event> = (first..bounds.end.min(first + CHUNK)).map(|number| event(parameters, number)).collect();
            counts.add(&events);
            table(&events)
        });
        match parameters.format.as_str() {
            "json" => {
                let mut writer = arrow::json::LineDelimitedWriter::new(out);
                for chunk in chunks {
                    writer.write(&chunk?).map_err(at(&hidden))?;
                }
                writer.finish().map_err(at(&hidden))?;
            }
            "parquet" => {
                let mut writer = ArrowWriter::try_new(out, table(&[])?.schema(), None).map_err(at(&hidden))?;
                for chunk in chunks {
                    writer.write(&chunk?).map_err(at(&hidden))?;
                }
                writer.close().map_err(at(&hidden))?;
            }
            other => return Err(format!("there is no format '{other}': json, parquet")),
        }
        let path = dir.join(format!("{file:06}.{}", parameters.format));
        std::fs::rename(&hidden, &path).map_err(at(&path))?;
    }
    Ok(counts.told())
}

/// How often what the queries select by occurs.
#[derive(Debug, Default)]
struct Counts {
    people: u64,
    auctions: u64,
    bids: u64,
    auctions_of_category_10: u64,
    people_in_three_states: u64,
    bids_on_every_123rd: u64,
    bids_of_middle_price: u64,
    bids_with_channel: u64,
}

impl Counts {
    fn add(&mut self, events: &[Event]) {
        for event in events {
            match event {
                Event::Person(person) => {
                    self.people += 1;
                    self.people_in_three_states += u64::from(["OR", "ID", "CA"].contains(&person.state));
                }
                Event::Auction(auction) => {
                    self.auctions += 1;
                    self.auctions_of_category_10 += u64::from(auction.category == 10);
                }
                Event::Bid(bid) => {
                    self.bids += 1;
                    self.bids_on_every_123rd += u64::from(bid.auction % 123 == 0);
                    self.bids_of_middle_price += u64::from((1_000_000 < bid.price * 908 / 1_000) && (bid.price * 908 / 1_000 < 50_000_000));
                    self.bids_with_channel += u64::from(!bid.channel.starts_with("channel-") || bid.url.contains("channel_id="));
                }
            }
        }
    }

    fn told(&self) -> Value {
        let part = |some: u64, of: u64| (some as f64 / of.max(1) as f64 * 1e4).round() / 1e4;
        json!({
            "people": self.people, "auctions": self.auctions, "bids": self.bids,
            "auctions_of_category_10": part(self.auctions_of_category_10, self.auctions),
            "people_in_three_states": part(self.people_in_three_states, self.people),
            "bids_on_every_123rd": part(self.bids_on_every_123rd, self.bids),
            "bids_of_middle_price": part(self.bids_of_middle_price, self.bids),
            "bids_with_channel": part(self.bids_with_channel, self.bids),
        })
    }
}

fn table(events: &[Event]) -> Outcome<RecordBatch> {
    let kinds = Int32Array::from_iter_values(events.iter().map(|event| match event {
        Event::Person(_) => 0,
        Event::Auction(_) => 1,
        Event::Bid(_) => 2,
    }));
    let people = people(events, |event| if let Event::Person(person) = event { Some(person) } else { None })?;
    let auctions = auctions(events, |event| if let Event::Auction(auction) = event { Some(auction) } else { None })?;
    let bids = bids(events, |event| if let Event::Bid(bid) = event { Some(bid) } else { None })?;
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("event_type", Arc::new(kinds), false),
        ("person", Arc::new(people), true),
        ("auction", Arc::new(auctions), true),
        ("bid", Arc::new(bids), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).map_err(say)
}

/// Columns of the structs of one kind: null where the event is of another.
struct Columns<'a, T> {
    found: Vec<Option<&'a T>>,
    columns: Vec<(Field, ArrayRef)>,
}

impl<'a, T> Columns<'a, T> {
    fn of(events: &'a [Event], kind: impl Fn(&'a Event) -> Option<&'a T>) -> Self {
        Columns { found: events.iter().map(kind).collect(), columns: Vec::new() }
    }

    fn push(&mut self, name: &str, column: ArrayRef) {
        self.columns.push((Field::new(name, column.data_type().clone(), true), column));
    }

    fn number(mut self, name: &str, value: impl Fn(&T) -> i64) -> Self {
        let column = self.found.iter().map(|row| row.map(&value)).collect::<Int64Array>();
        self.push(name, Arc::new(column));
        self
    }

    fn time(mut self, name: &str, value: impl Fn(&T) -> i64) -> Self {
        let column = self.found.iter().map(|row| row.map(&value)).collect::<TimestampMillisecondArray>();
        self.push(name, Arc::new(column));
        self
    }

    fn text(mut self, name: &str, value: impl Fn(&T) -> &str) -> Self {
        let column = self.found.iter().map(|row| row.map(&value)).collect::<StringArray>();
        self.push(name, Arc::new(column));
        self
    }

    fn structs(self) -> Outcome<StructArray> {
        let mut valid = BooleanBufferBuilder::new(self.found.len());
        self.found.iter().for_each(|row| valid.append(row.is_some()));
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = self.columns.into_iter().unzip();
        StructArray::try_new(Fields::from(fields), columns, Some(NullBuffer::new(valid.finish()))).map_err(say)
    }
}

fn people<'a>(events: &'a [Event], kind: impl Fn(&'a Event) -> Option<&'a Person>) -> Outcome<StructArray> {
    Columns::of(events, kind)
        .number("id", |person| person.id)
        .text("name", |person| &person.name)
        .text("emailAddress", |person| &person.email)
        .text("creditCard", |person| &person.card)
        .text("city", |person| person.city)
        .text("state", |person| person.state)
        .time("dateTime", |person| person.at_ms)
        .text("extra", |person| &person.extra)
        .structs()
}

fn auctions<'a>(events: &'a [Event], kind: impl Fn(&'a Event) -> Option<&'a Auction>) -> Outcome<StructArray> {
    Columns::of(events, kind)
        .number("id", |auction| auction.id)
        .text("itemName", |auction| &auction.item)
        .text("description", |auction| &auction.description)
        .number("initialBid", |auction| auction.initial_bid)
        .number("reserve", |auction| auction.reserve)
        .time("dateTime", |auction| auction.at_ms)
        .time("expires", |auction| auction.expires_ms)
        .number("seller", |auction| auction.seller)
        .number("category", |auction| auction.category)
        .text("extra", |auction| &auction.extra)
        .structs()
}

fn bids<'a>(events: &'a [Event], kind: impl Fn(&'a Event) -> Option<&'a Bid>) -> Outcome<StructArray> {
    Columns::of(events, kind)
        .number("auction", |bid| bid.auction)
        .number("bidder", |bid| bid.bidder)
        .number("price", |bid| bid.price)
        .text("channel", |bid| &bid.channel)
        .text("url", |bid| &bid.url)
        .time("dateTime", |bid| bid.at_ms)
        .text("extra", |bid| &bid.extra)
        .structs()
}
