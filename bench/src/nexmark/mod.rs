//! Nexmark: an auction house as a stream of people, auctions and bids, as files that every engine can read.
//!
//! Which event is number `n`, and how its fields are spread, follows `reference/nexmark.md` §2 and §3. Every event is a function of its number
//! and the seed, so files can be made in any order and are the same in every run.

mod event;
mod files;
mod random;
mod words;

use crate::outcome::{Outcome, say};

pub use files::write;

/// What to generate.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// How many events.
    pub events: u64,
    /// Events per second of event time.
    pub rate: u64,
    /// Size of the groups inside of which events are shuffled; 1 leaves them in order.
    pub disorder: u64,
    /// How many of 1,000 events come late.
    pub late_per_mille: u64,
    /// How late they come at most, milliseconds.
    pub lateness_ms: u64,
    /// Changes every random choice.
    pub seed: u64,
    /// Files, in the order of the events.
    pub files: u64,
    /// `json` or `parquet`.
    pub format: String,
}

impl Parameters {
    /// Reads `--events 1000000 --rate 100000 …`; the first word is the directory.
    pub fn parse(words: &[&str]) -> Outcome<(String, Self)> {
        let Some((dir, words)) = words.split_first() else {
            return Err("nexmark-data needs a directory".to_owned());
        };
        let mut parameters = Parameters {
            events: 1_000_000,
            rate: 100_000,
            disorder: 1,
            late_per_mille: 0,
            lateness_ms: 0,
            seed: 0,
            files: 10,
            format: "json".to_owned(),
        };
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value", pair.concat())) };
            let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
            match *name {
                "--events" => parameters.events = number()?,
                "--rate" => parameters.rate = number()?.max(1),
                "--disorder" => parameters.disorder = number()?.max(1),
                "--late-per-mille" => parameters.late_per_mille = number()?,
                "--lateness-ms" => parameters.lateness_ms = number()?,
                "--seed" => parameters.seed = number()?,
                "--files" => parameters.files = number()?.max(1),
                "--format" => parameters.format = (*value).to_owned(),
                other => return Err(format!("unknown argument '{other}'")),
            }
        }
        Ok(((*dir).to_owned(), parameters))
    }
}

/// The process that writes the data: `nexmark-data DIR --events N …`; prints how often each kind and each selective property occurs.
pub fn child(words: &[&str]) -> Outcome {
    let (dir, parameters) = Parameters::parse(words)?;
    let counts = write(std::path::Path::new(&dir), &parameters)?;
    println!("{}", serde_json::to_string(&counts).map_err(say)?);
    Ok(())
}

#[cfg(test)]
mod tests;
