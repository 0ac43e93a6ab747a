//! The promises of each family over random items: filters forget nothing, counts are never too
//! small, quantiles are between the ends; and a sketch is the same after its dump.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use quartet_redis_sketches::bloom::{Chain, NO_ROUNDING, NO_SCALING, Refused, WIDE_HASH};
use quartet_redis_sketches::count_min::{Matrix, Overflow, Sums};
use quartet_redis_sketches::cuckoo::Cuckoo;
use quartet_redis_sketches::dump::{self, Head};
use quartet_redis_sketches::t_digest::{Digest, Head as DigestHead};
use quartet_redis_sketches::top_k::{Items, TopK};
use quartet_redis_sketches::{Space, TooLarge};

#[derive(Clone, Default, Debug, PartialEq)]
struct Memory {
    bytes: Vec<u8>,
    items: BTreeMap<u32, Vec<u8>>,
}

impl Space for Memory {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        self.bytes.read(at, into);
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.bytes.write(at, bytes);
    }
}

impl Items for Memory {
    fn item(&mut self, number: u32) -> Vec<u8> {
        self.items[&number].clone()
    }

    fn set_item(&mut self, number: u32, item: &[u8]) {
        self.items.insert(number, item.to_vec());
    }
}

fn any_items() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..200)
}

/// Checks that the head can be stored, and that a sketch that was read from the dump has the same
/// dump.
fn check_dump(head: &Head, memory: &mut Memory) {
    assert_eq!(Head::from_bytes(head.kind(), &head.to_bytes()).as_ref(), Ok(head));
    let dumped = head.dump(memory);
    let restored = dump::restore(dumped.clone()).unwrap();
    let mut again = Memory::default();
    for (at, piece) in &restored.pieces {
        again.write(*at, piece);
    }
    again.items.extend(restored.items);
    assert_eq!(restored.head.dump(&mut again), dumped);
}

proptest! {
    #[test]
    fn a_bloom_filter_forgets_nothing(
        items in any_items(),
        capacity in 1..50u64,
        error in 0.0001..0.9,
        growth in 1..5u32,
        [rounds, wide] in any::<[bool; 2]>(),
    ) {
        let options = if rounds { 0 } else { NO_ROUNDING } | if wide { WIDE_HASH } else { 0 };
        let mut chain = Chain::new(capacity, error, options, growth).unwrap();
        let mut memory = Memory::default();
        for item in &items {
            let was_there = chain.contains(&mut memory, item);
            prop_assert_eq!(chain.add(&mut memory, item, &mut |_| true), Ok(!was_there));
        }
        prop_assert!(items.iter().all(|item| chain.contains(&mut memory, item)));
        prop_assert_eq!(Chain::from_header(&chain.to_header()).unwrap(), chain.clone());
        check_dump(&Head::Bloom(chain), &mut memory);
    }

    #[test]
    fn a_cuckoo_filter_counts_at_least_what_was_added(
        items in any_items(),
        capacity in 8..100u64,
        size in 1..5u16,
        iterations in 1..30u16,
        expansion in 1..4u16,
        removed in any::<u64>(),
    ) {
        let mut cuckoo = Cuckoo::new(capacity, size, iterations, expansion).unwrap();
        let (mut memory, mut counts) = (Memory::default(), HashMap::new());
        // An item without a place in 32 filters is not added.
        let mut added = items;
        added.retain(|item| cuckoo.add(&mut memory, item, false, &mut |_| true).is_ok());
        for item in &added {
            *counts.entry(item).or_insert(0u64) += 1;
        }
        for (number, item) in added.iter().enumerate() {
            if removed >> (number % 64) & 1 == 1 {
                prop_assert!(cuckoo.delete(&mut memory, item));
                *counts.get_mut(item).unwrap() -= 1;
            }
        }
        prop_assert_eq!(cuckoo.items, counts.values().sum::<u64>());
        cuckoo.compact(&mut memory, true);
        for (item, count) in &counts {
            prop_assert!(cuckoo.count(&mut memory, item) >= *count);
            prop_assert!(*count == 0 || cuckoo.contains(&mut memory, item));
        }
        check_dump(&Head::Cuckoo(cuckoo), &mut memory);
    }

    #[test]
    fn counts_are_never_too_small(items in any_items(), width in 1..60u64, depth in 1..6u64) {
        let mut matrix = Matrix::new(width, depth).unwrap();
        let (mut memory, mut counts) = (Memory::default(), HashMap::new());
        for (item, number) in items.iter().zip(0u64..) {
            let count = counts.entry(item).or_insert(0);
            *count += number;
            prop_assert!(matrix.add(&mut memory, item, number) >= *count);
        }
        prop_assert!(counts.iter().all(|(item, count)| matrix.query(&mut memory, item) >= *count));
        prop_assert_eq!(matrix.count, counts.values().sum::<u64>());
        check_dump(&Head::CountMin(matrix), &mut memory);
    }

    #[test]
    fn the_most_frequent_item_is_listed(
        items in any_items(),
        k in 1..8u32,
        width in 1..40u32,
        depth in 1..5u32,
        decay in 0.01..1.0,
    ) {
        let list = TopK::new(k, width, depth, decay).unwrap();
        let mut memory = Memory::default();
        for item in &items {
            list.add(&mut memory, item, 1, &mut || 1.0);
        }
        list.add(&mut memory, b"frequent", 100_000, &mut || 0.0);
        let listed = list.list(&mut memory);
        prop_assert!(listed.len() <= k as usize);
        prop_assert_eq!(&listed[0].0, b"frequent");
        prop_assert!(listed.is_sorted_by(|one, next| one.1 >= next.1));
        prop_assert!(listed.iter().all(|(item, _)| list.contains(&mut memory, item)));
    }

    #[test]
    fn quantiles_are_between_the_ends(
        numbers in prop::collection::vec(-1e6..1e6f64, 1..2000),
        compression in 1..40u32,
    ) {
        let mut head = DigestHead::new(compression.into()).unwrap();
        let mut memory = Memory::default();
        for number in &numbers {
            head.add(&mut memory, *number).unwrap();
        }
        prop_assert_eq!(head.size(), numbers.len() as i64);
        let mut digest = Digest::read(head, &mut memory);
        digest.compress();
        let (min, max) = (head.min, head.max);
        prop_assert!(numbers.iter().all(|number| (min..=max).contains(number)));
        for share in [0.0, 0.01, 0.5, 0.99, 1.0] {
            prop_assert!((min..=max).contains(&digest.quantile(share)));
            prop_assert!((0.0..=1.0).contains(&digest.share_up_to(min + (max - min) * share)));
        }
        let weight: i64 = digest.nodes.iter().map(|node| node.weight).sum();
        prop_assert_eq!(weight, numbers.len() as i64);
        check_dump(&Head::TDigest(head), &mut memory);
    }

    #[test]
    fn any_bytes_are_a_head_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = Chain::from_header(&bytes);
        let _ = Cuckoo::from_header(&bytes);
        let _ = Cuckoo::from_bytes(&bytes);
        let _ = Matrix::from_bytes(&bytes);
        let _ = TopK::from_bytes(&bytes);
        let _ = DigestHead::from_bytes(&bytes);
    }
}

