//! Connections on their way to an I/O thread.

use crate::http_connection::HttpAccepted;
use crate::keyvalue::KeyValueAccepted;

/// A connection of any protocol but Redis', on its way to its I/O thread.
pub enum Arrival {
    Http(HttpAccepted),
    KeyValue(KeyValueAccepted),
}
