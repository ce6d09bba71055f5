//! koel-simt
