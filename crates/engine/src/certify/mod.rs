//! Certification: deciding whether a transaction may commit, for each of the three ways to run one.

pub(crate) mod attempt;
pub(crate) mod interactive;
pub(crate) mod mutation;
pub(crate) mod optimistic;
pub(crate) mod run;
