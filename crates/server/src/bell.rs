//! Waking one connection from any thread.
//!
//! Cheaper to wait for than a `Notify`: waiting again with the same waker takes one uncontended lock and registers nothing.
//! A ring is never lost: it stays until it is taken.
//!
//! Who rings for many connections of another I/O thread, as PUBLISH does, wakes that thread once: its porter collects the
//! rings and wakes the connections from within.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

use parking_lot::Mutex;
use tokio::sync::Notify;

pub struct Bell {
    state: Mutex<State>,
    porter: Arc<Porter>,
}

/// Collects, for one I/O thread, the rings of other threads.
#[derive(Default)]
pub struct Porter {
    thread: OnceLock<ThreadId>,
    rung: Mutex<Vec<Waker>>,
    any: Notify,
}

#[derive(Default)]
struct State {
    rung: bool,
    waiting: Option<Waker>,
}

impl Porter {
    /// Passes rings on, for ever. To be run on the thread whose connections it serves.
    pub async fn serve(&self) {
        self.thread.get_or_init(|| std::thread::current().id());
        loop {
            self.any.notified().await;
            let rung = std::mem::take(&mut *self.rung.lock());
            rung.into_iter().for_each(Waker::wake);
        }
    }

    fn wake(&self, waker: Waker) {
        if self.thread.get() == Some(&std::thread::current().id()) {
            return waker.wake();
        }
        let mut rung = self.rung.lock();
        rung.push(waker);
        let is_first = rung.len() == 1;
        drop(rung);
        if is_first {
            self.any.notify_one();
        }
    }
}

impl Bell {
    pub fn of(porter: Arc<Porter>) -> Bell {
        Bell {
            state: Mutex::default(),
            porter,
        }
    }

    /// Wakes whoever waits, or the next who does.
    pub fn ring(&self) {
        let mut state = self.state.lock();
        state.rung = true;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waker) = waiting {
            self.porter.wake(waker);
        }
    }

    /// Ready once for all rings since the last time. One task waits at a time; a later one takes its place.
    pub fn poll_rung(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.rung) {
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
    fn a_ring_stays_until_it_is_taken_and_is_taken_once() {
        let (porter, woken) = (Arc::new(Porter::default()), Arc::new(Woken::default()));
        porter.thread.get_or_init(|| std::thread::current().id());
        let bell = Bell::of(porter);
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        bell.ring();
        bell.ring();
        assert!(bell.poll_rung(&mut context).is_ready());
        assert!(bell.poll_rung(&mut context).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        bell.ring();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert!(bell.poll_rung(&mut context).is_ready());
    }

    #[test]
    fn rings_from_elsewhere_wake_the_porter_once() {
        let (porter, woken) = (Arc::new(Porter::default()), Arc::new(Woken::default()));
        let bells = [Bell::of(porter.clone()), Bell::of(porter.clone())];
        let connection = Waker::from(Arc::new(Woken::default()));
        for bell in &bells {
            assert!(bell.poll_rung(&mut Context::from_waker(&connection)).is_pending());
        }
        let waker = Waker::from(woken.clone());
        let mut serving = Box::pin(porter.serve());
        assert!(serving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        std::thread::scope(|scope| scope.spawn(|| bells.iter().for_each(Bell::ring)).join()).unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert_eq!(porter.rung.lock().len(), 2);
        assert!(serving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(porter.rung.lock().is_empty());
    }
}
