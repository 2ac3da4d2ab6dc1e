//! Stateful operators, driven batch by batch: one file a batch, a step until nothing is left to do.

mod aggregation;
mod chains;
mod deduplication;
mod joins;
mod late;
mod oracle;
mod refusals;
mod restart;
mod sessions;
mod sliding;
mod world;

use world::*;
