//! Top-K lists: the `k` most frequent items of a stream, by HeavyKeeper.
//!
//! Each of `depth` rows has `width` buckets of a fingerprint and a count. A bucket of another
//! fingerprint decays at random, the less likely the larger its count is, and changes hands at
//! zero. Items with the largest counts are in a heap, the smallest at its root.
//!
//! Gong, Yang et al., *HeavyKeeper: An Accurate Algorithm for Finding Top-k Elephant Flows* (2018).
//!
//! ```text
//! space: buckets, 8 bytes each: fingerprint, count
//!        the heap, 4 bytes a slot: one more than the number of its item; 0: it has never had one
//!        items by their numbers, 12 bytes each: fingerprint, length, count
//! ```
//!
//! The numbers of items are `0..k`, and their texts are beside the space. Items do not move with
//! their slots, so a change of the heap moves numbers only.

use smallvec::SmallVec;

use crate::hash::murmur_32;
use crate::{BYTES_MAX, Malformed, Numbers, Space, TooLarge, write_changed};

const BUCKET_BYTES: u64 = 8;
const SLOT_BYTES: usize = 4;
const ITEM_BYTES: usize = 12;
/// Buckets of an item that are read at once.
const ROWS_AT_ONCE: usize = 8;
/// Seed of an item's fingerprint.
const FINGERPRINT_SEED: u32 = 1919;
/// Counts whose decay the original has in a table.
const DECAYS: u32 = 256;

/// The texts of items, beside the space.
pub trait Items {
    /// The text with this number, which is that of a slot with an item.
    fn item(&mut self, number: u32) -> Vec<u8>;

    /// Replaces the text with this number.
    fn set_item(&mut self, number: u32, item: &[u8]);
}

/// A space with texts beside it.
pub trait Storage: Space + Items {}

impl<S: Space + Items> Storage for S {}

/// Takes a bucket's bytes and their offset.
type Visit<'v> = &'v mut dyn FnMut(&mut dyn Storage, u64, &[u8]);

/// The head of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopK {
    /// Items of the list; at least 1.
    pub k: u32,
    /// Buckets of a row; at least 1.
    pub width: u32,
    /// Rows; at least 1.
    pub depth: u32,
    /// The chance that a bucket with a count of 1 decays; above 0, at most 1.
    pub decay: f64,
}

/// A place of a row, with the count of the item that holds it.
#[derive(Clone, Copy)]
struct Bucket {
    fingerprint: u32,
    count: u32,
}

/// A place of the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub fingerprint: u32,
    pub item_bytes: u32,
    pub count: u32,
    /// `None`: it has never had an item.
    pub item: Option<u32>,
}

impl Slot {
    fn number_bytes(self) -> [u8; SLOT_BYTES] {
        self.item.map_or(0, |number| number + 1).to_le_bytes()
    }

    fn item_bytes(self) -> [u8; ITEM_BYTES] {
        let mut bytes = [0; ITEM_BYTES];
        let parts = [self.fingerprint, self.item_bytes, self.count];
        for (place, part) in bytes.chunks_exact_mut(4).zip(parts) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        bytes
    }

    /// The slot of the item with this number, of all items.
    fn of_item(number: u32, items: &[u8]) -> Slot {
        let at = number as usize * ITEM_BYTES;
        let Some(bytes) = items.get(at..at + ITEM_BYTES) else {
            return Slot::default();
        };
        let part = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Slot {
            fingerprint: part(0),
            item_bytes: part(4),
            count: part(8),
            item: Some(number),
        }
    }
}

impl TopK {
    /// An empty list.
    pub fn new(k: u32, width: u32, depth: u32, decay: f64) -> Result<TopK, TooLarge> {
        let list = TopK { k, width, depth, decay };
        match list.buckets_bytes().max(list.heap_bytes()) <= BYTES_MAX {
            true => Ok(list),
            false => Err(TooLarge),
        }
    }

    fn buckets_bytes(&self) -> u64 {
        (u64::from(self.width) * u64::from(self.depth)).saturating_mul(BUCKET_BYTES)
    }

    fn heap_bytes(&self) -> u64 {
        u64::from(self.k) * (SLOT_BYTES + ITEM_BYTES) as u64
    }

    fn slot_at(&self, index: usize) -> u64 {
        self.buckets_bytes() + (index * SLOT_BYTES) as u64
    }

    fn item_at(&self, number: u32) -> u64 {
        self.slot_at(self.k as usize) + number as u64 * ITEM_BYTES as u64
    }

    /// Bytes of the space.
    pub fn space_bytes(&self) -> u64 {
        self.buckets_bytes().saturating_add(self.heap_bytes())
    }

    /// The slots of the heap, the root first.
    pub fn slots(&self, space: &mut dyn Space) -> Vec<Slot> {
        let mut bytes = vec![0; self.heap_bytes() as usize];
        space.read(self.buckets_bytes(), &mut bytes);
        let (numbers, items) = bytes.split_at(self.k as usize * SLOT_BYTES);
        let numbers = numbers.chunks_exact(SLOT_BYTES).map(|number| {
            let number = u32::from_le_bytes(number.try_into().expect("four bytes"));
            number.checked_sub(1)
        });
        let slot = |number: Option<u32>| number.map_or(Slot::default(), |number| Slot::of_item(number, items));
        numbers.map(slot).collect()
    }

