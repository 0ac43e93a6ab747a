//! Cuckoo filters: fingerprints of one byte in buckets, two buckets an item.
//!
//! An item goes into one of its two buckets; if both are full in every filter, fingerprints of the
//! newest filter are moved to their other bucket, and if that does not end in a free place, a
//! filter of `expansion` times the buckets is added.
//!
//! Fan, Andersen, Kaminsky and Mitzenmacher, *Cuckoo Filter: Practically Better Than Bloom* (2014).

use crate::hash::murmur_64;
use crate::{BYTES_MAX, Malformed, Numbers, Space, TooLarge, each_piece};

/// Bytes of the header of CF.SCANDUMP.
pub const HEADER_BYTES: usize = 38;
/// Most buckets of a filter.
const BUCKETS_MAX: u64 = (1 << 56) - 1;
/// A sketch with this many filters takes no more items. The original tests the number once a
/// request, so the time of a request grows with the square of the filters that it adds.
pub const FILTERS_MAX: usize = 32;
/// Most fingerprints of a bucket.
const BUCKET_SIZE_MAX: usize = 255;
/// Most filters of a stored sketch.
const STORED_FILTERS_MAX: u64 = 4096;
const FREE: u8 = 0;
const HASH_MULTIPLIER: u64 = 0x5bd1_e995;
/// Bytes of a sketch and of a filter in the original's memory.
const CUCKOO_MEMORY: u64 = 40;
const FILTER_MEMORY: u64 = 16;
/// The share of deleted items that makes a sketch compact itself.
const DELETED_SHARE: f64 = 0.1;

/// The head of a sketch.
#[derive(Clone, Debug, PartialEq)]
pub struct Cuckoo {
    /// Buckets of the first filter: a power of two.
    pub buckets: u64,
    pub items: u64,
    pub deletes: u64,
    /// Fingerprints of a bucket; 1 to 255.
    pub bucket_size: u16,
    /// Fingerprints that are moved for a new one; at least 1.
    pub iterations_max: u16,
    /// 0: no filter is added.
    pub expansion: u16,
    /// Buckets of each filter.
    pub filters: Vec<u64>,
}

/// Why an item is not in the sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The item is in a filter.
    Exists,
    /// There is no place for it, and no filter is added.
    Full,
    /// There is no memory for another filter.
    TooLarge,
}

/// Where an item may be.
#[derive(Clone, Copy, Debug)]
struct Place {
    fingerprint: u8,
    first: u64,
    second: u64,
}

impl Place {
    fn of(item: &[u8]) -> Place {
        let hash = murmur_64(item, 0);
        Place::at(hash, (hash % 255) as u8 + 1)
    }

    fn at(first: u64, fingerprint: u8) -> Place {
        Place {
            fingerprint,
            first,
            second: other(first, fingerprint),
        }
    }
}

/// The other place of a fingerprint.
fn other(place: u64, fingerprint: u8) -> u64 {
    place ^ u64::from(fingerprint).wrapping_mul(HASH_MULTIPLIER)
}

/// Bytes that will be written together, or not at all.
struct Draft<'s> {
    space: &'s mut dyn Space,
    written: Vec<(u64, u8)>,
}

impl Draft<'_> {
    fn read(&mut self, at: u64, bucket: &mut [u8]) {
        self.space.read(at, bucket);
        for (place, byte) in &self.written {
            if let Some(stored) = place.checked_sub(at).and_then(|index| bucket.get_mut(index as usize)) {
                *stored = *byte;
            }
        }
    }

    fn set(&mut self, at: u64, byte: u8) {
        match self.written.iter_mut().find(|(place, _)| *place == at) {
            Some((_, written)) => *written = byte,
            None => self.written.push((at, byte)),
        }
    }

    fn write(self) {
        for (at, byte) in self.written {
            self.space.write(at, &[byte]);
        }
    }
}

