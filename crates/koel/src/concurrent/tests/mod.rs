//! Tests of maps that threads share.
mod linearizable;
#[cfg(not(miri))] // the checker switches stacks
mod model;
mod oracle;
mod threads;
