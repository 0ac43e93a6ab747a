//! Lends the bridge of a run to a function that Lua keeps for ever.
//!
//! A function made for each run would be two objects for the garbage collector, every time.

use std::cell::Cell;
use std::ptr::NonNull;

use super::bridge::Bridge;

/// The bridge of the present run, if there is one and nobody uses it.
#[derive(Default)]
pub struct ScopedBridge(Cell<Option<NonNull<Bridge<'static, 'static, 'static>>>>);

/// Takes the bridge back, however the run ends.
struct TakenBack<'l>(&'l ScopedBridge);

impl Drop for TakenBack<'_> {
    fn drop(&mut self) {
        self.0.0.set(None);
    }
}

impl ScopedBridge {
    /// Lends the bridge while `body` runs.
    pub fn during<R>(&self, bridge: &mut Bridge<'_, '_, '_>, body: impl FnOnce() -> R) -> R {
        let _taken_back = TakenBack(self);
        self.0.set(Some(NonNull::from(bridge).cast()));
        body()
    }

    /// Gives `body` the bridge, to it alone; `None` outside of a run.
    pub fn with<R>(&self, body: impl FnOnce(&mut Bridge<'_, '_, '_>) -> R) -> Option<R> {
        let mut bridge = self.0.take()?;
        // SAFETY: `during` holds the only reference and does not use it before this one is given back; while this one is in
        // use, nobody else finds the bridge. Its lifetimes end after `during` does, and none of them leaves `body`, which must
        // do with any.
        #[allow(unsafe_code)]
        let result = body(unsafe { bridge.as_mut() });
        self.0.set(Some(bridge));
        Some(result)
    }
}
