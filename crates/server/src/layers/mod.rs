//! The table of layers, and how each database's layers are made.

pub(crate) mod database_layer;
pub(crate) mod maker;
pub(crate) mod table;
