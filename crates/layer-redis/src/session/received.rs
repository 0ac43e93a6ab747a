//! The outcome of received requests.

use quartet_engine::Dependency;
use quartet_model::Version;

use crate::access::database_login::DatabaseLogin;
use crate::session::after::After;

/// The outcome of a call of [`Session::receive`](crate::Session::receive).
#[derive(Debug, Default)]
pub struct Received {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// The replies may be sent once this version is durable.
    pub dependency: Dependency,
    /// The latest commit when the requests were done; zero if they were answered without the lock.
    pub version: Version,
    pub next: Next,
}

/// The step of a connection's owner after the executed requests.
#[derive(Debug, Default)]
pub enum Next {
    /// Passes the following input, or more of it.
    #[default]
    More,
    /// Another thread holds the lock, or the store has a backlog: the next request must be received
    /// again once [`Engine::is_busy`](quartet_engine::Engine::is_busy) and
    /// [`Engine::is_behind`](quartet_engine::Engine::is_behind) are false.
    Busy,
    /// Receives the next request again: its credentials open another logical database, or the
    /// database has moved, and the session now belongs to that layer. Earlier replies depend on the
    /// partition before.
    Moved,
    /// Continues at another process, which serves the database that the credentials in the next
    /// request open, if that process accepts them.
    Elsewhere {
        database_login: Box<DatabaseLogin>,
        /// Size of the next request.
        request_bytes: usize,
    },
    /// Does this work without the lock; its reply is already written, and is replaced by an error
    /// if the work fails.
    After(After),
    /// Closes the connection after sending the replies.
    Close,
}

impl Next {
    /// Returns true if the requests that follow may be executed under the same lock.
    pub(super) fn is_more(&self) -> bool {
        matches!(self, Next::More)
    }
}
