//! Waking one connection from any thread.
//!
//! Cheaper to wait for than a `Notify`: waiting again with the same waker takes one uncontended
//! lock and registers nothing. A signal is never lost: it stays until it is taken.
//!
//! A thread that signals many connections of another I/O thread, as PUBLISH does, wakes it once:
//! the other thread's [`ThreadWaker`] collects the signals and wakes the connections from within.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

use parking_lot::Mutex;
use tokio::sync::Notify;

pub struct ConnectionWaker {
    state: Mutex<State>,
    thread_waker: Arc<ThreadWaker>,
}

/// Collects the signals of other threads for the connections of one I/O thread.
#[derive(Default)]
pub struct ThreadWaker {
    thread: OnceLock<ThreadId>,
    signalled: Mutex<Vec<Waker>>,
    any: Notify,
}

#[derive(Default)]
struct State {
    signalled: bool,
    waiting: Option<Waker>,
}

impl ThreadWaker {
    /// Passes signals on indefinitely. Run it on the thread whose connections it serves.
    pub async fn serve(&self) {
        self.thread.get_or_init(|| std::thread::current().id());
        loop {
            self.any.notified().await;
            let signalled = std::mem::take(&mut *self.signalled.lock());
            signalled.into_iter().for_each(Waker::wake);
        }
    }

    fn wake(&self, waker: Waker) {
        if self.thread.get() == Some(&std::thread::current().id()) {
            return waker.wake();
        }
        let mut signalled = self.signalled.lock();
        signalled.push(waker);
        let is_first = signalled.len() == 1;
        drop(signalled);
        if is_first {
            self.any.notify_one();
        }
    }
}

impl ConnectionWaker {
    pub fn of(thread_waker: Arc<ThreadWaker>) -> ConnectionWaker {
        ConnectionWaker {
            state: Mutex::default(),
            thread_waker,
        }
    }

    /// Wakes the waiting task, or the next task that waits.
    pub fn signal(&self) {
        let mut state = self.state.lock();
        state.signalled = true;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waker) = waiting {
            self.thread_waker.wake(waker);
        }
    }

    /// Ready once for all signals since the last time. One task waits at a time; a later one takes
    /// its place.
    pub fn poll_signalled(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.signalled) {
            return Poll::Ready(());
        }
        match &mut state.waiting {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_signal_stays_until_it_is_taken_and_is_taken_once() {
        let (thread_waker, woken) = (Arc::new(ThreadWaker::default()), Arc::new(Woken::default()));
        thread_waker.thread.get_or_init(|| std::thread::current().id());
        let connection_waker = ConnectionWaker::of(thread_waker);
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        connection_waker.signal();
        connection_waker.signal();
        assert!(connection_waker.poll_signalled(&mut context).is_ready());
        assert!(connection_waker.poll_signalled(&mut context).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        connection_waker.signal();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(connection_waker.poll_signalled(&mut context).is_ready());
    }

    #[test]
    fn signals_from_other_threads_wake_the_thread_once() {
        let (thread_waker, woken) = (Arc::new(ThreadWaker::default()), Arc::new(Woken::default()));
        let wakers = [
            ConnectionWaker::of(thread_waker.clone()),
            ConnectionWaker::of(thread_waker.clone()),
        ];
        let connection = Waker::from(Arc::new(Woken::default()));
        for connection_waker in &wakers {
            assert!(
                connection_waker
                    .poll_signalled(&mut Context::from_waker(&connection))
                    .is_pending()
            );
        }
        let waker = Waker::from(woken.clone());
        let mut serving = Box::pin(thread_waker.serve());
        assert!(serving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        std::thread::scope(|scope| scope.spawn(|| wakers.iter().for_each(ConnectionWaker::signal)).join()).unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert_eq!(thread_waker.signalled.lock().len(), 2);
        assert!(serving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(thread_waker.signalled.lock().is_empty());
    }
}
