//! Shapes: points and polygons with holes, as well-known text, and the relations between them.
//!
//! On the sphere the sides of a polygon are arcs of great circles. Both shapes are projected from
//! the centre of the sphere onto a plane that touches it, where such arcs are straight, and
//! compared there. Shapes that reach over more than half of the sphere are compared as they are in
//! degrees.

use robust::{Coord, orient2d};

use crate::encoding::{Cursor, push_number};

/// Most points of a shape: they are compared with each other.
pub const POINTS_MAX: usize = 1000;

/// Points that are farther from a projection's centre than the angle with this cosine have no
/// place in it.
const COSINE_MIN: f64 = 0.02;

/// The space of coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// A plane.
    Flat,
    /// Longitude and latitude, in degrees.
    Spherical,
}

impl System {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            System::Flat => "FLAT",
            System::Spherical => "SPHERICAL",
        }
    }
}

/// The relation of a document's shape to that of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// All of it is in the query's.
    Within,
    /// All of the query's is in it.
    Contains,
    /// They have a point in common.
    Intersects,
    /// They have none.
    Disjoint,
}

impl Relation {
    /// The relation of this name, in any case.
    pub fn of_name(name: &[u8]) -> Option<Relation> {
        Some(match name.to_ascii_uppercase().as_slice() {
            b"WITHIN" => Relation::Within,
            b"CONTAINS" => Relation::Contains,
            b"INTERSECTS" => Relation::Intersects,
            b"DISJOINT" => Relation::Disjoint,
            _ => return None,
        })
    }
}

/// A point, or a polygon: its outer ring and those of its holes. A ring does not repeat its first
/// point.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A point.
    Point(Point),
    /// A polygon.
    Polygon(Vec<Vec<Point>>),
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// To the right, or longitude.
    pub x: f64,
    /// Up, or latitude.
    pub y: f64,
}

impl Shape {
    /// Reads well-known text. The error is the original's, or says what is wrong.
    pub fn parse(text: &[u8], system: System) -> Result<Shape, String> {
        let text = std::str::from_utf8(text).map_err(|_| "unknown geometry type")?;
        let shape = Parser::new(text).shape()?;
        let invalid = |reason: &str| format!("invalid geometry: Geometry has {reason}");
        if !shape.points().all(|point| point.x.is_finite() && point.y.is_finite()) {
            return Err(invalid("point(s) with invalid coordinate(s)"));
        }
        let projected = Center::of(shape.points()).filter(|_| system == System::Spherical);
        let projected = projected.and_then(|center| center.projected(&shape));
        match projected.as_ref().unwrap_or(&shape) {
            Shape::Polygon(rings) => check(rings).map_err(invalid)?,
            Shape::Point(_) => {}
        }
        Ok(shape)
    }

    fn points(&self) -> impl Iterator<Item = Point> {
        let (single, rings): (_, &[Vec<Point>]) = match self {
            Shape::Point(point) => (Some(*point), &[]),
            Shape::Polygon(rings) => (None, rings),
        };
        single.into_iter().chain(rings.iter().flatten().copied())
    }

    /// The row of a shape: for each ring its number of points and these; a point is a ring of one.
    pub(crate) fn to_row(&self) -> Vec<u8> {
        let point = |row: &mut Vec<u8>, point: &Point| {
            row.extend(point.x.to_be_bytes());
            row.extend(point.y.to_be_bytes());
        };
        let mut row = Vec::new();
        match self {
            Shape::Point(vertex) => {
                push_number(&mut row, 1);
                point(&mut row, vertex);
            }
            Shape::Polygon(rings) => {
                for ring in rings {
                    push_number(&mut row, ring.len() as u128);
                    ring.iter().for_each(|vertex| point(&mut row, vertex));
                }
            }
        }
        row
    }

    pub(crate) fn of_row(row: &[u8]) -> Shape {
        let (mut cursor, mut rings) = (Cursor(row), Vec::new());
        while !cursor.is_at_end() {
            let count = cursor.number();
            let ring = (0..count).map(|_| Point {
                x: cursor.float(),
                y: cursor.float(),
            });
            rings.push(ring.collect::<Vec<_>>());
        }
        match rings.as_slice() {
            [ring] if ring.len() == 1 => Shape::Point(ring[0]),
            _ => Shape::Polygon(rings),
        }
    }

