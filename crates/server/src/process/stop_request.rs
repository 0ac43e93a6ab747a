//! The request to stop the whole process, from any source.

use std::sync::atomic::{AtomicBool, Ordering};

/// The request to stop the whole process: SHUTDOWN, a signal.
#[derive(Default)]
pub struct StopRequest {
    requested: AtomicBool,
    notify: tokio::sync::Notify,
}

impl StopRequest {
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }

    pub async fn requested(&self) {
        while !self.requested.load(Ordering::SeqCst) {
            self.notify.notified().await;
        }
    }
}
