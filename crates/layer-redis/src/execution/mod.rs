//! Work that needs several parts of the layer at once. Each part by itself knows nothing of the
//! others, nor of [`Redis`](crate::Redis); here they meet.

pub mod blocking;
pub mod caching;
pub mod call;
pub mod client_eviction;
pub mod denials;
pub mod description;
pub mod eviction;
pub mod expiry;
pub(crate) mod feed;
pub mod image;
pub mod latency;
pub mod long_run;
pub mod monitor;
pub mod notifications;
pub mod outbox;
pub mod replication;
pub mod slowlog;
pub mod subscriptions;
pub mod taken;