    /// Returns true if this shape has the relation to another shape.
    pub fn is(&self, relation: Relation, other: &Shape, system: System) -> bool {
        let flattened = match system {
            System::Flat => Some((self.clone(), other.clone())),
            System::Spherical => flattened(self, other),
        };
        let Some((own, other)) = flattened else {
            return relation == Relation::Disjoint;
        };
        match relation {
            Relation::Within => within(&own, &other),
            Relation::Contains => within(&other, &own),
            Relation::Intersects => intersects(&own, &other),
            Relation::Disjoint => !intersects(&own, &other),
        }
    }
}

/// Both shapes in one plane; nothing if they are on different halves of the sphere.
fn flattened(own: &Shape, other: &Shape) -> Option<(Shape, Shape)> {
    let all_points = || own.points().chain(other.points());
    let centers = [
        Center::of(other.points()),
        Center::of(own.points()),
        Center::of(all_points()),
    ];
    let mut projected = centers
        .iter()
        .flatten()
        .filter_map(|center| Some((center.projected(own)?, center.projected(other)?)));
    if let Some(projected) = projected.next() {
        return Some(projected);
    }
    let is_on_half = |shape: &Shape| Center::of(shape.points()).is_some_and(|center| center.projected(shape).is_some());
    match is_on_half(own) && is_on_half(other) {
        true => None,
        false => Some((own.clone(), other.clone())),
    }
}

/// A direction from the centre of the sphere, and two at right angles to it and to each other.
struct Center {
    axis: [f64; 3],
    right: [f64; 3],
    up: [f64; 3],
}

