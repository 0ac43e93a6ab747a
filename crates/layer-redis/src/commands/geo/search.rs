//! Commands that search: GEOSEARCH, GEOSEARCHSTORE, and GEORADIUS with its kin, which they replace.

use std::cmp::Ordering;
use std::ops::Range;

use quartet_engine::Transaction;
use quartet_wire_resp::{Arguments, Reply};

use super::hash::{Point, Window};
use super::points::{point, unit_meters, write_distance, write_point};
use super::shape::{Extent, Shape, centroid};
use crate::command::error_reply::ErrorReply;
use crate::commands::sorted_sets::{self, SortedSet, order_of, score_bound};
use crate::handler::command_memory::Workspace;
use crate::handler::context::Context;
use crate::{command::errors, command::parse};

const NO_MEMBER: &str = "ERR could not decode requested zset member";
/// Number of places that a search with ANY visits between checks of its count.
const LOOKS: u64 = 64;

/// The part that a command's name has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// GEORADIUS, and whether it may store.
    Around {
        stores: bool,
    },
    /// GEORADIUSBYMEMBER, and whether it may store.
    AroundMember {
        stores: bool,
    },
    Search,
    SearchStore,
}

impl Form {
    fn is_search(self) -> bool {
        matches!(self, Form::Search | Form::SearchStore)
    }

    fn may_name_target(self) -> bool {
        matches!(
            self,
            Form::Around { stores: true } | Form::AroundMember { stores: true }
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Ascending,
    Descending,
}

/// A search's arguments, read.
#[derive(Default)]
struct Request<'a> {
    center: Option<Point>,
    /// Extent and unit in meters.
    extent: Option<(Extent, f64)>,
    with_distance: bool,
    with_hash: bool,
    with_point: bool,
    count: Option<usize>,
    /// Any places will do, up to the count.
    any: bool,
    sort: Option<Sort>,
    target: Option<&'a [u8]>,
    /// Distances are stored, not places.
    store_distance: bool,
    /// The centre is a member; unknown if its set is absent.
    by_member: bool,
}

/// The places that a search takes.
struct Wanted<'s> {
    shape: &'s Shape,
    /// Around the shape.
    window: Window,
    /// COUNT with ANY: the number of places after which the search ends.
    enough: Option<usize>,
}

/// A place that was found.
struct Found {
    member: Vec<u8>,
    score: f64,
    point: Point,
    distance_meters: f64,
}

pub fn georadius(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    search(context, arguments, Form::Around { stores: true })
}

pub fn georadius_ro(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    search(context, arguments, Form::Around { stores: false })
}

pub fn georadiusbymember(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    search(context, arguments, Form::AroundMember { stores: true })
}

pub fn georadiusbymember_ro(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    search(context, arguments, Form::AroundMember { stores: false })
}

pub fn geosearch(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    search(context, arguments, Form::Search)
}

pub fn geosearchstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    search(context, arguments, Form::SearchStore)
}

/// Positions of the keys of GEORADIUS and GEORADIUSBYMEMBER: the source, and the targets of STORE
/// and STOREDIST, which may both be given although only the last one is written.
pub fn key_positions(arguments: Arguments<'_>) -> Vec<usize> {
    let (mut stored, mut stored_with_distance) = (None, None);
    let mut position = 5;
    while position + 1 < arguments.len() {
        let word = &arguments[position];
        let target = match () {
            () if parse::is(word, "store") => Some(&mut stored),
            () if parse::is(word, "storedist") => Some(&mut stored_with_distance),
            () => None,
        };
        if let Some(target) = target {
            position += 1;
            *target = Some(position);
        }
        position += 1;
    }
    [Some(1), stored, stored_with_distance].into_iter().flatten().collect()
}

fn search(context: &mut Context<'_, '_>, arguments: Arguments<'_>, form: Form) -> Result<(), ErrorReply> {
    let source = if form == Form::SearchStore { 2 } else { 1 };
    let set = sorted_sets::read(context, &arguments[source])?;
    let request = Request::parse(context.tx, arguments, form, set.as_ref())?;
    request.check(arguments, form)?;
    let mut workspace = context.workspace();
    let members = match (set, request.shape()) {
        (Some(set), Some(shape)) => request.find(context.tx, &set, &shape, &mut workspace)?,
        _ => Vec::new(),
    };
    if context.must_end_before(members.len() as u64) {
        return Ok(());
    }
    match request.target {
        Some(target) => store(context, &request, target, &members),
        None => answer(&mut context.reply, &request, &members),
    }
    Ok(())
}

