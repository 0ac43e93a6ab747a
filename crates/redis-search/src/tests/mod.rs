//! The module inside the layer: long requests, the lock, memory, and what clients see of modules.

mod layer;
mod long_runs;
mod verification;
