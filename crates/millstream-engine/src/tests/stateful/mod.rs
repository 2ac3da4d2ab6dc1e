//! Stateful operators, driven batch by batch: one file a batch, a step until nothing is left to do.

mod aggregation;
mod chains;
mod cost;
mod deduplication;
mod joins;
mod late;
mod oracle;
mod properties;
mod refusals;
mod restart;
mod sessions;
mod simulation;
mod sliding;
mod world;

use world::*;
