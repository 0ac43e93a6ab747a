//! The cost of the tree: nanoseconds per operation and bytes per row, beside the standard sorted
//! map.
//!
//! `cargo bench -p quartet-store --bench tree_cost -- [rows]`
//!
//! Keys are 16 random bytes and values 64, except for the memory figures, which also measure
//! 21-byte keys with 65-byte values. "hot" repeatedly accesses 1000 keys, "cold" all keys in random
//! order. Bytes are counted as requested and as rounded up to the size classes of mimalloc, which
//! is the allocator of the server; times are taken with the system's allocator. Every tree owns its
//! rows, as every map owns its keys and values.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use quartet_model::{LogSequence, Version};
use quartet_store::checkpoint;
use quartet_store::memory::tree::Tree;
use quartet_store::{MemoryBuilder, Position, Read, Row, Store, state_hash};

struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);
static ROUNDED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call on unchanged and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(layout.size(), Ordering::Relaxed);
        ROUNDED.fetch_add(rounded(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ASKED.fetch_sub(layout.size(), Ordering::Relaxed);
        ROUNDED.fetch_sub(rounded(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// mimalloc's size classes: steps of 16 bytes up to 64 bytes, from there four classes between
/// powers of two.
fn rounded(bytes: usize) -> usize {
    let step = if bytes <= 64 { 16 } else { bytes.next_power_of_two() / 8 };
    let step = if bytes > 64 && bytes.is_power_of_two() {
        bytes / 8
    } else {
        step
    };
    bytes.div_ceil(step) * step
}

fn main() {
    let rows = std::env::args()
        .skip(1)
        .find(|word| word != "--bench")
        .map_or(1_000_000, |rows| rows.parse().expect("a number of rows"));
    let mut random = 0x9e37_79b9_7f4a_7c15;
    let keys: Vec<[u8; 16]> = (0..rows).map(|_| key(&mut random)).collect();
    let cold = shuffled(&keys, &mut random);
    let hot: Vec<[u8; 16]> = (0..rows).map(|index| cold[index % 1_000.min(rows)]).collect();
    println!("{rows} rows of 16 + 64 bytes; nanoseconds an operation");
    println!("{:<34}{:>8}{:>10}", "", "tree", "BTreeMap");
    times(&keys, &cold, &hot);
    memory(&keys);
    streams(&keys);
}

fn times(keys: &[[u8; 16]], cold: &[[u8; 16]], hot: &[[u8; 16]]) {
    let (mut tree, mut map) = (Tree::new(), BTreeMap::new());
    let insert_tree = nanoseconds(keys, |key| tree.insert(row(key)));
    let insert_map = nanoseconds(keys, |key| map.insert(key.to_vec(), value()));
    print("insert, random", insert_tree, insert_map);
    for (name, keys) in [("hot", hot), ("cold", cold)] {
        let get_tree = nanoseconds(keys, |key| tree.get(key).map(|row| row.value()[0]));
        let get_map = nanoseconds(keys, |key| map.get(&key[..]).map(|value| value[0]));
        print(&format!("get, {name}"), get_tree, get_map);
        let replace_tree = nanoseconds(keys, |key| tree.insert(row(key)));
        let replace_map = nanoseconds(keys, |key| map.insert(key.to_vec(), value()));
        print(&format!("replace, {name}"), replace_tree, replace_map);
    }
    let scan_tree = tree.rows().map(|row| u64::from(row.key()[0])).sum::<u64>();
    assert_eq!(scan_tree, map.keys().map(|key| u64::from(key[0])).sum::<u64>());
    together(&mut tree, cold);
    with_snapshots(&mut tree, cold);
    let rank = nanoseconds(cold, |key| tree.rank(key));
    let remove_tree = nanoseconds(cold, |key| tree.remove(key));
    let remove_map = nanoseconds(cold, |key| map.remove(&key[..]));
    print("remove, cold", remove_tree, remove_map);
    println!("{:<34}{rank:>8.0}", "rank, cold");
}

/// Operates on ten keys at a time after descending to all of them together, as for the keys of a
/// request or a transaction.
fn together(tree: &mut Tree, cold: &[[u8; 16]]) {
    let tens: Vec<Vec<&[u8]>> = cold
        .chunks(10)
        .map(|ten| ten.iter().map(<[u8; 16]>::as_slice).collect())
        .collect();
    let mut place = 0;
    let mut fetch = |tree: &Tree| {
        if place % 10 == 0 {
            tree.fetch(&tens[place / 10], &mut |_| ());
        }
        place = (place + 1) % cold.len();
    };
    let get = nanoseconds(cold, |key| {
        fetch(tree);
        tree.get(key).map(|row| row.value()[0])
    });
    println!("{:<34}{get:>8.0}", "get, cold, ten together");
    let replace = nanoseconds(cold, |key| {
        fetch(tree);
        tree.insert(row(key))
    });
    println!("{:<34}{replace:>8.0}", "replace, cold, ten together");
}

/// Replaces rows while snapshots are held: one taken at the start, and a new one every 100 writes.
fn with_snapshots(tree: &mut Tree, cold: &[[u8; 16]]) {
    let snapshot = tree.clone();
    let (first, remaining) = cold.split_at(cold.len() / 10);
    let first = nanoseconds(first, |key| tree.insert(row(key)));
    let nanos = nanoseconds(remaining, |key| tree.insert(row(key)));
    drop(snapshot);
    println!("{:<34}{first:>8.0}", "replace, cold, snapshot: first 10%");
    println!("{:<34}{nanos:>8.0}", "replace, cold, snapshot: the rest");
    let (mut snapshot, mut writes) = (tree.clone(), 0);
    let often = nanoseconds(cold, |key| {
        writes += 1;
        if writes % 100 == 0 {
            snapshot = tree.clone();
        }
        tree.insert(row(key))
    });
    drop(snapshot);
    println!("{:<34}{often:>8.0}", "replace, cold, snapshot every 100");
}

fn memory(keys: &[[u8; 16]]) {
    println!("\nbytes a row: asked for, and in mimalloc's size classes");
    let weigh = |name: &str, fill: &dyn Fn() -> Box<dyn std::any::Any>| {
        let before = [&ASKED, &ROUNDED].map(|bytes| bytes.load(Ordering::Relaxed));
        let filled = fill();
        let after = [&ASKED, &ROUNDED].map(|bytes| bytes.load(Ordering::Relaxed));
        let [requested, rounded] = [0, 1].map(|index| (after[index] - before[index]) as f64 / keys.len() as f64);
        println!("{name:<34}{requested:>8.1}{rounded:>10.1}");
        drop(filled);
    };
    let long = |key: &[u8; 16]| Row::from_parts(b"user:", &[key], &[&[7; 65]], Version(1));
    weigh("16 + 64, random inserts", &|| Box::new(filled(keys.iter().map(row))));
    weigh("21 + 65, random inserts", &|| Box::new(filled(keys.iter().map(long))));
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    weigh("21 + 65, ascending inserts", &|| {
        Box::new(filled(sorted.iter().map(long)))
    });
    weigh("21 + 65, loaded", &|| {
        Box::new(Tree::from_sorted(sorted.iter().map(long)))
    });
    weigh("BTreeMap, 16 + 64, random inserts", &|| {
        Box::new(
            keys.iter()
                .map(|key| (key.to_vec(), value()))
                .fold(BTreeMap::new(), |mut map, (key, value)| {
                    map.insert(key, value);
                    map
                }),
        )
    });
}

fn streams(keys: &[[u8; 16]]) {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let mut builder = MemoryBuilder::new();
    sorted.iter().for_each(|key| builder.push(row(key)));
    let snapshot = builder.finish().snapshot();
    let position = Position {
        version: Version(1),
        sequence: LogSequence(1),
    };
    let mut bytes = Vec::new();
    println!("\nseconds for all rows");
    seconds("state hash", || state_hash(&snapshot, None));
    seconds("checkpoint written to memory", || {
        checkpoint::write(snapshot.clone(), position, &mut bytes, &mut |_| {}).expect("a vector takes all bytes")
    });
    seconds("checkpoint read into a store", || {
        let mut builder = MemoryBuilder::new();
        let mut input = bytes.as_slice();
        checkpoint::read(&mut input, &mut |row| builder.push(row), &mut |_| {}).expect("an undamaged checkpoint");
        assert_eq!(builder.finish().len(), snapshot.len());
    });
}

fn filled(rows: impl Iterator<Item = Row>) -> Tree {
    let mut tree = Tree::new();
    rows.for_each(|row| drop(tree.insert(row)));
    tree
}

fn row(key: &[u8; 16]) -> Row {
    Row::new(key, &[7; 64], Version(1))
}

fn value() -> Vec<u8> {
    vec![7; 64]
}

fn key(random: &mut u64) -> [u8; 16] {
    let (high, low) = (next(random), next(random));
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

fn shuffled(keys: &[[u8; 16]], random: &mut u64) -> Vec<[u8; 16]> {
    let mut keys = keys.to_vec();
    for last in (1..keys.len()).rev() {
        keys.swap(last, (next(random) % (last as u64 + 1)) as usize);
    }
    keys
}

/// The next number of a xorshift generator.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

fn nanoseconds<T>(keys: &[[u8; 16]], mut operation: impl FnMut(&[u8; 16]) -> T) -> f64 {
    let start = Instant::now();
    keys.iter().for_each(|key| drop(black_box(operation(key))));
    start.elapsed().as_nanos() as f64 / keys.len() as f64
}

fn seconds<T>(name: &str, operation: impl FnOnce() -> T) {
    let start = Instant::now();
    drop(black_box(operation()));
    println!("{name:<34}{:>8.2}", start.elapsed().as_secs_f64());
}

fn print(name: &str, tree: f64, map: f64) {
    println!("{name:<34}{tree:>8.0}{map:>10.0}");
}
