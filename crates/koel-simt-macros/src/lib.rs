//! koel-simt-macros