fn product(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn crossed(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

/// Nothing for what has no direction.
fn unit(a: [f64; 3]) -> Option<[f64; 3]> {
    let length = product(a, a).sqrt();
    (length > 1e-9).then(|| a.map(|part| part / length))
}

fn direction(point: Point) -> [f64; 3] {
    let (longitude, latitude) = (point.x.to_radians(), point.y.to_radians());
    [
        latitude.cos() * longitude.cos(),
        latitude.cos() * longitude.sin(),
        latitude.sin(),
    ]
}

impl Center {
    /// The middle of some points.
    fn of(points: impl Iterator<Item = Point>) -> Option<Center> {
        let sum = points.map(direction).fold([0.0; 3], |sum, other| {
            [sum[0] + other[0], sum[1] + other[1], sum[2] + other[2]]
        });
        let axis = unit(sum)?;
        let aside = if axis[2].abs() < 0.9 {
            [0.0, 0.0, 1.0]
        } else {
            [1.0, 0.0, 0.0]
        };
        let right = unit(crossed(aside, axis))?;
        let up = crossed(axis, right);
        Some(Center { axis, right, up })
    }

    fn projected(&self, shape: &Shape) -> Option<Shape> {
        let project = |point: &Point| {
            let direction = direction(*point);
            let along = product(direction, self.axis);
            (along > COSINE_MIN).then(|| Point {
                x: product(direction, self.right) / along,
                y: product(direction, self.up) / along,
            })
        };
        Some(match shape {
            Shape::Point(point) => Shape::Point(project(point)?),
            Shape::Polygon(rings) => {
                let project_ring = |ring: &Vec<Point>| ring.iter().map(project).collect::<Option<Vec<_>>>();
                Shape::Polygon(rings.iter().map(project_ring).collect::<Option<_>>()?)
            }
        })
    }
}

/// A side of a ring: the straight way from one point to the next.
#[derive(Clone, Copy)]
struct Side {
    a: Point,
    b: Point,
}

impl Side {
    /// Positive for a point on the left of the way from `a` to `b`. The sign is exact.
    fn left_of(self, point: Point) -> f64 {
        let of = |Point { x, y }| Coord { x, y };
        orient2d(of(self.a), of(self.b), of(point))
    }

    /// The point is one of the side.
    fn has(self, point: Point) -> bool {
        let Side { a, b } = self;
        let within = |from: f64, to: f64, at: f64| from.min(to) <= at && at <= from.max(to);
        within(a.x, b.x, point.x) && within(a.y, b.y, point.y) && self.left_of(point) == 0.0
    }

    /// Two sides have a point in common.
    fn touches(self, other: Side) -> bool {
        let apart = |a: f64, b: f64, c: f64, d: f64| a.max(b) < c.min(d) || c.max(d) < a.min(b);
        let (Side { a, b }, Side { a: c, b: d }) = (self, other);
        if apart(a.x, b.x, c.x, d.x) || apart(a.y, b.y, c.y, d.y) {
            return false;
        }
        self.crosses(other) || self.has(c) || self.has(d) || other.has(a) || other.has(b)
    }

    /// Two sides have one point in common, which is the end of none.
    fn crosses(self, other: Side) -> bool {
        let differ = |first: f64, other: f64| first > 0.0 && other < 0.0 || first < 0.0 && other > 0.0;
        differ(self.left_of(other.a), self.left_of(other.b)) && differ(other.left_of(self.a), other.left_of(self.b))
    }

    /// The next side starts at the end of this side and returns over it.
    fn turns_back(self, next: Side) -> bool {
        self.b == next.a && (self.has(next.b) || next.has(self.a))
    }
}

fn sides(ring: &[Point]) -> impl Iterator<Item = Side> + Clone {
    let next = ring.iter().cycle().skip(1);
    ring.iter().zip(next).map(|(a, b)| Side { a: *a, b: *b })
}

fn all_sides(rings: &[Vec<Point>]) -> impl Iterator<Item = Side> {
    rings.iter().flat_map(|ring| sides(ring))
}

/// The position of a point: 1 inside of a ring, 0 on it, -1 outside.
fn place_in_ring(ring: &[Point], point: Point) -> i8 {
    let mut is_inside = false;
    for side in sides(ring) {
        if side.has(point) {
            return 0;
        }
        let Side { a, b } = side;
        let is_left = (side.left_of(point) > 0.0) == (b.y > a.y);
        if (a.y > point.y) != (b.y > point.y) && is_left {
            is_inside = !is_inside;
        }
    }
    if is_inside { 1 } else { -1 }
}

/// The same of a polygon: in a hole is outside.
fn place_in(rings: &[Vec<Point>], point: Point) -> i8 {
    let Some((outer, holes)) = rings.split_first() else {
        return -1;
    };
    let places_in_holes = holes.iter().map(|hole| -place_in_ring(hole, point));
    places_in_holes.fold(place_in_ring(outer, point), i8::min)
}

/// A point inside of a ring: the middle of its first part on a line between two of its heights.
fn inner_point(ring: &[Point]) -> Option<Point> {
    let mut heights: Vec<f64> = ring.iter().map(|point| point.y).collect();
    heights.sort_by(f64::total_cmp);
    heights.dedup();
    let y = f64::midpoint(*heights.first()?, *heights.get(1)?);
    let mut crossings: Vec<f64> = sides(ring)
        .filter(|Side { a, b }| (a.y > y) != (b.y > y))
        .map(|Side { a, b }| a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x))
        .collect();
    crossings.sort_by(f64::total_cmp);
    let x = f64::midpoint(*crossings.first()?, *crossings.get(1)?);
    Some(Point { x, y })
}

/// Refuses rings that touch themselves or each other's insides.
fn check(rings: &[Vec<Point>]) -> Result<(), &'static str> {
    let Some((outer, holes)) = rings.split_first() else {
        return Err("too few points");
    };
    for ring in rings {
        if ring.len() < 3 {
            return Err("too few points");
        }
        let ring_sides: Vec<_> = sides(ring).collect();
        for (at, side) in ring_sides.iter().enumerate() {
            for (behind, other) in ring_sides.iter().enumerate().skip(at + 1) {
                let is_next = behind == at + 1 || at == 0 && behind == ring_sides.len() - 1;
                match is_next {
                    true if side.turns_back(*other) || other.turns_back(*side) => return Err("spikes"),
                    false if side.touches(*other) => return Err("invalid self-intersections"),
                    _ => {}
                }
            }
        }
    }
    for (at, hole) in holes.iter().enumerate() {
        if hole.iter().any(|point| place_in_ring(outer, *point) < 0) {
            return Err("interior rings defined outside the outer boundary");
        }
        let earlier = rings.iter().take(at + 1).flat_map(|ring| sides(ring));
        if earlier
            .into_iter()
            .any(|other| sides(hole).any(|side| side.crosses(other)))
        {
            return Err("invalid self-intersections");
        }
    }
    Ok(())
}

