//! The layer as its transport sees it: requests in, replies out, over an engine in memory and a
//! clock that the test moves.

mod clock;
mod definitions;
mod differential;
mod golden;
mod hostile;
mod invariants;
mod own;
mod protocol;
mod scripts;
mod streams;
mod sweep;
mod torn;
mod transactions;
mod world;
