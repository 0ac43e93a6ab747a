//! Credentials: secrets of keys and tokens, passwords, and tokens of other issuers.

pub mod jwt;
pub mod secrets;
