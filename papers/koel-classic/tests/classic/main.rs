//! The published tables against oracles, on every device. One program, so that generic code is
//! compiled once.
mod kinds;
mod lists;
mod structures;