fn intersects(own: &Shape, other: &Shape) -> bool {
    match (own, other) {
        (Shape::Point(a), Shape::Point(b)) => a == b,
        (Shape::Point(point), Shape::Polygon(rings)) | (Shape::Polygon(rings), Shape::Point(point)) => {
            place_in(rings, *point) >= 0
        }
        (Shape::Polygon(own), Shape::Polygon(other)) => {
            place_in(own, other[0][0]) >= 0
                || place_in(other, own[0][0]) >= 0
                || all_sides(own).any(|side| all_sides(other).any(|other_side| side.touches(other_side)))
        }
    }
}

/// As at the original a point on a side is not within, nor is a point within a point.
fn within(own: &Shape, other: &Shape) -> bool {
    match (own, other) {
        (_, Shape::Point(_)) => false,
        (Shape::Point(point), Shape::Polygon(rings)) => place_in(rings, *point) > 0,
        (Shape::Polygon(own), Shape::Polygon(other)) => {
            let is_in_hole = |hole: &Vec<Point>| inner_point(hole).is_some_and(|point| place_in(own, point) > 0);
            all_sides(own).all(|side| is_side_within(side, other))
                && inner_point(&own[0]).is_none_or(|point| place_in(own, point) < 0 || place_in(other, point) >= 0)
                && !other[1..].iter().any(is_in_hole)
        }
    }
}

/// No part of a side is outside of a polygon.
fn is_side_within(side: Side, rings: &[Vec<Point>]) -> bool {
    let Side { a, b } = side;
    let share = |point: Point| match (b.x - a.x).abs() > (b.y - a.y).abs() {
        true => (point.x - a.x) / (b.x - a.x),
        false => (point.y - a.y) / (b.y - a.y),
    };
    let mut shares = vec![0.0, 1.0];
    let mut along = Vec::new();
    for other in all_sides(rings) {
        let Side { a: c, b: d } = other;
        let (side_of_c, side_of_d) = (side.left_of(c), side.left_of(d));
        if side_of_c == 0.0 && side_of_d == 0.0 {
            let (from, to) = (share(c).min(share(d)), share(c).max(share(d)));
            along.push((from, to));
            shares.extend([from, to]);
        } else if side.touches(other) {
            let part = side_of_c / (side_of_c - side_of_d);
            shares.push(share(Point {
                x: c.x + part * (d.x - c.x),
                y: c.y + part * (d.y - c.y),
            }));
        }
    }
    shares.retain(|share| (0.0..=1.0).contains(share));
    shares.sort_by(f64::total_cmp);
    let middles = shares.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
    let ends_are_within = place_in(rings, a) >= 0 && place_in(rings, b) >= 0;
    ends_are_within
        && middles.into_iter().all(|middle| {
            let point = Point {
                x: a.x + middle * (b.x - a.x),
                y: a.y + middle * (b.y - a.y),
            };
            let is_along = along.iter().any(|(from, to)| *from <= middle && middle <= *to);
            let is_end = middle <= f64::EPSILON || middle >= 1.0 - f64::EPSILON;
            is_along || is_end || place_in(rings, point) >= 0
        })
}

