//! Scripts and functions, including long-running ones.

pub(crate) mod long_scripts;
pub(crate) mod scripts;
