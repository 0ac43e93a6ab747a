//! The limit of the tree's files in relation to their live content, and the choice of files to be
//! emptied to keep it.
//!
//! Each flush leaves dead bytes of the nodes that it has replaced all over the older files. The
//! live bytes of a file can be rewritten, so that the file can be removed: the fewer there are, the
//! cheaper. Three rules apply:
//!
//! - The looser the files may be, the fewer live bytes are in the emptiest of them. Random
//!   overwriting of a tree with files of 13/8 of its live size moves about half as many bytes as it
//!   writes.
//! - While a flush runs, its written and moved bytes coexist with all old files, which are removed
//!   only afterwards. So a flush that writes much must start with tighter files: the next flush is
//!   expected to write as much as this one.
//! - No flush shall pay for many others: writes wait for it in the end. So each empties about as
//!   much as it has left dead, and a flush that has written little moves little, except the first
//!   after a busy time, which frees nearly everything.

use std::collections::{BTreeMap, BTreeSet};

use super::root::Use;

/// Bytes that files may always take, however little of them is needed.
pub(super) const SLACK_BYTES: u64 = 64 << 10;
/// After a flush, dead bytes are at most this multiple of its written bytes, unless a sixteenth of
/// the tree is more.
const FLUSHES_KEPT: u64 = 64;
/// A flush of a large tree does not empty more than this ahead of need.
const AHEAD_BYTES_MAX: u64 = 1 << 30;

/// The condition on which files are emptied, and the extent.
struct Bound {
    most_bytes: u64,
    goal_bytes: u64,
}

impl Bound {
    /// Returns the bound after a flush that has written `written` bytes of a tree that needs `live`
    /// bytes.
    fn after(written: u64, live: u64) -> Bound {
        let written_share = written.saturating_mul(FLUSHES_KEPT).clamp(live / 16, live / 8 * 5);
        let for_the_next = (live + live / 4).saturating_sub(written + written / 2);
        let unneeded = written_share.min(for_the_next.max(live / 8));
        Bound {
            most_bytes: live + unneeded + SLACK_BYTES,
            goal_bytes: live + unneeded - (unneeded / 8).min(AHEAD_BYTES_MAX),
        }
    }
}

/// Returns the files to be emptied after a flush that has written `written_bytes`: the emptiest,
/// and as few as suffice.
pub(super) fn to_be_emptied(uses: &BTreeMap<u32, Use>, written_bytes: u64) -> BTreeSet<u32> {
    let mut bytes: u64 = uses.values().map(Use::needed_bytes).sum();
    let live: u64 = uses.values().map(|usage| usage.live_bytes).sum();
    let bound = Bound::after(written_bytes, live);
    let mut chosen = BTreeSet::new();
    if bytes <= bound.most_bytes {
        return chosen;
    }
    let mut emptiest: Vec<(&u32, &Use)> = uses.iter().filter(|(_, usage)| usage.live_bytes > 0).collect();
    emptiest.sort_by_key(|(_, usage)| usage.live_bytes.saturating_mul(1000) / usage.bytes.max(1));
    for (number, usage) in emptiest {
        if bytes <= bound.goal_bytes {
            break;
        }
        bytes -= usage.bytes - usage.live_bytes;
        chosen.insert(*number);
    }
    chosen
}

/// Returns true if a flush that has nothing to write would give back noticeably much.
pub(super) fn is_loose(bytes: u64, live_bytes: u64) -> bool {
    bytes > Bound::after(0, live_bytes).most_bytes
}
