//! Estimates: how large a range is, and where to cut it into pieces. From the counts that the store
//! keeps and a sample of rows, so the cost does not grow with the range.

use quartet_engine::{Reader, Transaction};

/// Number of rows, spread evenly over the range, that represent all.
const SAMPLE_ROWS: u64 = 100;
/// Most points of one answer.
const POINTS_MAX: u64 = 100_000;
/// Most bytes of them: fewer points cut the range into larger pieces.
const POINTS_BYTES_MAX: usize = 4 << 20;

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

/// `begin`, keys that cut the range into pieces of about `piece_bytes`, and `end`. At most `limit`
/// keys in between.
pub(crate) fn split_points(reader: &Reader, begin: &[u8], end: &[u8], piece_bytes: u64, limit: u32) -> Vec<Vec<u8>> {
    let rows = reader.count(begin, end);
    let pieces = estimated_bytes(reader, begin, end) / piece_bytes.max(1);
    let mut points = pieces.min(rows).min(POINTS_MAX).saturating_sub(1).min(u64::from(limit));
    let between = loop {
        match points_between(reader, begin, end, rows, points) {
            Some(between) => break between,
            None => points /= 2,
        }
    };
    std::iter::once(begin.to_vec())
        .chain(between)
        .chain([end.to_vec()])
        .collect()
}

/// `None` if they are too long together.
fn points_between(reader: &Reader, begin: &[u8], end: &[u8], rows: u64, points: u64) -> Option<Vec<Vec<u8>>> {
    let mut bytes = 0;
    (1..=points)
        .filter_map(|point| reader.nth(begin, end, point * rows / (points + 1)))
        .map(|row| Transaction::layer_key(&row).to_vec())
        .filter(|key| key.as_slice() > begin)
        .map(|key| {
            bytes += key.len();
            (bytes <= POINTS_BYTES_MAX).then_some(key)
        })
        .collect()
}
