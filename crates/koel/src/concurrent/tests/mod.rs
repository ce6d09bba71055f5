//! Tests of maps that threads share.
mod oracle;
mod threads;
