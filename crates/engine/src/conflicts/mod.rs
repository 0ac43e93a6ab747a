//! The history by which conflicts are found: the newest change of any key or range, as long as
//! somebody can still need it.

pub(crate) mod changes;
pub(crate) mod full_keys;
pub(crate) mod newest;
