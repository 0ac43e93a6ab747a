//! Estimates: how large a range is, and where to cut it into pieces. From the counts that the store keeps and a sample of
//! rows, so the cost does not grow with the range.

use quartet_engine::{Reader, Transaction};

/// How many rows, spread evenly over the range, stand for all.
const SAMPLE_ROWS: u64 = 100;
/// Most points of one answer.
const POINTS_MAX: u64 = 100_000;

/// About how many bytes the keys and values of a range take. Exact for up to a hundred rows.
pub(crate) fn estimated_bytes(reader: &Reader, begin: &[u8], end: &[u8]) -> u64 {
    let rows = reader.count(begin, end);
    if rows == 0 {
        return 0;
    }
    let sampled = rows.min(SAMPLE_ROWS);
    let bytes: u64 = (0..sampled)
        .filter_map(|index| reader.nth(begin, end, index * rows / sampled))
        .map(|row| (Transaction::layer_key(&row).len() + row.value().len()) as u64)
        .sum();
    bytes * rows / sampled
}

/// `begin`, keys that cut the range into pieces of about `piece_bytes`, and `end`. At most `limit` keys in between.
pub(crate) fn split_points(reader: &Reader, begin: &[u8], end: &[u8], piece_bytes: u64, limit: u32) -> Vec<Vec<u8>> {
    let rows = reader.count(begin, end);
    let pieces = estimated_bytes(reader, begin, end) / piece_bytes.max(1);
    let points = pieces.min(rows).min(POINTS_MAX).saturating_sub(1).min(u64::from(limit));
    let between = (1..=points)
        .filter_map(|point| reader.nth(begin, end, point * rows / (points + 1)))
        .map(|row| Transaction::layer_key(&row).to_vec())
        .filter(|key| key.as_slice() > begin);
    std::iter::once(begin.to_vec())
        .chain(between)
        .chain([end.to_vec()])
        .collect()
}
