//! The history that detects conflicts: the newest change of any key or range, as long as
//! it can still be needed.

pub(crate) mod changes;
pub(crate) mod full_keys;
pub(crate) mod newest;