impl<'a> Request<'a> {
    fn parse(
        tx: &mut Transaction<'_>,
        arguments: Arguments<'a>,
        form: Form,
        set: Option<&SortedSet>,
    ) -> Result<Request<'a>, ErrorReply> {
        let mut request = Request::default();
        let mut options = arguments.tail(2);
        match form {
            Form::Around { .. } => {
                request.center = Some(point(&arguments[2], &arguments[3])?);
                request.extent = Some(radius(arguments.tail(4))?);
                options = arguments.tail(6);
            }
            Form::AroundMember { .. } => {
                if let Some(set) = set {
                    request.center = Some(member_point(tx, set, &arguments[2])?);
                    request.extent = Some(radius(arguments.tail(3))?);
                }
                options = arguments.tail(5);
            }
            Form::Search => {}
            Form::SearchStore => {
                request.target = arguments.get(1);
                options = arguments.tail(3);
            }
        }
        while !options.is_empty() {
            let words = 1 + request.option(tx, options, form, set)?;
            options = options.tail(words);
        }
        Ok(request)
    }

    /// Reads the option at the start of `words`. Returns how many words follow its name.
    fn option(
        &mut self,
        tx: &mut Transaction<'_>,
        words: Arguments<'a>,
        form: Form,
        set: Option<&SortedSet>,
    ) -> Result<usize, ErrorReply> {
        let (word, values) = (&words[0], words.tail(1));
        match () {
            () if parse::is(word, "withdist") => self.with_distance = true,
            () if parse::is(word, "withhash") => self.with_hash = true,
            () if parse::is(word, "withcoord") => self.with_point = true,
            () if parse::is(word, "any") => self.any = true,
            () if parse::is(word, "asc") => self.sort = Some(Sort::Ascending),
            () if parse::is(word, "desc") => self.sort = Some(Sort::Descending),
            () if parse::is(word, "count") && !values.is_empty() => {
                self.count = Some(positive_count(&values[0])?);
                return Ok(1);
            }
            () if form == Form::SearchStore && parse::is(word, "storedist") => self.store_distance = true,
            () if form.may_name_target() && !values.is_empty() && is_store(word) => {
                self.target = values.get(0);
                self.store_distance = parse::is(word, "storedist");
                return Ok(1);
            }
            () if form.is_search() => return self.search_option(tx, word, values, set),
            () => return Err(errors::SYNTAX.into()),
        }
        Ok(0)
    }

    /// Centre and extent of GEOSEARCH, each of which may be given in one of two ways; a polygon is
    /// both.
    fn search_option(
        &mut self,
        tx: &mut Transaction<'_>,
        word: &[u8],
        values: Arguments<'a>,
        set: Option<&SortedSet>,
    ) -> Result<usize, ErrorReply> {
        let is_free_for = |is_same: fn(&Extent) -> bool| self.extent.as_ref().is_none_or(|(extent, _)| is_same(extent));
        let may_be_circle = is_free_for(|extent| matches!(extent, Extent::Radius(_)));
        let may_be_box = is_free_for(|extent| matches!(extent, Extent::Box { .. }));
        let is_polygon = self.is_polygon();
        let may_be_polygon = is_polygon || self.extent.is_none() && !self.has_center();
        match () {
            () if parse::is(word, "frommember") && !values.is_empty() && !is_polygon && self.may_center_on(true) => {
                self.center = set.map(|set| member_point(tx, set, &values[0])).transpose()?;
                self.by_member = true;
                Ok(1)
            }
            () if parse::is(word, "fromlonlat") && values.len() >= 2 && !is_polygon && self.may_center_on(false) => {
                self.center = Some(point(&values[0], &values[1])?);
                Ok(2)
            }
            () if parse::is(word, "byradius") && values.len() >= 2 && may_be_circle => {
                self.extent = Some(radius(values)?);
                Ok(2)
            }
            () if parse::is(word, "bybox") && values.len() >= 3 && may_be_box => {
                self.extent = Some(rectangle(values)?);
                Ok(3)
            }
            () if parse::is(word, "bypolygon") && values.len() >= 2 && may_be_polygon => {
                let corners = polygon(values)?;
                let words = 1 + 2 * corners.len();
                self.center = Some(centroid(&corners));
                self.extent = Some((Extent::Polygon(corners), 1.0));
                Ok(words)
            }
            () => Err(errors::SYNTAX.into()),
        }
    }

    /// A centre may be given again in the same way, but not in the other.
    fn may_center_on(&self, member: bool) -> bool {
        self.by_member == member || !self.has_center()
    }

    fn is_polygon(&self) -> bool {
        matches!(self.extent, Some((Extent::Polygon(_), _)))
    }

    fn has_center(&self) -> bool {
        self.by_member || self.center.is_some()
    }

    fn check(&self, arguments: Arguments<'_>, form: Form) -> Result<(), ErrorReply> {
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_point) {
            return Err(match form {
                Form::SearchStore => {
                    "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
                }
                _ => "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            }
            .into());
        }
        let one_of = |options: &str| {
            let command = String::from_utf8_lossy(&arguments[0]);
            ErrorReply::from(format!("ERR exactly one of {options} can be specified for {command}"))
        };
        if form.is_search() && !self.has_center() {
            return Err(one_of("FROMMEMBER or FROMLONLAT"));
        }
        if form.is_search() && self.extent.is_none() {
            return Err(one_of("BYRADIUS and BYBOX"));
        }
        if self.any && self.count.is_none() {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }

    fn unit_meters(&self) -> f64 {
        self.extent.as_ref().map_or(1.0, |(_, unit_meters)| *unit_meters)
    }

    /// `None` if the centre is a member of a set that is absent.
    fn shape(&self) -> Option<Shape> {
        let (extent, unit_meters) = self.extent.clone()?;
        Some(Shape {
            center: self.center?,
            extent,
            unit_meters,
        })
    }

    /// Returns the places to answer, in their order. COUNT takes the nearest, unless the furthest
    /// or any are asked for.
    fn find(
        &self,
        tx: &mut Transaction<'_>,
        set: &SortedSet,
        shape: &Shape,
        workspace: &mut Workspace<'_>,
    ) -> Result<Vec<Found>, ErrorReply> {
        let wanted = Wanted {
            shape,
            window: shape.window(),
            enough: self.count.filter(|_| self.any),
        };
        let mut members = Vec::new();
        for cell in shape.cells() {
            if wanted.enough.is_some_and(|enough| members.len() >= enough) {
                break;
            }
            wanted.find_between(tx, set, cell.scores(), &mut members, workspace)?;
        }
        let compare_distances = |first: &Found, other: &Found| first.distance_meters.total_cmp(&other.distance_meters);
        let nearest_first = self.count.is_some() && !self.any;
        match self.sort.or(nearest_first.then_some(Sort::Ascending)) {
            Some(Sort::Ascending) => members.sort_by(compare_distances),
            Some(Sort::Descending) => {
                members.sort_by(|first, other| Ordering::reverse(compare_distances(first, other)))
            }
            None => {}
        }
        members.truncate(self.count.unwrap_or(usize::MAX));
        Ok(members)
    }
}