impl Cuckoo {
    /// An empty sketch for `capacity` items, which is at least twice the size of a bucket.
    pub fn new(capacity: u64, bucket_size: u16, iterations_max: u16, expansion: u16) -> Result<Cuckoo, TooLarge> {
        let buckets = (capacity / u64::from(bucket_size)).checked_next_power_of_two();
        let buckets = buckets.ok_or(TooLarge)?.max(1);
        let expansion = match expansion {
            0 => 0,
            expansion => expansion.checked_next_power_of_two().ok_or(TooLarge)?,
        };
        let mut cuckoo = Cuckoo {
            buckets,
            items: 0,
            deletes: 0,
            bucket_size,
            iterations_max,
            expansion,
            filters: Vec::new(),
        };
        cuckoo.filters.push(cuckoo.next_buckets()?);
        Ok(cuckoo)
    }

    /// Buckets of the filter that would be added.
    fn next_buckets(&self) -> Result<u64, TooLarge> {
        let power = u32::try_from(self.filters.len()).map_err(|_| TooLarge)?;
        let growth = u64::from(self.expansion).checked_pow(power).ok_or(TooLarge)?;
        let buckets = growth
            .checked_mul(self.buckets)
            .filter(|buckets| *buckets <= BUCKETS_MAX);
        let buckets = buckets.ok_or(TooLarge)?;
        match buckets.checked_mul(self.bucket_size.into()) {
            Some(bytes) if bytes <= BYTES_MAX => Ok(buckets),
            _ => Err(TooLarge),
        }
    }

    /// Bytes of a filter.
    pub fn filter_bytes(&self, filter: usize) -> u64 {
        self.filters[filter].saturating_mul(self.bucket_size.into())
    }

    /// The start of a filter in the space.
    pub fn filter_start(&self, filter: usize) -> u64 {
        (0..filter).fold(0, |start: u64, filter| start.saturating_add(self.filter_bytes(filter)))
    }

    /// Bytes of the space.
    pub fn space_bytes(&self) -> u64 {
        self.filter_start(self.filters.len())
    }

    /// Bytes that the original takes for it.
    pub fn memory_bytes(&self) -> u64 {
        let filters = self.filters.len() as u64 * FILTER_MEMORY;
        self.space_bytes().saturating_add(CUCKOO_MEMORY + filters)
    }

    /// The offset in the space of a bucket of a filter that starts at `start`.
    fn bucket_at(&self, filter: usize, start: u64, place: u64) -> u64 {
        start + place % self.filters[filter] * u64::from(self.bucket_size)
    }

    /// The offset of a byte in one of the two buckets of the filter that starts at `start`.
    fn find(&self, space: &mut dyn Space, filter: usize, start: u64, place: Place, byte: u8) -> Option<u64> {
        let mut bucket = [0; BUCKET_SIZE_MAX];
        let bucket = &mut bucket[..self.bucket_size.into()];
        [place.first, place.second].into_iter().find_map(|place| {
            let at = self.bucket_at(filter, start, place);
            space.read(at, bucket);
            let index = bucket.iter().position(|stored| *stored == byte)?;
            Some(at + index as u64)
        })
    }

    /// The offset of a byte in the buckets of the first `filters` filters, the oldest first.
    fn find_oldest(&self, space: &mut dyn Space, filters: usize, place: Place, byte: u8) -> Option<u64> {
        let mut start = 0;
        (0..filters).find_map(|filter| {
            let at = self.find(space, filter, start, place, byte);
            start += self.filter_bytes(filter);
            at
        })
    }

    /// The same in all filters, the newest first.
    fn find_newest(&self, space: &mut dyn Space, place: Place, byte: u8) -> Option<u64> {
        let mut start = self.space_bytes();
        (0..self.filters.len()).rev().find_map(|filter| {
            start -= self.filter_bytes(filter);
            self.find(space, filter, start, place, byte)
        })
    }

    /// Returns true if the item was added, or if another has its fingerprint and a bucket of it.
    pub fn contains(&self, space: &mut dyn Space, item: &[u8]) -> bool {
        self.has(space, Place::of(item))
    }

    fn has(&self, space: &mut dyn Space, place: Place) -> bool {
        self.find_oldest(space, self.filters.len(), place, place.fingerprint)
            .is_some()
    }

