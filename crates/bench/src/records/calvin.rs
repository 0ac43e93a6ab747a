//! The instances that a transaction of the write benchmark inserts.

/// The fields of an instance; each has an index.
pub const FIELD_NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Instances of one transaction.
pub const INSTANCES: usize = 4;
