//! Stateful operators, driven batch by batch: one file a batch, a step until nothing is left to do.

mod aggregation;
mod arbitrary;
mod chains;
mod cost;
mod deduplication;
mod fingerprints;
mod joins;
mod late;
mod oracle;
mod properties;
mod readable;
mod refusals;
mod restart;
mod sessions;
mod simulation;
mod sliding;
mod volume;
mod world;

use world::*;
