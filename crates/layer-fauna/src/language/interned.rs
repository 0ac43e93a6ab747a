//! Shared frequent names: the keys of requests and of stored documents.
//!
//! A small table of each thread, one name a slot; a name that falls on another's slot takes it
//! over. So nothing grows, nothing is locked, and at worst a name is copied as it would be anyway.

use std::cell::RefCell;
use std::hash::Hasher;
use std::sync::Arc;

use rustc_hash::FxHasher;

const SLOTS: usize = 512;
/// Longer texts are usually data rather than names.
const NAME_BYTES_MAX: usize = 32;

thread_local! {
    static NAMES: RefCell<Vec<Option<Arc<str>>>> = RefCell::new(vec![None; SLOTS]);
}

/// The name, shared if it was requested recently.
pub fn name(text: &str) -> Arc<str> {
    if text.len() > NAME_BYTES_MAX {
        return text.into();
    }
    NAMES.with_borrow_mut(|names| match &mut names[slot(text.as_bytes())] {
        Some(interned) if **interned == *text => interned.clone(),
        slot => slot.insert(text.into()).clone(),
    })
}

/// The same of bytes; `None`: they are no text. Those of a name that is known need no look.
pub fn name_of(bytes: &[u8]) -> Option<Arc<str>> {
    let lookup = || {
        NAMES.with_borrow(|names| {
            let interned = names[slot(bytes)].as_ref();
            interned.filter(|interned| interned.as_bytes() == bytes).cloned()
        })
    };
    let is_short = bytes.len() <= NAME_BYTES_MAX;
    is_short
        .then(lookup)
        .flatten()
        .or_else(|| std::str::from_utf8(bytes).ok().map(name))
}

fn slot(text: &[u8]) -> usize {
    let mut hasher = FxHasher::default();
    hasher.write(text);
    hasher.finish() as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_itself_after_any_token() {
        for round in 0..2 {
            for number in 0..3 * SLOTS {
                let text = format!("name{number}");
                assert_eq!(&*name(&text), text, "round {round}");
                assert_eq!(name_of(text.as_bytes()).as_deref(), Some(&*text), "round {round}");
            }
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(&*name(&long), long);
        assert_eq!(name_of(long.as_bytes()).as_deref(), Some(&*long));
        assert!(Arc::ptr_eq(&name("data"), &name("data")));
        assert!(Arc::ptr_eq(&name("data"), &name_of(b"data").unwrap()));
        assert_eq!(name_of(&[b'n', 0xff]), None);
    }
}
