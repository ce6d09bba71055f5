//! Real-time parallel hashing.
