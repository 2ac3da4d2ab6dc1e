//! Tests of the checkpoint as a whole, over stores in memory, on disk, and failing on purpose.

mod cost;
mod faults;
mod fencing;
mod interleavings;
mod model;
mod program;
mod purge;
mod recovery;
mod setup;
mod source_log;
