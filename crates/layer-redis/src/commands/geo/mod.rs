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

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    command("geoadd", -5, WRITE | DENYOOM, ONE_KEY, Group::Geo, "3.2.0", "O(log N) for each place", "Adds places to a set.", points::geoadd),
    command("geodist", -4, READONLY, ONE_KEY, Group::Geo, "3.2.0", "O(log N)", "Returns the distance between two places of a set.", points::geodist),
    command("geohash", -2, READONLY, ONE_KEY, Group::Geo, "3.2.0", "O(log N) for each member", "Returns the geohashes of members.", points::geohash),
    command("geopos", -2, READONLY, ONE_KEY, Group::Geo, "3.2.0", "O(log N) for each member", "Returns the longitudes and latitudes of members.", points::geopos),
    command("georadius", -6, WRITE | DENYOOM | MOVABLE_KEYS, RADIUS_KEYS, Group::Geo, "3.2.0", "O(log N + M) with M places in the cells that cover the circle", "Finds, and may store, the places within a circle.", search::georadius),
    command("georadius_ro", -6, READONLY, ONE_KEY, Group::Geo, "3.2.10", "O(log N + M) with M places in the cells that cover the circle", "Finds the places within a circle.", search::georadius_ro),
    command("georadiusbymember", -5, WRITE | DENYOOM | MOVABLE_KEYS, RADIUS_KEYS_BY_MEMBER, Group::Geo, "3.2.0", "O(log N + M) with M places in the cells that cover the circle", "Finds, and may store, the places within a circle around a member.", search::georadiusbymember),
    command("georadiusbymember_ro", -5, READONLY, ONE_KEY, Group::Geo, "3.2.10", "O(log N + M) with M places in the cells that cover the circle", "Finds the places within a circle around a member.", search::georadiusbymember_ro),
    command("geosearch", -7, READONLY, ONE_KEY, Group::Geo, "6.2.0", "O(log N + M) with M places in the cells that cover the shape", "Finds the places within a circle, a box or a polygon.", search::geosearch),
    command("geosearchstore", -8, WRITE | DENYOOM, TWO_KEYS, Group::Geo, "6.2.0", "O(log N + M) with M places in the cells that cover the shape", "Stores the places within a circle, a box or a polygon.", search::geosearchstore),
];
