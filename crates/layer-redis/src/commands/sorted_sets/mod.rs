//! Sorted sets: members with a score each, in the order of score, then member.
//!
//! [`value`] defines the storage, `members` reads and changes single members, `range` queries by
//! index, score or name, `pop` removes from either end and may block, `algebra` combines several.
//! This file is their table.

mod algebra;
mod members;
mod pop;
mod range;
mod value;

#[cfg(test)]
mod tests;

pub(crate) use members::{Conditions, add, read};
pub(crate) use value::{SortedSet, order_of, score_bound};
pub use value::{encoding, members, pairs, replace, score_of_bytes};

use crate::handler::definition::*;

/// Keys up to the timeout, the last argument.
const KEYS_THEN_TIMEOUT: Keys = Keys::Range {
    first: 1,
    last: -2,
    step: 1,
};

const fn counted(count: usize, also: usize) -> Keys {
    Keys::Counted { count, also }
}

const FAMILY: Family = Family::of(Group::SortedSet)
    .keys(ONE_KEY)
    .since("1.2.0")
    .complexity("O(log N)");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("zadd", -4, WRITE | DENYOOM | FAST, "Adds members to a sorted set or changes their scores.", Answers(members::zadd)).complexity("O(log N) for each member"),
    FAMILY.row("zincrby", 4, WRITE | DENYOOM | FAST, "Adds to the score of a member.", Answers(members::zincrby)),
    FAMILY.row("zrem", -3, WRITE | FAST, "Removes members; the key goes with the last one.", Answers(members::zrem)).complexity("O(log N) for each member"),
    FAMILY.row("zscore", 3, READONLY | FAST, "Returns the score of a member.", Answers(members::zscore)).complexity("O(1)"),
    FAMILY.row("zmscore", -3, READONLY | FAST, "Returns the scores of several members.", Answers(members::zmscore)).since("6.2.0").complexity("O(1) for each member"),
    FAMILY.row("zcard", 2, READONLY | FAST, "Returns how many members a sorted set has.", Answers(members::zcard)).complexity("O(1)"),
    FAMILY.row("zrank", -3, READONLY | FAST, "Returns the index of a member, counted from the lowest score.", Answers(members::zrank)).since("2.0.0"),
    FAMILY.row("zrevrank", -3, READONLY | FAST, "Returns the index of a member, counted from the highest score.", Answers(members::zrevrank)).since("2.0.0"),
    FAMILY.row("zrandmember", -2, READONLY, "Returns members picked at random.", Answers(members::zrandmember)).since("6.2.0").complexity("O(log N) for each member returned"),
    FAMILY.row("zscan", -3, READONLY, "Iterates over members and scores.", Answers(members::zscan)).since("2.8.0").complexity("O(1) for each call, O(N) for a whole iteration"),
    FAMILY.row("zcount", 4, READONLY | FAST, "Counts the members within a range of scores.", Answers(range::zcount)).since("2.0.0"),
    FAMILY.row("zlexcount", 4, READONLY | FAST, "Counts the members within a range of names, scores being equal.", Answers(range::zlexcount)).since("2.8.9"),
    FAMILY.row("zrange", -4, READONLY | KNOWS_SIZE, "Returns the members within a range of indexes, scores or names.", Answers(range::zrange)).complexity("O(log N + M) with M members returned"),
    FAMILY.row("zrangestore", -5, WRITE | DENYOOM, "Stores the members within a range under another key.", Answers(range::zrangestore)).keys(TWO_KEYS).since("6.2.0").complexity("O(log N + M) with M members stored"),
    FAMILY.row("zrevrange", -4, READONLY | KNOWS_SIZE, "Returns the members within a range of indexes, highest score first.", Answers(range::zrevrange)).complexity("O(log N + M) with M members returned"),
    FAMILY.row("zrangebyscore", -4, READONLY | KNOWS_SIZE, "Returns the members within a range of scores.", Answers(range::zrangebyscore)).since("1.0.5").complexity("O(log N + M) with M members returned"),
    FAMILY.row("zrevrangebyscore", -4, READONLY | KNOWS_SIZE, "Returns the members within a range of scores, highest first.", Answers(range::zrevrangebyscore)).since("2.2.0").complexity("O(log N + M) with M members returned"),
    FAMILY.row("zrangebylex", -4, READONLY | KNOWS_SIZE, "Returns the members within a range of names, scores being equal.", Answers(range::zrangebylex)).since("2.8.9").complexity("O(log N + M) with M members returned"),
    FAMILY.row("zrevrangebylex", -4, READONLY | KNOWS_SIZE, "Returns the members within a range of names, last first.", Answers(range::zrevrangebylex)).since("2.8.9").complexity("O(log N + M) with M members returned"),
    FAMILY.row("zremrangebyrank", 4, WRITE, "Removes the members within a range of indexes.", Answers(range::zremrangebyrank)).since("2.0.0").complexity("O(M log N) with M members removed"),
    FAMILY.row("zremrangebyscore", 4, WRITE, "Removes the members within a range of scores.", Answers(range::zremrangebyscore)).complexity("O(M log N) with M members removed"),
    FAMILY.row("zremrangebylex", 4, WRITE, "Removes the members within a range of names, scores being equal.", Answers(range::zremrangebylex)).since("2.8.9").complexity("O(M log N) with M members removed"),
    FAMILY.row("zpopmin", -2, WRITE | FAST, "Removes and returns the members with the lowest scores.", Answers(pop::zpopmin)).since("5.0.0").complexity("O(M log N) with M members removed"),
    FAMILY.row("zpopmax", -2, WRITE | FAST, "Removes and returns the members with the highest scores.", Answers(pop::zpopmax)).since("5.0.0").complexity("O(M log N) with M members removed"),
    FAMILY.row("bzpopmin", -3, WRITE | FAST | BLOCKING, "Pops the lowest member of the first key that has one, and waits if none has.", Decides(pop::bzpopmin)).keys(KEYS_THEN_TIMEOUT).since("5.0.0"),
    FAMILY.row("bzpopmax", -3, WRITE | FAST | BLOCKING, "Pops the highest member of the first key that has one, and waits if none has.", Decides(pop::bzpopmax)).keys(KEYS_THEN_TIMEOUT).since("5.0.0"),
    FAMILY.row("zmpop", -4, WRITE | MOVABLE_KEYS, "Pops members of the first key that has some.", Answers(pop::zmpop)).keys(counted(1, 0)).since("7.0.0").complexity("O(K + M log N) with K keys and M members removed"),
    FAMILY.row("bzmpop", -5, WRITE | BLOCKING | MOVABLE_KEYS, "Pops members of the first key that has some, and waits if none has.", Decides(pop::bzmpop)).keys(counted(2, 0)).since("7.0.0").complexity("O(K + M log N) with K keys and M members removed"),
    FAMILY.row("zunion", -3, READONLY | MOVABLE_KEYS | KNOWS_SIZE, "Returns the union of sorted sets and sets.", Answers(algebra::zunion)).keys(counted(1, 0)).since("6.2.0").complexity("O(N + M log M) with N members read and M returned"),
    FAMILY.row("zunionstore", -4, WRITE | DENYOOM | MOVABLE_KEYS, "Stores the union of sorted sets and sets.", Answers(algebra::zunionstore)).keys(counted(2, 1)).since("2.0.0").complexity("O(N + M log M) with N members read and M stored"),
    FAMILY.row("zinter", -3, READONLY | MOVABLE_KEYS | KNOWS_SIZE, "Returns the intersection of sorted sets and sets.", Answers(algebra::zinter)).keys(counted(1, 0)).since("6.2.0").complexity("O(N K + M log M) with N members in the smallest of K keys and M returned"),
    FAMILY.row("zinterstore", -4, WRITE | DENYOOM | MOVABLE_KEYS, "Stores the intersection of sorted sets and sets.", Answers(algebra::zinterstore)).keys(counted(2, 1)).since("2.0.0").complexity("O(N K + M log M) with N members in the smallest of K keys and M stored"),
    FAMILY.row("zintercard", -3, READONLY | MOVABLE_KEYS | KNOWS_SIZE, "Counts the members of an intersection, up to a limit.", Answers(algebra::zintercard)).keys(counted(1, 0)).since("7.0.0").complexity("O(N K) with N members in the smallest of K keys"),
    FAMILY.row("zdiff", -3, READONLY | MOVABLE_KEYS | KNOWS_SIZE, "Returns the members of the first key that no other key has.", Answers(algebra::zdiff)).keys(counted(1, 0)).since("6.2.0").complexity("O(N K + M log M) with N members in the first of K keys and M returned"),
    FAMILY.row("zdiffstore", -4, WRITE | DENYOOM | MOVABLE_KEYS, "Stores the members of the first key that no other key has.", Answers(algebra::zdiffstore)).keys(counted(2, 1)).since("6.2.0").complexity("O(N K + M log M) with N members in the first of K keys and M stored"),
];
