//! The protocol: JSON, values, numbers, expressions and errors as clients send and read them.

pub(crate) mod expansion;
pub mod expression;
pub mod failure;
pub mod ion;
pub mod json;
pub(crate) mod kind;
pub(crate) mod legacy;
pub(crate) mod number;
pub(crate) mod shape;
pub(crate) mod value;