impl Wanted<'_> {
    /// Adds the places within the shape with a score in the range, until there are enough.
    fn find_between(
        &self,
        tx: &mut Transaction<'_>,
        set: &SortedSet,
        scores: Range<f64>,
        members: &mut Vec<Found>,
        workspace: &mut Workspace<'_>,
    ) -> Result<(), ErrorReply> {
        let Wanted { shape, window, enough } = *self;
        let mut outcome = Ok(());
        let rank = |tx: &mut Transaction<'_>, score: f64| set.rank(tx, &score_bound(order_of(score)));
        let (mut start, end) = (rank(tx, scores.start), rank(tx, scores.end));
        while start < end {
            let next = enough.map_or(end, |_| end.min(start + LOOKS));
            set.visit(tx, start..next, false, &mut |member, score| {
                if !window.holds(score) {
                    return;
                }
                let point = Point::of_score(score);
                let is_enough = enough.is_some_and(|enough| members.len() >= enough);
                if let Some(distance_meters) = shape.distance_within(point).filter(|_| !is_enough && outcome.is_ok()) {
                    outcome = workspace.take(member.len() + 2 * size_of::<Found>());
                    members.push(Found {
                        member: member.to_vec(),
                        score,
                        point,
                        distance_meters,
                    });
                }
            });
            start = next;
            if outcome.is_err() || enough.is_some_and(|enough| members.len() >= enough) {
                break;
            }
        }
        outcome
    }
}

