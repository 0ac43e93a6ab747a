//! Commands about single places: GEOADD, GEODIST, GEOHASH, GEOPOS.

use quartet_wire_resp::{Arguments, Reply};

use super::hash::Point;
use super::shape::distance_meters;
use crate::command::error_reply::ErrorReply;
use crate::commands::sorted_sets::{self, Conditions};
use crate::handler::context::Context;
use crate::{command::errors, command::parse};

pub fn geoadd(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (conditions, places) = conditions(arguments.tail(2));
    let contradict = conditions.only_new && conditions.only_existing;
    if places.is_empty() || places.len() % 3 != 0 || contradict {
        return Err(errors::SYNTAX.into());
    }
    let mut pairs = Vec::with_capacity(places.len() / 3);
    let mut words = places.iter();
    while let (Some(longitude), Some(latitude), Some(member)) = (words.next(), words.next(), words.next()) {
        pairs.push((point(longitude, latitude)?.score(), member));
    }
    sorted_sets::add(context, &arguments[1], conditions, &pairs)
}

/// Splits the arguments into the options and the places after them.
fn conditions(arguments: Arguments<'_>) -> (Conditions, Arguments<'_>) {
    let mut conditions = Conditions::default();
    let mut position = 0;
    while let Some(word) = arguments.get(position) {
        match () {
            () if parse::is(word, "nx") => conditions.only_new = true,
            () if parse::is(word, "xx") => conditions.only_existing = true,
            () if parse::is(word, "ch") => conditions.count_changed = true,
            () => break,
        }
        position += 1;
    }
    (conditions, arguments.tail(position))
}

/// A place that can be kept.
pub fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, ErrorReply> {
    let point = Point {
        longitude: parse::required_float(longitude)?,
        latitude: parse::required_float(latitude)?,
    };
    if !point.is_valid() {
        let Point { longitude, latitude } = point;
        return Err(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").into());
    }
    Ok(point)
}

pub fn unit_meters(word: &[u8]) -> Result<f64, ErrorReply> {
    match word.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err("ERR unsupported unit provided. please use M, KM, FT, MI".into()),
    }
}

pub fn geodist(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let unit_meters = match arguments.len() {
        4 => 1.0,
        5 => unit_meters(&arguments[4])?,
        _ => return Err(errors::SYNTAX.into()),
    };
    let set = sorted_sets::read(context, &arguments[1])?;
    let distance = set.and_then(|set| {
        let from = set.score(context.tx, &arguments[2])?;
        let to = set.score(context.tx, &arguments[3])?;
        Some(distance_meters(Point::of_score(from), Point::of_score(to)))
    });
    match distance {
        Some(distance) => write_distance(&mut context.reply, distance / unit_meters),
        None => context.reply.null(),
    }
    Ok(())
}

pub fn geohash(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    each_member(context, arguments, &mut |reply, point| match point {
        Some(point) => reply.bulk(&point.geohash()),
        None => reply.null(),
    })
}

pub fn geopos(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    each_member(context, arguments, &mut |reply, point| match point {
        Some(point) => write_point(reply, point),
        None => reply.null_array(),
    })
}

/// Answers an array with one reply for each member named.
fn each_member(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    write: &mut dyn FnMut(&mut Reply<'_>, Option<Point>),
) -> Result<(), ErrorReply> {
    let set = sorted_sets::read(context, &arguments[1])?;
    let members = arguments.tail(2);
    context.reply.array(members.len());
    for member in members.iter() {
        let score = set.as_ref().and_then(|set| set.score(context.tx, member));
        write(&mut context.reply, score.map(Point::of_score));
    }
    Ok(())
}

/// Writes a distance with four decimal places, halves rounded to even.
pub fn write_distance(reply: &mut Reply<'_>, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as i64;
    let sign = if scaled < 0 { "-" } else { "" };
    let scaled = scaled.unsigned_abs();
    reply.bulk(format!("{sign}{}.{:04}", scaled / 10_000, scaled % 10_000).as_bytes());
}

/// Writes longitude and latitude with up to seventeen decimal places.
pub fn write_point(reply: &mut Reply<'_>, point: Point) {
    reply.array(2);
    for coordinate in [point.longitude, point.latitude] {
        let digits = format!("{coordinate:.17}");
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        reply.decimal(if digits == "-0" { "0" } else { digits });
    }
}
