//! A layer as the server keeps it, and the parts that all layers share.

pub(crate) mod by_type;
pub(crate) mod kind;
pub(crate) mod parts;
