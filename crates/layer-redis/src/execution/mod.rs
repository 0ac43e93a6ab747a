//! Operations that need several parts of the layer at once. The parts themselves are independent of
//! each other, and of [`Redis`](crate::Redis); they are combined here.

pub(crate) mod admission;
pub(crate) mod blocking;
pub(crate) mod call;
pub mod client_eviction;
pub(crate) mod denials;
pub(crate) mod eviction;
pub(crate) mod expiry;
pub(crate) mod feed;
pub mod image;
pub(crate) mod latency;
pub(crate) mod long_run;
pub(crate) mod migration;
pub(crate) mod notifications;
pub(crate) mod outbox;
pub(crate) mod replication;
pub(crate) mod slowlog;
pub(crate) mod taken;