/// Reads well-known text word by word.
struct Parser<'t> {
    text: &'t str,
    rest: &'t str,
    points: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parser<'t> {
        Parser {
            text,
            rest: text,
            points: 0,
        }
    }

    fn peek(&self) -> &'t str {
        let input = self.rest.trim_start_matches(' ');
        let length = match input.chars().next() {
            Some('(' | ')' | ',') => 1,
            _ => input.find([' ', '(', ')', ',']).unwrap_or(input.len()),
        };
        &input[..length]
    }

    fn next(&mut self) -> &'t str {
        let word = self.peek();
        let input = self.rest.trim_start_matches(' ');
        self.rest = &input[word.len()..];
        word
    }

    fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek() == word;
        if is_next {
            self.next();
        }
        is_next
    }

    fn expect(&mut self, word: &str) -> Result<(), String> {
        if self.take(word) {
            return Ok(());
        }
        let text = self.text;
        Err(match self.peek() {
            "" => format!("Expected '{word}' in '{text}'"),
            token => format!("Expected '{word}' at '{token}' in '{text}'"),
        })
    }

    fn shape(&mut self) -> Result<Shape, String> {
        let name = self.text.split([' ', '(']).next().unwrap_or_default();
        self.rest = &self.text[name.len()..];
        let is_empty = self.take("EMPTY");
        let shape = match name {
            "POINT" if is_empty => Shape::Point(Point { x: 0.0, y: 0.0 }),
            "POINT" => {
                self.expect("(")?;
                let point = self.point()?;
                self.expect(")")?;
                Shape::Point(point)
            }
            "POLYGON" if is_empty => Shape::Polygon(Vec::new()),
            "POLYGON" => Shape::Polygon(self.listed(Parser::ring)?),
            _ => return Err("unknown geometry type".into()),
        };
        match self.peek() {
            "" => Ok(shape),
            word => Err(format!("Too many tokens at '{word}' in '{}'", self.text)),
        }
    }

    /// The parts between brackets, with commas between them.
    fn listed<T>(&mut self, item: fn(&mut Parser<'t>) -> Result<T, String>) -> Result<Vec<T>, String> {
        self.expect("(")?;
        let mut all = Vec::new();
        while self.peek() != ")" {
            all.push(item(self)?);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(all)
    }

    /// A ring without consecutive equal points, and without the repeated first point at the end.
    fn ring(&mut self) -> Result<Vec<Point>, String> {
        let mut ring = self.listed(Parser::point)?;
        ring.dedup();
        if ring.len() > 1 && ring.first() == ring.last() {
            ring.pop();
        }
        Ok(ring)
    }

    /// A coordinate that is not there is zero.
    fn point(&mut self) -> Result<Point, String> {
        self.points += 1;
        if self.points > POINTS_MAX {
            return Err(format!("A shape has at most {POINTS_MAX} points"));
        }
        let (x, y) = (self.coordinate()?, self.coordinate()?);
        Ok(Point { x, y })
    }

    fn coordinate(&mut self) -> Result<f64, String> {
        match self.peek() {
            "" | "(" | ")" | "," => Ok(0.0),
            word => {
                let number = word.parse().map_err(|_| format!("Expected a number at '{word}'"));
                self.next();
                number
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(text: &str) -> Shape {
        Shape::parse(text.as_bytes(), System::Flat).unwrap()
    }

    #[test]
    fn text_is_read_as_the_original_reads_it() {
        for good in ["POINT(1 2)", "POINT (1 2)", "POINT(1 2) ", "POINT(+1 2e0)"] {
            assert_eq!(shape(good), Shape::Point(Point { x: 1.0, y: 2.0 }), "{good}");
        }
        assert_eq!(shape("POINT(1)"), shape("POINT(1 0)"));
        assert_eq!(
            shape("POLYGON((0 0,0 9,9 9,0 0))"),
            shape("POLYGON((0 0, 0 0, 0 9, 9 9))")
        );
        for (wrong, why) in [
            ("point(1 1)", "unknown geometry type"),
            ("LINESTRING(1 1, 2 2)", "unknown geometry type"),
            ("", "unknown geometry type"),
            ("POINT", "Expected '(' in 'POINT'"),
            ("POINT(25", "Expected ')' in 'POINT(25'"),
            ("POINT(1,1)", "Expected ')' at ',' in 'POINT(1,1)'"),
            ("POINT(1 1 1)", "Expected ')' at '1' in 'POINT(1 1 1)'"),
            ("POINT(1 1) x", "Too many tokens at 'x' in 'POINT(1 1) x'"),
            (
                "POINT(nan 1)",
                "invalid geometry: Geometry has point(s) with invalid coordinate(s)",
            ),
            ("POLYGON EMPTY", "invalid geometry: Geometry has too few points"),
            (
                "POLYGON((0 0, 1 1, 0 0))",
                "invalid geometry: Geometry has too few points",
            ),
            ("POLYGON((0 0, 1 1, 2 2, 0 0))", "invalid geometry: Geometry has spikes"),
            (
                "POLYGON((0 0, 10 10, 10 0, 0 10))",
                "invalid geometry: Geometry has invalid self-intersections",
            ),
            (
                "POLYGON((0 0, 0 9, 9 9, 9 0),(20 20, 20 40, 40 40))",
                "invalid geometry: Geometry has interior rings defined outside the outer boundary",
            ),
        ] {
            assert_eq!(
                Shape::parse(wrong.as_bytes(), System::Flat).unwrap_err(),
                why,
                "{wrong}"
            );
        }
        let many = format!("POLYGON(({}))", vec!["1 1"; POINTS_MAX + 1].join(","));
        assert!(Shape::parse(many.as_bytes(), System::Flat).is_err());
    }

    #[test]
    fn a_row_gives_back_a_shape() {
        for text in ["POINT(1 2)", "POLYGON((0 0, 0 9, 9 9),(1 2, 1 3, 2 4))"] {
            assert_eq!(Shape::of_row(&shape(text).to_row()), shape(text));
        }
    }

    #[test]
    fn sides_and_holes_count() {
        let with_hole = shape("POLYGON((0 0, 0 10, 10 10, 10 0),(2 2, 2 4, 4 4, 4 2))");
        for (other, is_within, meets) in [
            ("POINT(1 1)", true, true),
            ("POINT(3 3)", false, false),
            ("POINT(2 3)", false, true),
            ("POINT(0 5)", false, true),
            ("POINT(11 5)", false, false),
            ("POLYGON((0 0, 0 10, 2 10, 2 0))", true, true),
            ("POLYGON((2 2, 2 4, 4 4, 4 2))", false, true),
            ("POLYGON((2.5 2.5, 2.5 3, 3 3, 3 2.5))", false, false),
            ("POLYGON((1 1, 1 9, 9 9, 9 1))", false, true),
            ("POLYGON((5 5, 5 9, 9 9, 9 5))", true, true),
            ("POLYGON((5 5, 5 9, 19 9, 19 5))", false, true),
            ("POLYGON((0 0, 0 10, 10 10, 10 0),(1 1, 1 9, 9 9, 9 1))", true, true),
            ("POLYGON((10 0, 20 0, 20 5))", false, true),
        ] {
            let other = shape(other);
            assert_eq!(
                other.is(Relation::Within, &with_hole, System::Flat),
                is_within,
                "{other:?}"
            );
            assert_eq!(with_hole.is(Relation::Contains, &other, System::Flat), is_within);
            assert_eq!(
                other.is(Relation::Intersects, &with_hole, System::Flat),
                meets,
                "{other:?}"
            );
            assert_eq!(with_hole.is(Relation::Disjoint, &other, System::Flat), !meets);
        }
    }

    #[test]
    fn arcs_are_the_shortest_ways_on_the_sphere() {
        let band = Shape::parse(b"POLYGON((0 50, 60 50, 60 40, 0 40))", System::Spherical).unwrap();
        let north = shape("POINT(30 52)");
        assert!(north.is(Relation::Within, &band, System::Spherical));
        assert!(!north.is(Relation::Within, &band, System::Flat));
        let over_the_date_line = shape("POLYGON((170 0, -170 0, -170 10, 170 10))");
        assert!(shape("POINT(180 5)").is(Relation::Within, &over_the_date_line, System::Spherical));
        assert!(!shape("POINT(0 5)").is(Relation::Intersects, &over_the_date_line, System::Spherical));
    }

    fn squares() -> impl Strategy<Value = (i32, i32, i32)> {
        (0..12i32, 0..12i32, 1..9i32)
    }

    proptest! {
        #[test]
        fn squares_lie_to_each_other_as_their_bounds_say((x, y, size) in squares(), (u, v, other) in squares()) {
            let square = |x: i32, y: i32, size: i32| {
                let (right, top) = (x + size, y + size);
                shape(&format!("POLYGON(({x} {y}, {x} {top}, {right} {top}, {right} {y}))"))
            };
            let is_within = x >= u && y >= v && x + size <= u + other && y + size <= v + other;
            let meets = x <= u + other && u <= x + size && y <= v + other && v <= y + size;
            let (own, other) = (square(x, y, size), square(u, v, other));
            prop_assert_eq!(own.is(Relation::Within, &other, System::Flat), is_within);
            prop_assert_eq!(own.is(Relation::Intersects, &other, System::Flat), meets);
        }

        #[test]
        fn no_text_panics(text in "(POINT|POLYGON)[(),0-9 .e-]{0,40}") {
            if let Ok(shape) = Shape::parse(text.as_bytes(), System::Spherical) {
                prop_assert_eq!(Shape::of_row(&shape.to_row()), shape.clone());
                _ = shape.is(Relation::Within, &shape, System::Spherical);
            }
        }
    }
}
