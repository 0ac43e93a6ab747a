//! Scripts and functions, and those that run long.

pub mod long_scripts;
pub mod scripts;