    /// Writes a slot with its item.
    pub fn set_slot(&self, space: &mut dyn Space, index: usize, slot: Slot) {
        space.write(self.slot_at(index), &slot.number_bytes());
        if let Some(number) = slot.item {
            space.write(self.item_at(number), &slot.item_bytes());
        }
    }

    /// The items in the order of their counts, the largest first.
    pub fn list(&self, storage: &mut dyn Storage) -> Vec<(Vec<u8>, u32)> {
        let mut slots = self.slots(storage);
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.count));
        let counted = slots.into_iter().take_while(|slot| slot.count > 0);
        let items = counted.filter_map(|slot| Some((slot.item?, slot.count)));
        items.map(|(number, count)| (storage.item(number), count)).collect()
    }

    /// Returns true if the item is in the list.
    pub fn contains(&self, storage: &mut dyn Storage, item: &[u8]) -> bool {
        let slots = self.slots(storage);
        find(&slots, storage, item).is_some()
    }

    /// The item's count, which may be too small.
    pub fn count(&self, storage: &mut dyn Storage, item: &[u8]) -> u32 {
        let fingerprint = murmur_32(item, FINGERPRINT_SEED);
        let slots = self.slots(storage);
        let least = slots[0].count;
        let is_listed = find(&slots, storage, item).is_some();
        let mut largest = 0;
        self.each_bucket(storage, item, &mut |_, _, bucket| {
            let bucket = Bucket::of(bucket);
            if bucket.fingerprint == fingerprint && (!is_listed || bucket.count >= least) {
                largest = largest.max(bucket.count);
            }
        });
        largest
    }

    fn place(&self, item: &[u8], row: u32) -> u64 {
        let column = murmur_32(item, row) % self.width;
        (u64::from(row) * u64::from(self.width) + u64::from(column)) * BUCKET_BYTES
    }

    /// Visits an item's buckets with their offsets. Several are read at once.
    fn each_bucket(&self, storage: &mut dyn Storage, item: &[u8], visit: Visit<'_>) {
        for first in (0..self.depth).step_by(ROWS_AT_ONCE) {
            let rows = first..self.depth.min(first.saturating_add(ROWS_AT_ONCE as u32));
            let places: SmallVec<[u64; ROWS_AT_ONCE]> = rows.map(|row| self.place(item, row)).collect();
            let mut bytes = [0; ROWS_AT_ONCE * BUCKET_BYTES as usize];
            let bytes = &mut bytes[..places.len() * BUCKET_BYTES as usize];
            storage.parts_at(&places, bytes);
            for (at, bucket) in places.iter().zip(bytes.chunks_exact(BUCKET_BYTES as usize)) {
                visit(storage, *at, bucket);
            }
        }
    }

    /// The smallest count of the list, which is at the root of the heap; 0 if that has no item.
    fn least(&self, space: &mut dyn Storage) -> u32 {
        let mut root = [0; SLOT_BYTES];
        space.read(self.slot_at(0), &mut root);
        let Some(number) = u32::from_le_bytes(root).checked_sub(1) else {
            return 0;
        };
        let mut item = [0; ITEM_BYTES];
        space.read(self.item_at(number), &mut item);
        Slot::of_item(0, &item).count
    }

    /// Counts an item and returns the item that has left the list for it. `chance` draws a number
    /// of `0.0..=1.0`.
    pub fn add(
        &self,
        storage: &mut dyn Storage,
        item: &[u8],
        increment: u32,
        chance: &mut dyn FnMut() -> f64,
    ) -> Option<Vec<u8>> {
        let fingerprint = murmur_32(item, FINGERPRINT_SEED);
        let mut largest = 0;
        self.each_bucket(storage, item, &mut |storage, at, bucket| {
            let after = self.counted(Bucket::of(bucket), fingerprint, increment, chance);
            write_changed(storage, at, bucket, &after.to_bytes());
            if after.fingerprint == fingerprint {
                largest = largest.max(after.count);
            }
        });
        // Most items are not frequent enough: of the heap, only its root is read.
        if largest < self.least(storage) {
            return None;
        }
        let before = self.slots(storage);
        let mut heap = Heap { slots: before.clone() };
        let listed = find(&heap.slots, storage, item);
        let mut expelled = None;
        match listed {
            Some(index) => heap.slots[index].count = largest,
            None => {
                let number = match heap.slots[0].item {
                    Some(number) => {
                        expelled = Some(storage.item(number));
                        number
                    }
                    None => free_number(&heap.slots),
                };
                storage.set_item(number, item);
                let slot = Slot {
                    fingerprint,
                    item_bytes: item.len() as u32,
                    count: largest,
                    item: Some(number),
                };
                heap.slots[0] = slot;
            }
        }
        let changed = heap.slots[listed.unwrap_or(0)];
        heap.sink(listed.unwrap_or(0));
        for (index, (before, after)) in before.iter().zip(&heap.slots).enumerate() {
            write_changed(
                storage,
                self.slot_at(index),
                &before.number_bytes(),
                &after.number_bytes(),
            );
        }
        if let Some(number) = changed.item {
            let previous = before.iter().find(|slot| slot.item == Some(number));
            let previous = previous.copied().unwrap_or_default().item_bytes();
            write_changed(storage, self.item_at(number), &previous, &changed.item_bytes());
        }
        expelled
    }

    /// A bucket after an item was counted in it.
    fn counted(&self, mut bucket: Bucket, fingerprint: u32, increment: u32, chance: &mut dyn FnMut() -> f64) -> Bucket {
        if bucket.count == 0 {
            return Bucket {
                fingerprint,
                count: increment,
            };
        }
        if bucket.fingerprint == fingerprint {
            bucket.count = bucket.count.wrapping_add(increment);
            return bucket;
        }
        for remaining in (1..=increment).rev() {
            if chance() < self.decay_of(bucket.count) {
                bucket.count -= 1;
                if bucket.count == 0 {
                    return Bucket {
                        fingerprint,
                        count: remaining,
                    };
                }
            }
        }
        bucket
    }

    /// `decay` to the power of the count, rounded as the original's table does.
    fn decay_of(&self, count: u32) -> f64 {
        let power = |exponent: u32| self.decay.powf(exponent.into());
        match count < DECAYS {
            true => power(count),
            false => {
                let last = DECAYS - 1;
                power(last).powf((count / last).into()) * power(count % last)
            }
        }
    }

    /// The stored head.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(20);
        for number in [self.k, self.width, self.depth] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.decay.to_le_bytes());
        bytes
    }

    /// Reads a stored head.
    pub fn from_bytes(bytes: &[u8]) -> Result<TopK, Malformed> {
        let mut numbers = Numbers(bytes);
        let list = TopK {
            k: numbers.u32()?,
            width: numbers.u32()?,
            depth: numbers.u32()?,
            decay: numbers.f64()?,
        };
        numbers.end()?;
        list.checked()
    }

    /// The list, if it has places and buckets.
    pub fn checked(self) -> Result<TopK, Malformed> {
        let is_sound = self.k > 0
            && self.width > 0
            && self.depth > 0
            && self.decay > 0.0
            && self.decay <= 1.0
            && TopK::new(self.k, self.width, self.depth, self.decay).is_ok();
        match is_sound {
            true => Ok(self),
            false => Err(Malformed),
        }
    }

    /// The bytes of all buckets.
    pub fn buckets(&self, space: &mut dyn Space) -> Vec<u8> {
        let mut bytes = vec![0; self.buckets_bytes() as usize];
        space.read(0, &mut bytes);
        bytes
    }
}