    /// The number of times that an item may have been added.
    pub fn count(&self, space: &mut dyn Space, item: &[u8]) -> u64 {
        let place = Place::of(item);
        let (mut count, mut start) = (0, 0);
        let mut bucket = [0; BUCKET_SIZE_MAX];
        let bucket = &mut bucket[..self.bucket_size.into()];
        for filter in 0..self.filters.len() {
            for place_of_bucket in [place.first, place.second] {
                space.read(self.bucket_at(filter, start, place_of_bucket), bucket);
                count += bucket.iter().filter(|stored| **stored == place.fingerprint).count();
            }
            start += self.filter_bytes(filter);
        }
        count as u64
    }

    /// Adds an item; `unique`: only if no filter has it. `grow` decides whether there is memory for
    /// another filter of its argument's bytes.
    pub fn add(
        &mut self,
        space: &mut dyn Space,
        item: &[u8],
        unique: bool,
        grow: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), Refused> {
        let place = Place::of(item);
        if unique && self.has(space, place) {
            return Err(Refused::Exists);
        }
        loop {
            if let Some(at) = self.find_newest(space, place, FREE) {
                space.write(at, &[place.fingerprint]);
                break;
            }
            if self.displace(space, place) {
                break;
            }
            if self.expansion == 0 {
                return Err(Refused::Full);
            }
            if self.filters.len() >= FILTERS_MAX {
                return Err(Refused::TooLarge);
            }
            let buckets = self.next_buckets().map_err(|TooLarge| Refused::TooLarge)?;
            if !grow(buckets * u64::from(self.bucket_size)) {
                return Err(Refused::TooLarge);
            }
            self.filters.push(buckets);
        }
        self.items += 1;
        Ok(())
    }

    /// Moves fingerprints of the newest filter until one is in a free place. False: none was found,
    /// and all are as before.
    fn displace(&self, space: &mut dyn Space, place: Place) -> bool {
        let filter = self.filters.len() - 1;
        let start = self.filter_start(filter);
        let size = usize::from(self.bucket_size);
        let mut draft = Draft {
            space,
            written: Vec::new(),
        };
        let mut bucket = vec![0; size];
        let (mut fingerprint, mut index, mut victim) = (place.fingerprint, place.first % self.filters[filter], 0);
        for _ in 0..self.iterations_max {
            let at = self.bucket_at(filter, start, index);
            draft.read(at, &mut bucket);
            draft.set(at + victim as u64, fingerprint);
            fingerprint = bucket[victim];
            index = other(index, fingerprint) % self.filters[filter];
            let at = self.bucket_at(filter, start, index);
            draft.read(at, &mut bucket);
            if let Some(free) = bucket.iter().position(|stored| *stored == FREE) {
                draft.set(at + free as u64, fingerprint);
                draft.write();
                return true;
            }
            victim = (victim + 1) % size;
        }
        false
    }

    /// Removes an item once. False: it is not there.
    pub fn delete(&mut self, space: &mut dyn Space, item: &[u8]) -> bool {
        let place = Place::of(item);
        let stored = self.find_newest(space, place, place.fingerprint);
        let Some(at) = stored else {
            return false;
        };
        space.write(at, &[FREE]);
        self.items = self.items.wrapping_sub(1);
        self.deletes = self.deletes.wrapping_add(1);
        if self.filters.len() > 1 && self.deletes as f64 > self.items as f64 * DELETED_SHARE {
            self.compact(space, false);
        }
        true
    }

    /// Moves fingerprints to older filters, the newest filter first, and drops an emptied last
    /// one. `every`: also after a filter that was not emptied.
    pub fn compact(&mut self, space: &mut dyn Space, every: bool) {
        for filter in (1..self.filters.len()).rev() {
            if !self.compact_filter(space, filter) && !every {
                break;
            }
        }
        self.deletes = 0;
    }

