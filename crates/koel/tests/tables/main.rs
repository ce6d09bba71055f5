//! Tables and primitives against oracles, on every device. One program, so that generic code is
//! compiled once.
mod any;
mod any_columns;
mod any_tables;
mod arranged;
mod chosen_keys;
mod groups;
mod host;
mod keys128;
mod map;
mod map_reproducible;
mod map_update;
mod near_limit;
mod other_devices;
mod primitives;
mod rows_update;
mod set;
mod set_update;
mod strings;
#[path = "../support/mod.rs"]
mod support;
mod to_strings;
mod types;
#[path = "../support/updates.rs"]
mod updates;
mod verbs;
