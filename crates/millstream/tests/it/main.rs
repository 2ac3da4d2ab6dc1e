//! The product as a program embeds it, from JSON files through a checkpoint into Delta tables, against power cuts and failing stores.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "these are tests, and they report what they covered")]

mod command;
mod faults;
mod power_cut;
mod scenario;
