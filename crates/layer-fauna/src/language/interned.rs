//! Names that come again and again, shared: the keys of requests and of stored documents.
//!
//! A small table of each thread, one name a slot; a name that falls on another's slot takes it over. So nothing grows, nothing
//! is locked, and at worst a name is copied as it would be anyway.

use std::cell::RefCell;
use std::sync::Arc;

const SLOTS: usize = 512;
/// Longer ones are rather data than names.
const NAME_BYTES_MAX: usize = 32;

thread_local! {
    static NAMES: RefCell<Vec<Option<Arc<str>>>> = RefCell::new(vec![None; SLOTS]);
}

/// The name, shared if it was asked for lately.
pub fn name(text: &str) -> Arc<str> {
    if text.len() > NAME_BYTES_MAX {
        return text.into();
    }
    NAMES.with_borrow_mut(|names| match &mut names[slot(text.as_bytes())] {
        Some(known) if **known == *text => known.clone(),
        slot => slot.insert(text.into()).clone(),
    })
}

/// FNV-1a, folded.
fn slot(text: &[u8]) -> usize {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = text.iter().fold(0x811c_9dc5, step);
    (hash ^ (hash >> 16)) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_itself_whatever_came_before_it() {
        for round in 0..2 {
            for number in 0..3 * SLOTS {
                let text = format!("name{number}");
                assert_eq!(&*name(&text), text, "round {round}");
            }
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(&*name(&long), long);
        assert!(Arc::ptr_eq(&name("data"), &name("data")));
    }
}
