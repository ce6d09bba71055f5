//! Tables in rows, as maps and sets of keys of more than 64 bits ask for them.
mod map;
mod set;
