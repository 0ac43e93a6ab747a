//! The engine as its layers use it, on a disk that loses power and fails on purpose.

mod beside;
mod busy;
mod convert;
mod dependencies;
mod epochs;
mod failures;
mod full_disk;
mod histories;
mod log_readers;
mod logs;
mod replay;
mod replicated;
mod shelf;
mod slow_flush;
mod suspicions;
mod watches;
mod world;
