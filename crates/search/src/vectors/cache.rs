//! Images of rows in memory, so that a lookup need not read the rows again.
//!
//! An image belongs to a [`Mark`]: a hash in a row that changes in the same transaction as the
//! imaged rows. The image serves every snapshot and transaction that sees this mark, also after a
//! rollback. So it is never stale and needs no invalidation.
//!
//! Writers of the rows announce the change of the image ([`Resident::expect`]), and the first
//! lookup of the new mark applies it. The mark of a rolled-back transaction is never seen, and its
//! expected change is dropped at the next announcement. If the image cannot follow, a background
//! task rebuilds it from the rows ([`Resident::is_wanted`]); until then lookups read rows.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;

/// A hash of the rows that an image shows. Zeros if there are none.
pub type Mark = [u8; 16];

/// Consecutive lookups of marks without an image before the image is rebuilt: a few are of older
/// snapshots.
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
    /// A pending change, from one mark to the next.
    next: Option<(Mark, Mark, I::Change)>,
    /// Lookups since the last hit.
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
        let mut images = self.0.lock();
        images.follow(mark);
        let image = images.image.as_ref().filter(|(of, _)| *of == mark);
        let image = image.map(|(_, image)| image.clone());
        images.missed = if image.is_some() {
            0
        } else {
            images.missed.saturating_add(1)
        };
        image
    }

    /// Returns true if a lookup has missed an image, so that it should be built and
    /// [`Resident::put`].
    pub fn is_wanted(&self) -> bool {
        let images = self.0.lock();
        images.missed > if images.image.is_none() { 0 } else { MISSED_MAX }
    }

    /// Keeps the image of a mark instead of another.
    pub fn put(&self, mark: Mark, image: I) {
        let mut images = self.0.lock();
        images.missed = 0;
        images.bytes = image.bytes();
        images.image = Some((mark, Arc::new(image)));
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
    fn an_image_follows_commits_and_no_rolled_back_changes() {
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
