//! Images of rows that are kept in memory, so that not every look has to read the rows again.
//!
//! An image belongs to a [`Mark`]: a hash that stands in a row, and that changes in the same
//! transaction as the rows that the image shows. It serves wherever this mark is seen: at any
//! snapshot, inside a transaction, after one that was taken back. So it is never stale, and nobody
//! has to forget it.
//!
//! Those that change the rows say how the image changes with them ([`Resident::expect`]), and the
//! first look at the new mark makes the image follow. The mark of a transaction that is taken back
//! is never seen, and what was expected of it is forgotten with the next one. Where the image
//! cannot follow, it is made anew from the rows ([`Resident::is_wanted`]), by somebody who has the
//! time; until then others read rows.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;

/// A hash of what an image shows. Zeros if there is nothing to show.
pub type Mark = [u8; 16];

/// Looks at marks without an image, one after the other, before the image is made anew: a few are
/// of older snapshots.
const MISSED_MAX: u32 = 16;

/// Something in memory that follows rows.
pub trait Image: Clone + Debug {
    /// How it differs from one mark to the next.
    type Change: Debug;

    /// Changes it.
    fn apply(&mut self, change: Self::Change);

    /// Bytes that it takes, about.
    fn bytes(&self) -> usize;
}

/// An image, if there is one.
#[derive(Debug)]
pub struct Resident<I: Image>(Mutex<Kept<I>>);

#[derive(Debug)]
struct Kept<I: Image> {
    image: Option<(Mark, Arc<I>)>,
    /// From which mark to which there is a change that nobody has seen yet.
    next: Option<(Mark, Mark, I::Change)>,
    /// Looks since the last one that found an image.
    missed: u32,
    bytes: usize,
}

impl<I: Image> Default for Resident<I> {
    fn default() -> Resident<I> {
        Resident(Mutex::new(Kept {
            image: None,
            next: None,
            missed: 0,
            bytes: 0,
        }))
    }
}

impl<I: Image> Resident<I> {
    /// The image of this mark. Nothing if it is not kept: read rows.
    pub fn get(&self, mark: Mark) -> Option<Arc<I>> {
        let mut kept = self.0.lock();
        kept.follow(mark);
        let image = kept.image.as_ref().filter(|(of, _)| *of == mark);
        let image = image.map(|(_, image)| image.clone());
        kept.missed = if image.is_some() {
            0
        } else {
            kept.missed.saturating_add(1)
        };
        image
    }

    /// True if somebody has looked for an image that is not kept, so that it should be made and
    /// [`Resident::put`].
    pub fn is_wanted(&self) -> bool {
        let kept = self.0.lock();
        kept.missed > if kept.image.is_none() { 0 } else { MISSED_MAX }
    }

    /// Keeps the image of a mark instead of another.
    pub fn put(&self, mark: Mark, image: I) {
        let mut kept = self.0.lock();
        kept.missed = 0;
        kept.bytes = image.bytes();
        kept.image = Some((mark, Arc::new(image)));
    }

    /// Notes the change between two marks, for the case that the transaction commits that is about
    /// to write the second one.
    pub fn expect(&self, from: Mark, to: Mark, change: I::Change) {
        self.0.lock().next = Some((from, to, change));
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }
}

impl<I: Image> Kept<I> {
    fn follow(&mut self, mark: Mark) {
        let Some((of, image)) = &mut self.image else { return };
        let expected = self.next.take_if(|(from, to, _)| from == of && *to == mark);
        if let Some((_, to, change)) = expected {
            // Copies what a search still looks at.
            Arc::make_mut(image).apply(change);
            (*of, self.bytes) = (to, image.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Numbers(Vec<u8>);

    impl Image for Numbers {
        type Change = u8;

        fn apply(&mut self, change: u8) {
            self.0.push(change);
        }

        fn bytes(&self) -> usize {
            self.0.len()
        }
    }

    fn mark(number: u8) -> Mark {
        [number; 16]
    }

    fn seen(resident: &Resident<Numbers>, number: u8) -> Option<Vec<u8>> {
        resident.get(mark(number)).map(|image| image.0.clone())
    }

    #[test]
    fn an_image_follows_what_is_seen_and_not_what_was_taken_back() {
        let resident = Resident::default();
        assert!(!resident.is_wanted());
        assert_eq!(seen(&resident, 1), None);
        assert!(resident.is_wanted());
        resident.put(mark(1), Numbers(vec![1]));
        let before = resident.get(mark(1)).unwrap();
        resident.expect(mark(1), mark(2), 2);
        assert_eq!(seen(&resident, 1), Some(vec![1]), "it was taken back");
        resident.expect(mark(1), mark(3), 3);
        assert_eq!(seen(&resident, 2), None);
        assert_eq!(seen(&resident, 3), Some(vec![1, 3]));
        assert_eq!(seen(&resident, 1), None, "an older snapshot");
        assert_eq!((before.0.len(), resident.bytes()), (1, 2));
    }

    #[test]
    fn a_few_looks_at_older_snapshots_do_not_replace_an_image() {
        let resident = Resident::default();
        resident.put(mark(1), Numbers(vec![]));
        (0..MISSED_MAX).for_each(|_| assert_eq!(seen(&resident, 9), None));
        assert!(!resident.is_wanted());
        assert_eq!(seen(&resident, 9), None);
        assert!(resident.is_wanted());
        assert_eq!(seen(&resident, 1), Some(vec![]));
        assert!(!resident.is_wanted());
    }
}