fn is_store(word: &[u8]) -> bool {
    parse::is(word, "store") || parse::is(word, "storedist")
}

fn positive_count(word: &[u8]) -> Result<usize, ErrorReply> {
    let count = parse::required_integer(word)?;
    let count = usize::try_from(count).ok().filter(|&count| count > 0);
    count.ok_or("ERR COUNT must be > 0".into())
}

fn member_point(tx: &mut Transaction<'_>, set: &SortedSet, member: &[u8]) -> Result<Point, ErrorReply> {
    let score = set.score(tx, member).ok_or(NO_MEMBER)?;
    Ok(Point::of_score(score))
}

/// `radius unit`
fn radius(words: Arguments<'_>) -> Result<(Extent, f64), ErrorReply> {
    let radius = parse::float(&words[0]).ok_or("ERR need numeric radius")?;
    if radius < 0.0 {
        return Err("ERR radius cannot be negative".into());
    }
    Ok((Extent::Radius(radius), unit_meters(&words[1])?))
}

/// `width height unit`
fn rectangle(words: Arguments<'_>) -> Result<(Extent, f64), ErrorReply> {
    let width = parse::float(&words[0]).ok_or("ERR need numeric width")?;
    let height = parse::float(&words[1]).ok_or("ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err("ERR height or width cannot be negative".into());
    }
    Ok((Extent::Box { width, height }, unit_meters(&words[2])?))
}

/// `count longitude latitude ...`
fn polygon(words: Arguments<'_>) -> Result<Vec<Point>, ErrorReply> {
    let count = parse::integer(&words[0]).and_then(|count| i32::try_from(count).ok());
    let count = count.ok_or("ERR invalid number of vertices")?;
    let count = usize::try_from(count)
        .ok()
        .filter(|&count| count >= 3 && count <= (words.len() - 1) / 2)
        .ok_or("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices")?;
    let corners = (0..count).map(|index| point(&words[1 + 2 * index], &words[2 + 2 * index]));
    corners.collect()
}

/// Replies members, each with the requested extras.
fn answer(reply: &mut Reply<'_>, request: &Request<'_>, members: &[Found]) {
    let extras = [request.with_distance, request.with_hash, request.with_point];
    let extra_count = extras.into_iter().filter(|&is_requested| is_requested).count();
    let unit_meters = request.unit_meters();
    reply.array(members.len());
    for place in members {
        if extra_count > 0 {
            reply.array(1 + extra_count);
        }
        reply.bulk(&place.member);
        if request.with_distance {
            write_distance(reply, place.distance_meters / unit_meters);
        }
        if request.with_hash {
            reply.integer(place.score as i64);
        }
        if request.with_point {
            write_point(reply, place.point);
        }
    }
}

/// Replaces the target by a sorted set of the result; removes it if the result is empty.
fn store(context: &mut Context<'_, '_>, request: &Request<'_>, target: &[u8], members: &[Found]) {
    let unit_meters = request.unit_meters();
    let pairs: Vec<(Vec<u8>, f64)> = members
        .iter()
        .map(|place| match request.store_distance {
            true => (place.member.clone(), place.distance_meters / unit_meters),
            false => (place.member.clone(), place.score),
        })
        .collect();
    let config = context.config();
    sorted_sets::replace(&mut context.keys(), config, target, &pairs);
    context.reply.integer(pairs.len() as i64);
}
