//! The state of modules in one layer. The layer does not know its types.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Notifies the layer that a module awaits the end of the open transaction: commands that concern
/// no module need not call it.
#[derive(Clone, Debug, Default)]
pub struct TransactionEnds(Arc<AtomicBool>);

impl TransactionEnds {
    /// The end of the open transaction calls `Module::committed` or `Module::rolled_back`.
    pub fn await_next(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if a module awaits the end of the transaction that ends now.
    pub fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// The state of all modules in one layer.
pub struct ModuleStates {
    states: Vec<Box<dyn Any + Send + Sync>>,
    /// Why the open transaction is refused.
    pub refusal: Mutex<Option<&'static str>>,
    pub ends: TransactionEnds,
}

impl ModuleStates {
    /// Keeps the states that modules have opened with `ends`.
    pub fn new(states: Vec<Box<dyn Any + Send + Sync>>, ends: TransactionEnds) -> ModuleStates {
        ModuleStates {
            states,
            refusal: Mutex::default(),
            ends,
        }
    }

    /// The state of the module that keeps one of this type. Panics if none does.
    pub fn of<S: 'static>(&self) -> &S {
        let mut states = self.states.iter().filter_map(|state| state.downcast_ref());
        states.next().expect("the state of a module of this layer")
    }

    /// Why the open transaction is refused, if a module refuses it.
    pub fn take_refusal(&self) -> Option<&'static str> {
        self.refusal.lock().take()
    }
}
