//! Places: sorted sets whose scores are longitude and latitude, interleaved.
//!
//! [`hash`] turns places into scores and back, [`shape`] knows distances and what covers a circle,
//! a box or a polygon; the commands are in [`points`] and [`search`]. A search costs the ranges of
//! scores that its shape covers, not the whole set.

mod hash;
mod points;
mod search;
mod shape;
#[cfg(test)]
mod tests;

use crate::handler::definition::*;

const RADIUS_KEYS: Keys = Keys::Computed(
    search::key_positions,
    &[SEARCHED, stored("STORE", 6), stored("STOREDIST", 6)],
);
const RADIUS_KEYS_BY_MEMBER: Keys = Keys::Computed(
    search::key_positions,
    &[SEARCHED, stored("STORE", 5), stored("STOREDIST", 5)],
);
const SEARCHED: Specification = Specification::new("RO access", Begin::Index(1), Find::ONE);

const fn stored(keyword: &'static str, from: i32) -> Specification {
    Specification::new("OW update", Begin::Keyword(keyword, from), Find::ONE)
}

const FAMILY: Family = Family::of(Group::Geo)
    .keys(ONE_KEY)
    .since("3.2.0")
    .complexity("O(log N + M) with M places in the cells that cover the circle");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("geoadd", -5, WRITE | DENYOOM, "Adds places to a set.", Answers(points::geoadd)).complexity("O(log N) for each place"),
    FAMILY.row("geodist", -4, READONLY, "Returns the distance between two places of a set.", Answers(points::geodist)).complexity("O(log N)"),
    FAMILY.row("geohash", -2, READONLY, "Returns the geohashes of members.", Answers(points::geohash)).complexity("O(log N) for each member"),
    FAMILY.row("geopos", -2, READONLY, "Returns the longitudes and latitudes of members.", Answers(points::geopos)).complexity("O(log N) for each member"),
    FAMILY.row("georadius", -6, WRITE | DENYOOM | MOVABLE_KEYS, "Finds, and may store, the places within a circle.", Answers(search::georadius)).keys(RADIUS_KEYS),
    FAMILY.row("georadius_ro", -6, READONLY | KNOWS_SIZE, "Finds the places within a circle.", Answers(search::georadius_ro)).since("3.2.10"),
    FAMILY.row("georadiusbymember", -5, WRITE | DENYOOM | MOVABLE_KEYS, "Finds, and may store, the places within a circle around a member.", Answers(search::georadiusbymember)).keys(RADIUS_KEYS_BY_MEMBER),
    FAMILY.row("georadiusbymember_ro", -5, READONLY | KNOWS_SIZE, "Finds the places within a circle around a member.", Answers(search::georadiusbymember_ro)).since("3.2.10"),
    FAMILY.row("geosearch", -7, READONLY | KNOWS_SIZE, "Finds the places within a circle, a box or a polygon.", Answers(search::geosearch)).since("6.2.0").complexity("O(log N + M) with M places in the cells that cover the shape"),
    FAMILY.row("geosearchstore", -8, WRITE | DENYOOM, "Stores the places within a circle, a box or a polygon.", Answers(search::geosearchstore)).keys(TWO_KEYS).since("6.2.0").complexity("O(log N + M) with M places in the cells that cover the shape"),
];
