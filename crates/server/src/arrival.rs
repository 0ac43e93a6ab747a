//! Connections on their way to an I/O thread.

use crate::http_connection::HttpAccepted;
use crate::keyvalue::KeyValueAccepted;
use crate::sentinel::SentinelAccepted;

/// A connection of any protocol but Redis', on its way to its I/O thread.
pub enum Arrival {
    Http(HttpAccepted),
    KeyValue(KeyValueAccepted),
    Sentinel(SentinelAccepted),
}

impl From<HttpAccepted> for Arrival {
    fn from(accepted: HttpAccepted) -> Arrival {
        Arrival::Http(accepted)
    }
}

impl From<KeyValueAccepted> for Arrival {
    fn from(accepted: KeyValueAccepted) -> Arrival {
        Arrival::KeyValue(accepted)
    }
}

impl From<SentinelAccepted> for Arrival {
    fn from(accepted: SentinelAccepted) -> Arrival {
        Arrival::Sentinel(accepted)
    }
}
