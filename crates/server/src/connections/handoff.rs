//! Connections on their way to an I/O thread.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::connections::durability::ThreadWaiters;
use crate::connections::turns::ThreadTurns;
use crate::connections::waker::ThreadWaker;

/// An admitted connection, of any protocol, on its way to the thread that will serve it.
pub trait Arrival: Send {
    /// Adds a task that serves the connection to its end. The task is the connection's own future,
    /// without any indirection between it and the thread.
    fn start(self: Box<Self>, thread: &IoThread, tasks: &mut JoinSet<()>);
}

/// State that the connections of one I/O thread share.
pub struct IoThread {
    pub waiters: ThreadWaiters,
    pub turns: ThreadTurns,
    pub stop: watch::Receiver<bool>,
}

/// The inbox of one I/O thread's connections, and their waker.
#[derive(Clone)]
pub struct Inbox {
    pub arrivals: mpsc::UnboundedSender<Box<dyn Arrival>>,
    pub thread_waker: Arc<ThreadWaker>,
}
