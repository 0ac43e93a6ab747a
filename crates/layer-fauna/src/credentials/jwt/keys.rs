//! The key sets of issuers that were fetched, for as long as they are good.
//!
//! A look-up never waits. Only callers that may wait fetch, one at a time for each address; other
//! callers use the result. A set is fetched again when it is old, and when a token names a key that
//! it lacks: issuers change keys. Neither happens more often than twice a second, for any tokens.
//! If an issuer cannot be reached, the last known keys remain valid.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{KeySet, Token};

/// After this time a set is fetched again.
const FRESH_MICROS: u64 = 600_000_000;
/// Minimum time between two fetches of a set.
const RETRY_MICROS: u64 = 500_000;
/// Sets that are kept; beyond them the one fetched longest ago goes.
const SETS_MAX: usize = 1_000;

/// Fetches the content of an address: bounded in size and time, and only from permitted addresses.
pub type Fetch = Box<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>;

#[derive(Default)]
pub struct KeySets {
    /// `None`: tokens of issuers are not accepted.
    pub fetch: Option<Fetch>,
    entries: Mutex<HashMap<Arc<str>, Arc<Entry>>>,
}

#[derive(Default)]
struct Entry {
    state: Mutex<State>,
    /// Held during a fetch.
    fetching: Mutex<()>,
}

#[derive(Clone, Default)]
struct State {
    set: Arc<KeySet>,
    /// Time of the last fetch; zero: never.
    asked_micros: u64,
}

impl State {
    fn is_due(&self, token: &Token, now_micros: u64) -> bool {
        let age = now_micros.saturating_sub(self.asked_micros);
        self.asked_micros == 0 || age >= FRESH_MICROS || (age >= RETRY_MICROS && !self.set.has_key_for(token))
    }
}

impl KeySets {
    /// Returns true if the set at an address is known and contains this token's key, or it is too
    /// soon to fetch again.
    pub fn are_ready(&self, uri: &Arc<str>, token: &Token, now_micros: u64) -> bool {
        let entry = self.entries.lock().get(uri).cloned();
        self.fetch.is_none() || entry.is_some_and(|entry| !entry.state.lock().is_due(token, now_micros))
    }

    pub fn known(&self, uri: &Arc<str>) -> Arc<KeySet> {
        let entry = self.entries.lock().get(uri).cloned();
        entry.map_or_else(Arc::default, |entry| entry.state.lock().set.clone())
    }

    /// Fetches the set if it is due. Waits for the network.
    pub fn make_ready(&self, uri: &Arc<str>, token: &Token, now_micros: u64) {
        let Some(fetch) = &self.fetch else { return };
        let entry = self.entry(uri);
        let is_known = entry.state.lock().asked_micros != 0;
        let _alone = match entry.fetching.try_lock() {
            Some(alone) => alone,
            // Another request is fetching already. A caller with unknown keys must not occupy all
            // threads with waiting.
            None if is_known => return,
            None => entry.fetching.lock(),
        };
        if !entry.state.lock().is_due(token, now_micros) {
            return;
        }
        let fetched = fetch(uri).ok().and_then(|bytes| KeySet::parse(&bytes));
        let mut state = entry.state.lock();
        state.asked_micros = now_micros;
        if let Some(set) = fetched {
            state.set = Arc::new(set);
        }
    }

    fn entry(&self, uri: &Arc<str>) -> Arc<Entry> {
        let mut entries = self.entries.lock();
        if entries.len() >= SETS_MAX && !entries.contains_key(uri) {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.state.lock().asked_micros);
            if let Some(oldest) = oldest.map(|(uri, _)| uri.clone()) {
                entries.remove(&oldest);
            }
        }
        entries.entry(uri.clone()).or_default().clone()
    }
}
