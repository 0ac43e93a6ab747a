//! Scripts and functions, and those that run long.

pub(crate) mod long_scripts;
pub(crate) mod scripts;