#[test]
fn a_filter_that_does_not_scale_is_full() {
    let mut chain = Chain::new(3, 0.001, NO_ROUNDING | WIDE_HASH | NO_SCALING, 2).unwrap();
    let mut memory = Memory::default();
    for item in [b"a", b"b", b"c"] {
        assert_eq!(chain.add(&mut memory, item, &mut |_| true), Ok(true));
    }
    assert_eq!(chain.add(&mut memory, b"d", &mut |_| true), Err(Refused::Full));
    assert_eq!(chain.add(&mut memory, b"a", &mut |_| true), Ok(false));
}

#[test]
fn sizes_as_large_as_numbers_go_are_refused() {
    assert_eq!(Cuckoo::new(u64::MAX, 1, 1, 1), Err(TooLarge));
    assert_eq!(Cuckoo::new(1 << 40, 255, 1, 1), Err(TooLarge));
    assert_eq!(Matrix::new(u64::MAX, u64::MAX), Err(TooLarge));
    assert_eq!(TopK::new(u32::MAX, u32::MAX, u32::MAX, 0.5), Err(TooLarge));
    assert_eq!(DigestHead::new(f64::INFINITY), Err(TooLarge));
    assert_eq!(DigestHead::new(f64::NAN), Err(TooLarge));
    assert!(Chain::new(u64::MAX, 0.01, NO_ROUNDING, 2).is_none());
    assert!(Chain::new(1, 5e-324, NO_ROUNDING, 2).is_none());
    assert!(Chain::new(1, f64::NAN, NO_ROUNDING, 2).is_none());
}

#[test]
fn merged_counters_do_not_wrap() {
    let counters = |number: u32| number.to_le_bytes().to_vec();
    let merged = |sources: &[(u32, i64)]| {
        let mut sums = Sums::default();
        sums.begin(4);
        let mut sources = sources.iter();
        sources.try_for_each(|(number, weight)| sums.add(&counters(*number), *weight))?;
        sums.to_bytes()
    };
    assert_eq!(merged(&[(3, 2), (4, -1)]), Ok(counters(2)));
    assert_eq!(merged(&[(3, -1)]), Err(Overflow));
    assert_eq!(merged(&[(u32::MAX, 2)]), Err(Overflow));
    assert_eq!(merged(&[(2, i64::MAX)]), Err(Overflow));
}

/// CF.INSERT of one item 300,000 times added a filter for every four of them, held its partition
/// for minutes, and stored a head of more filters than the next request read.
#[test]
fn an_item_that_is_added_ever_again_ends_in_a_sketch_that_can_be_read() {
    let mut cuckoo = Cuckoo::new(1024, 2, 20, 1).unwrap();
    let mut memory = Memory::default();
    let added = (0..30_000).filter(|_| cuckoo.add(&mut memory, b"i", false, &mut |_| true).is_ok());
    assert_eq!(added.count(), 128);
    assert_eq!(cuckoo.count(&mut memory, b"i"), 128);
    check_dump(&Head::Cuckoo(cuckoo), &mut memory);
}