    /// Returns true if the filter is empty now.
    fn compact_filter(&mut self, space: &mut dyn Space, filter: usize) -> bool {
        let (start, bytes) = (self.filter_start(filter), self.filter_bytes(filter));
        let mut fingerprints: Vec<(u64, u8)> = Vec::new();
        let mut from = 0;
        let mut is_empty = true;
        while from < bytes {
            let count = (bytes - from).min(4096);
            fingerprints.clear();
            each_piece(space, start + from, count, &mut |at, piece| {
                let stored = piece.iter().enumerate().filter(|(_, byte)| **byte != FREE);
                fingerprints.extend(stored.map(|(index, byte)| (from + at + index as u64, *byte)));
            });
            for (at, fingerprint) in &fingerprints {
                let place = Place::at(at / u64::from(self.bucket_size), *fingerprint);
                match self.find_oldest(space, filter, place, FREE) {
                    Some(free) => {
                        space.write(free, &[*fingerprint]);
                        space.write(start + at, &[FREE]);
                    }
                    None => is_empty = false,
                }
            }
            from += count;
        }
        if is_empty && filter == self.filters.len() - 1 {
            self.filters.pop();
        }
        is_empty
    }

    /// The header of CF.SCANDUMP.
    pub fn to_header(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        for number in [self.items, self.buckets, self.deletes, self.filters.len() as u64] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.bucket_size, self.iterations_max, self.expansion] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        header
    }

    /// Reads the header of CF.SCANDUMP.
    pub fn from_header(header: &[u8]) -> Result<Cuckoo, Malformed> {
        let (mut cuckoo, filters) = Cuckoo::read(&mut Numbers(header))?;
        for _ in 0..filters {
            cuckoo
                .filters
                .push(cuckoo.next_buckets().map_err(|TooLarge| Malformed)?);
        }
        cuckoo.checked()
    }

    fn read(numbers: &mut Numbers<'_>) -> Result<(Cuckoo, u64), Malformed> {
        let (items, buckets, deletes, filters) = (numbers.u64()?, numbers.u64()?, numbers.u64()?, numbers.u64()?);
        let cuckoo = Cuckoo {
            buckets,
            items,
            deletes,
            bucket_size: numbers.u16()?,
            iterations_max: numbers.u16()?,
            expansion: numbers.u16()?,
            filters: Vec::new(),
        };
        match (1..=STORED_FILTERS_MAX).contains(&filters) {
            true => Ok((cuckoo, filters)),
            false => Err(Malformed),
        }
    }

    /// The stored head.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.to_header();
        self.filters
            .iter()
            .for_each(|buckets| bytes.extend_from_slice(&buckets.to_le_bytes()));
        bytes
    }

    /// Reads a stored head.
    pub fn from_bytes(bytes: &[u8]) -> Result<Cuckoo, Malformed> {
        let mut numbers = Numbers(bytes);
        let (mut cuckoo, filters) = Cuckoo::read(&mut numbers)?;
        for _ in 0..filters {
            cuckoo.filters.push(numbers.u64()?);
        }
        numbers.end()?;
        cuckoo.checked()
    }

    /// The sketch, if an original could have it and its filters are not too large.
    pub fn checked(self) -> Result<Cuckoo, Malformed> {
        let is_sound = (1..=BUCKET_SIZE_MAX as u16).contains(&self.bucket_size)
            && self.iterations_max > 0
            && self.buckets.is_power_of_two()
            && self.buckets <= BUCKETS_MAX
            && !self.filters.is_empty()
            && self.filters.len() <= STORED_FILTERS_MAX as usize
            && self.filters.iter().all(|buckets| *buckets > 0)
            && (0..self.filters.len()).all(|filter| self.filter_bytes(filter) <= BYTES_MAX);
        match is_sound {
            true => Ok(self),
            false => Err(Malformed),
        }
    }

    /// The filter with the byte at `offset` of all filters, and the offset in it.
    pub fn filter_of(&self, mut offset: u64) -> Option<(usize, u64)> {
        for filter in 0..self.filters.len() {
            let bytes = self.filter_bytes(filter);
            if offset < bytes {
                return Some((filter, offset));
            }
            offset -= bytes;
        }
        None
    }
}
