//! LCS: the longest common subsequence of two values, by the textbook table of lengths of all pairs
//! of prefixes.
//!
//! Only two rows of the table are kept. Walking back needs no more than which neighbour was the
//! longer one, a bit for each pair of bytes. Values whose table would not fit into 512 MB in Redis
//! are refused here too: it bounds the time.

use quartet_wire_resp::Arguments;

use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::Kind;
use crate::keyspace::string_value::{length, whole};
use crate::{command::errors, command::parse};

/// Redis' limit on its table, at four bytes a cell.
const TABLE_BYTES_MAX: u64 = 512 << 20;

/// Cells that are filled with the lock held: about a millisecond.
const CELLS_WITH_LOCK: u64 = 1 << 20;

/// Cells between two looks at the clock.
const CELLS_BETWEEN_LOOKS: u64 = 1 << 20;

#[derive(Default)]
struct Options {
    length: bool,
    indexes: bool,
    match_length: bool,
    match_length_min: i64,
}

/// A run of bytes that both values share: its last position in each, both exclusive, and its
/// length.
#[derive(Clone, Copy)]
struct Match {
    a_end: usize,
    b_end: usize,
    length: usize,
}

pub fn lcs(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let a = context.read(&arguments[1]);
    let b = context.read(&arguments[2]);
    if [&a, &b].into_iter().flatten().any(|entry| entry.kind != Kind::String) {
        return Err("ERR The specified keys must contain string values".into());
    }
    let options = options(arguments)?;
    let cells = (length(a.as_ref()) + 1) * (length(b.as_ref()) + 1);
    if cells > TABLE_BYTES_MAX / 4 {
        return Err("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len".into());
    }
    if cells > CELLS_WITH_LOCK && context.must_end_before_long() {
        return Ok(());
    }
    let (a, b) = (whole(context.tx, a.as_ref()), whole(context.tx, b.as_ref()));
    let groups = context.groups;
    let is_over = || groups.must_end(groups.engine().now_micros());
    let Some(table) = Table::of(&a, &b, !options.length, &is_over) else {
        return Ok(());
    };
    if options.length {
        context.reply.integer(i64::from(table.length));
        return Ok(());
    }
    if options.indexes {
        reply_indexes(context, &options, &table);
    } else {
        let mut matches = table.matches();
        matches.reverse();
        let pieces: Vec<&[u8]> = matches
            .iter()
            .map(|run| &a[run.a_end - run.length..run.a_end])
            .collect();
        context.reply.bulk(&pieces.concat());
    }
    Ok(())
}

fn options(arguments: Arguments<'_>) -> Result<Options, ErrorReply> {
    let mut options = Options::default();
    let mut words = arguments.iter().skip(3);
    while let Some(word) = words.next() {
        if parse::is(word, "IDX") {
            options.indexes = true;
        } else if parse::is(word, "LEN") {
            options.length = true;
        } else if parse::is(word, "WITHMATCHLEN") {
            options.match_length = true;
        } else if parse::is(word, "MINMATCHLEN") {
            options.match_length_min = parse::required_integer(words.next().ok_or(errors::SYNTAX)?)?;
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    if options.length && options.indexes {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    Ok(options)
}

fn reply_indexes(context: &mut Context<'_, '_>, options: &Options, table: &Table<'_>) {
    let mut matches = table.matches();
    matches.retain(|run| run.length as i64 >= options.match_length_min);
    let reply = &mut context.reply;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for matched in &matches {
        reply.array(2 + usize::from(options.match_length));
        for end in [matched.a_end, matched.b_end] {
            reply.array(2);
            reply.integer((end - matched.length) as i64);
            reply.integer(end as i64 - 1);
        }
        if options.match_length {
            reply.integer(matched.length as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(i64::from(table.length));
}

struct Table<'v> {
    a: &'v [u8],
    b: &'v [u8],
    length: u32,
    /// For each pair of positions: the subsequence without the byte of `a` is longer than the one
    /// without the byte of `b`.
    shorten_a: Vec<u64>,
}

impl<'v> Table<'v> {
    /// `None`: the time is over, as `is_over` said between two rows.
    fn of(a: &'v [u8], b: &'v [u8], with_directions: bool, is_over: &dyn Fn() -> bool) -> Option<Table<'v>> {
        let mut shorten_a = vec![
            0u64;
            if with_directions {
                (a.len() * b.len()).div_ceil(64)
            } else {
                0
            }
        ];
        let (mut above, mut row) = (vec![0u32; b.len() + 1], vec![0u32; b.len() + 1]);
        let mut cells = 0;
        for (i, &byte) in a.iter().enumerate() {
            cells += b.len() as u64;
            if cells > CELLS_BETWEEN_LOOKS {
                cells = 0;
                if is_over() {
                    return None;
                }
            }
            for (j, &other) in b.iter().enumerate() {
                row[j + 1] = if byte == other {
                    above[j] + 1
                } else {
                    above[j + 1].max(row[j])
                };
                if with_directions && above[j + 1] > row[j] {
                    let cell = i * b.len() + j;
                    shorten_a[cell / 64] |= 1 << (cell % 64);
                }
            }
            std::mem::swap(&mut above, &mut row);
        }
        let length = above[b.len()];
        Some(Table {
            a,
            b,
            length,
            shorten_a,
        })
    }

    /// The runs of one longest subsequence, the last one first.
    fn matches(&self) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        let mut extends = false;
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            if self.a[i - 1] != self.b[j - 1] {
                extends = false;
                let cell = (i - 1) * self.b.len() + j - 1;
                let shorten_a = self.shorten_a[cell / 64] >> (cell % 64) & 1 == 1;
                (i, j) = if shorten_a { (i - 1, j) } else { (i, j - 1) };
                continue;
            }
            match matches.last_mut() {
                Some(matched) if extends => matched.length += 1,
                _ => matches.push(Match {
                    a_end: i,
                    b_end: j,
                    length: 1,
                }),
            }
            (i, j, extends) = (i - 1, j - 1, true);
        }
        matches
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn subsequences_are_found() {
        Fixture::new().connect().check(
            "MSET a ohmytext b mynewtext => OK
             LCS a b => mytext
             LCS a b LEN => 6
             LCS a nosuch => 
             LCS a nosuch LEN => 0
             LCS a b IDX => [matches [[[4 7] [5 8]] [[2 3] [0 1]]] len 6]
             LCS a b IDX MINMATCHLEN 4 => [matches [[[4 7] [5 8]]] len 6]
             LCS a b IDX MINMATCHLEN -9223372036854775808 WITHMATCHLEN => [matches [[[4 7] [5 8] 4] [[2 3] [0 1] 2]] len 6]
             LCS a b IDX LEN => !ERR If you want both the length and indexes, please just use IDX.
             LCS a b NOSUCH => !ERR syntax error
             LCS a b MINMATCHLEN => !ERR syntax error
             LCS a b MINMATCHLEN x => !ERR value is not an integer or out of range
             SETRANGE c 20000 x => 20001
             LCS c c => !ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        );
    }
}
