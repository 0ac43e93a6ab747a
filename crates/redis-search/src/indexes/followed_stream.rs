//! How far an index on a stream has followed it.

use quartet_engine::{Transaction, UniqueId};
use quartet_wire_rdb::stream_id::{ID_BYTES, StreamId};

use super::marks::numbered;

/// The stream that an index has the entries of. Another one of the same name has another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowedStream {
    /// The id of the stream's rows.
    pub elements: UniqueId,
    /// While the index is filled: entries up to this one were looked at.
    pub looked_at: StreamId,
}

impl FollowedStream {
    pub fn read(tx: &mut Transaction<'_>, number: &UniqueId) -> Option<FollowedStream> {
        let row = tx.get(&row_key(number))?;
        let (elements, looked_at) = row.value().split_first_chunk().expect("it begins with an id");
        assert_eq!(looked_at.len(), ID_BYTES, "an entry's id follows");
        Some(FollowedStream {
            elements: *elements,
            looked_at: StreamId::from_bytes(looked_at),
        })
    }

    pub fn write(self, tx: &mut Transaction<'_>, number: &UniqueId) {
        let row = [self.elements.as_slice(), &self.looked_at.to_bytes()].concat();
        tx.set(&row_key(number), &row);
    }

    pub fn clear(tx: &mut Transaction<'_>, number: &UniqueId) {
        tx.clear(&row_key(number));
    }
}

/// The key of the row that says it of the index with this number.
pub fn row_key(number: &UniqueId) -> Vec<u8> {
    numbered(b'e', number)
}
