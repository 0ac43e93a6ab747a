//! Any dump of a sketch is a sketch or an error, and a sketch that was read can be used: it takes
//! an item, answers, and its own dump gives it again. The same of the headers of BF.SCANDUMP and
//! CF.SCANDUMP, and of stored heads.
//!
//! The first byte chooses the family and what the rest is.
#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use quartet_redis_sketches::dump::{self, Head};
use quartet_redis_sketches::t_digest::Digest;
use quartet_redis_sketches::top_k::Items;
use quartet_redis_sketches::{Space, bloom, cuckoo};
use quartet_wire_rdb as rdb;
use quartet_wire_rdb::sketch::SketchKind;

/// Spaces larger than this are not read whole.
const BYTES_MAX: u64 = 1 << 20;

/// A space that takes memory for what was written.
#[derive(Default)]
struct Sparse {
    bytes: HashMap<u64, u8>,
    items: HashMap<u32, Vec<u8>>,
}

impl Space for Sparse {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        for (index, byte) in into.iter_mut().enumerate() {
            *byte = self.bytes.get(&(at + index as u64)).copied().unwrap_or(0);
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            self.bytes.insert(at + index as u64, *byte);
        }
    }
}

impl Items for Sparse {
    fn item(&mut self, number: u32) -> Vec<u8> {
        self.items.get(&number).cloned().unwrap_or_default()
    }

    fn set_item(&mut self, number: u32, item: &[u8]) {
        self.items.insert(number, item.to_vec());
    }
}

fn use_it(mut head: Head, storage: &mut Sparse) {
    assert_eq!(Head::from_bytes(head.kind(), &head.to_bytes()).as_ref(), Ok(&head));
    if head.space_bytes() > BYTES_MAX {
        return;
    }
    match &mut head {
        Head::Bloom(chain) => {
            let added = chain.add(storage, b"item", &mut |link| link.bytes <= BYTES_MAX);
            assert!(added.is_err() || chain.contains(storage, b"item"));
        }
        Head::Cuckoo(cuckoo) => {
            let added = cuckoo.add(storage, b"item", false, &mut |bytes| bytes <= BYTES_MAX);
            assert!(added.is_err() || cuckoo.contains(storage, b"item"));
            cuckoo.delete(storage, b"item");
            cuckoo.compact(storage, true);
        }
        Head::CountMin(matrix) => {
            let count = matrix.add(storage, b"item", 3);
            assert_eq!(matrix.query(storage, b"item"), count);
        }
        Head::TopK(list) => {
            list.add(storage, b"item", 3, &mut || 0.5);
            list.count(storage, b"item");
            list.list(storage);
        }
        Head::TDigest(digest) => {
            let _ = digest.add(storage, 1.5);
            let mut whole = Digest::read(*digest, storage);
            whole.compress();
            whole.quantiles(&[0.0, 0.5, 1.0]);
            whole.share_up_to(1.0);
            whole.trimmed_mean(0.1, 0.9);
            whole.by_rank(1.0, true);
        }
    }
    let sketch = head.dump(storage);
    let again = dump::restore(sketch).expect("the dump of a sketch");
    assert_eq!(again.head.kind(), head.kind());
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    let mut storage = Sparse::default();
    let kinds = [
        SketchKind::Bloom,
        SketchKind::Cuckoo,
        SketchKind::CountMin,
        SketchKind::TopK,
        SketchKind::TDigest,
    ];
    match choice % 8 {
        kind @ 0..5 => {
            if let Ok(head) = Head::from_bytes(kinds[usize::from(kind)], data) {
                use_it(head, &mut storage);
            }
        }
        5 => {
            if let Ok(chain) = bloom::Chain::from_header(data) {
                use_it(Head::Bloom(chain), &mut storage);
            }
        }
        6 => {
            if let Ok(cuckoo) = cuckoo::Cuckoo::from_header(data) {
                use_it(Head::Cuckoo(cuckoo), &mut storage);
            }
        }
        _ => {
            let payload = rdb::seal(data.to_vec());
            let Ok(rdb::value::Value::Sketch(sketch)) = rdb::value::restore(&payload) else {
                return;
            };
            if let Ok(restored) = dump::restore(sketch) {
                for (at, piece) in &restored.pieces {
                    if restored.head.space_bytes() <= BYTES_MAX {
                        storage.write(*at, piece);
                    }
                }
                restored.items.iter().for_each(|(number, item)| storage.set_item(*number, item));
                use_it(restored.head, &mut storage);
            }
        }
    }
});
