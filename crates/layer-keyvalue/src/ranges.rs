//! Reading a range within limits.

use std::ops::ControlFlow;

use quartet_engine::Reader;
use quartet_wire_keyvalue::{RangeReply, RangeRequest};

use crate::keys_end;
use crate::selectors::resolve;

/// Most bytes of rows in one reply, whatever the client asks for.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// What a row counts for beside its key and value.
const ROW_BYTES: usize = 8;

/// Appends the rows to `body`. True if a limit ended it.
pub(crate) fn read(reader: &Reader, request: &RangeRequest<'_>, body: &mut Vec<u8>) -> bool {
    let end_of_keys = keys_end(request.system);
    let begin = resolve(reader, &request.begin, end_of_keys);
    let end = resolve(reader, &request.end, end_of_keys);
    if begin >= end {
        return false;
    }
    let rows_max = if request.rows_max == 0 {
        u32::MAX
    } else {
        request.rows_max
    };
    let bytes_max = match request.bytes_max as usize {
        0 => REPLY_BYTES_MAX,
        bytes => bytes.min(REPLY_BYTES_MAX),
    };
    let (mut rows, mut bytes, mut limited) = (0, 0, false);
    reader.scan(&begin, &end, request.reverse, &mut |key, value| {
        RangeReply::put_row(body, key, value);
        rows += 1;
        bytes += key.len() + value.len() + ROW_BYTES;
        limited = rows >= rows_max || bytes >= bytes_max;
        if limited {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    limited
}
