//! Recovery: opening from a checkpoint and the log, and every other way to read or repair a folder.

pub(crate) mod check;
pub(crate) mod convert;
pub(crate) mod opening;
pub(crate) mod replay;
pub(crate) mod restore;
pub(crate) mod salvage;
