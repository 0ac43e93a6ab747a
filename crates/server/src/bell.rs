//! Waking one connection from any thread.
//!
//! Cheaper to wait for than a `Notify`: waiting again with the same waker takes one uncontended lock and registers nothing.
//! A ring is never lost: it stays until it is taken.

use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

#[derive(Default)]
pub struct Bell {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    rung: bool,
    waiting: Option<Waker>,
}

impl Bell {
    /// Wakes whoever waits, or the next who does.
    pub fn ring(&self) {
        let mut state = self.state.lock();
        state.rung = true;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waker) = waiting {
            waker.wake();
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
    use std::sync::Arc;
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
        let (bell, woken) = (Bell::default(), Arc::new(Woken::default()));
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
}