/// A number that no slot has.
fn free_number(slots: &[Slot]) -> u32 {
    let mut numbers: Vec<u32> = slots.iter().filter_map(|slot| slot.item).collect();
    numbers.sort_unstable();
    let free = numbers.iter().zip(0..).find(|(number, expected)| **number != *expected);
    free.map_or(numbers.len() as u32, |(_, expected)| expected)
}

impl Bucket {
    fn of(bytes: &[u8]) -> Bucket {
        let part = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Bucket {
            fingerprint: part(0),
            count: part(4),
        }
    }

    fn to_bytes(self) -> [u8; BUCKET_BYTES as usize] {
        let mut bytes = [0; BUCKET_BYTES as usize];
        bytes[..4].copy_from_slice(&self.fingerprint.to_le_bytes());
        bytes[4..].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }
}

/// The last slot with the item.
fn find(slots: &[Slot], storage: &mut dyn Storage, item: &[u8]) -> Option<usize> {
    let fingerprint = murmur_32(item, FINGERPRINT_SEED);
    (0..slots.len()).rev().find(|index| {
        let slot = slots[*index];
        slot.fingerprint == fingerprint
            && slot.item_bytes as usize == item.len()
            && slot.item.is_some_and(|number| storage.item(number) == item)
    })
}

struct Heap {
    slots: Vec<Slot>,
}

impl Heap {
    /// Moves a slot below those with smaller counts.
    fn sink(&mut self, start: usize) {
        let sinking = self.slots[start];
        let mut index = start;
        while let Some(child) = self.smaller_child(index) {
            let count = self.slots[child].count;
            // At the first step a slot of the same count rises, and below it does not.
            let rises = if index == start {
                count <= sinking.count
            } else {
                count < sinking.count
            };
            if !rises {
                break;
            }
            self.slots[index] = self.slots[child];
            index = child;
        }
        self.slots[index] = sinking;
    }

    /// The child with the smaller count, the first of two that are equal.
    fn smaller_child(&self, index: usize) -> Option<usize> {
        let first = 2 * index + 1;
        let count = |child: usize| self.slots.get(child).map(|slot| slot.count);
        match (count(first)?, count(first + 1)) {
            (first_count, Some(second_count)) if first_count > second_count => Some(first + 1),
            _ => Some(first),
        }
    }
}
