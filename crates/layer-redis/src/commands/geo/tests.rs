//! Random searches against a look at every place. Replies of every command are in the golden
//! scripts of `tests/redis/testdata`.

use proptest::prelude::*;
use quartet_wire_resp::Value;

use super::hash::Point;
use super::shape::{Extent, Shape, centroid};
use crate::testing::{Connection, Fixture, show};

fn place() -> impl Strategy<Value = Point> {
    (-180.0..180.0_f64, -85.0..85.0_f64).prop_map(|(longitude, latitude)| Point { longitude, latitude })
}

/// A width or radius in meters: from a garden to a continent.
fn meters() -> impl Strategy<Value = f64> {
    (1.0..6.5_f64).prop_map(|power| 10_f64.powf(power).round())
}

/// Places near a point, so that even small shapes find some.
fn places() -> impl Strategy<Value = (Point, Vec<Point>)> {
    let offset = (-1.0..1.0_f64, -1.0..1.0_f64, 0.0..5.0_f64);
    (place(), prop::collection::vec(offset, 1..200)).prop_map(|(center, offsets)| {
        let near = |(east, north, power): (f64, f64, f64)| Point {
            longitude: (center.longitude + east * 60.0 / 10_f64.powf(power)).clamp(-180.0, 180.0),
            latitude: (center.latitude + north * 40.0 / 10_f64.powf(power)).clamp(-85.0, 85.0),
        };
        (center, offsets.into_iter().map(near).collect())
    })
}

fn search(connection: &mut Connection, shape: &Shape, options: &[&str]) -> Vec<String> {
    let Point { longitude, latitude } = shape.center;
    let mut words = vec![
        "GEOSEARCH".into(),
        "g".into(),
        "FROMLONLAT".into(),
        longitude.to_string(),
        latitude.to_string(),
    ];
    match &shape.extent {
        Extent::Radius(radius) => words.extend(["BYRADIUS".into(), radius.to_string(), "m".into()]),
        Extent::Box { width, height } => {
            words.extend(["BYBOX".into(), width.to_string(), height.to_string(), "m".into()]);
        }
        Extent::Polygon(corners) => {
            words.truncate(2);
            words.extend(["BYPOLYGON".into(), corners.len().to_string()]);
            for corner in corners {
                words.extend([corner.longitude.to_string(), corner.latitude.to_string()]);
            }
        }
    }
    words.extend(options.iter().map(|word| word.to_string()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match connection.run(&words) {
        Value::Array(members) => members.iter().map(show).collect(),
        other => panic!("{other:?}"),
    }
}

/// Adds each place under its index.
fn add(connection: &mut Connection, places: &[Point]) {
    let numbered = places.iter().enumerate();
    let words: Vec<String> = numbered
        .flat_map(|(index, place)| {
            [
                place.longitude.to_string(),
                place.latitude.to_string(),
                index.to_string(),
            ]
        })
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    connection.run(&[&["GEOADD", "g"][..], &words].concat());
}

/// Every place within the shape, nearest first, found without the grid.
fn every(places: &[Point], shape: &Shape) -> Vec<String> {
    let mut members: Vec<(f64, String)> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        let stored = Point::of_score(place.score());
        members.extend(
            shape
                .distance_within(stored)
                .map(|distance| (distance, index.to_string())),
        );
    }
    members.sort_by(|first, other| first.partial_cmp(other).unwrap());
    members.into_iter().map(|(_, member)| member).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn circles_find_every_place_within((center, places) in places(), radius in meters(), count in 1..9_usize) {
        // Beyond the map's edges Redis finds less than there is, and so do we.
        prop_assume!(center.latitude.abs() < 55.0 && center.longitude.abs() < 120.0);
        let shape = Shape { center, extent: Extent::Radius(radius), unit_meters: 1.0 };
        let mut connection = Fixture::new().connect();
        add(&mut connection, &places);
        let expected = every(&places, &shape);
        let mut found = search(&mut connection, &shape, &["ASC"]);
        prop_assert_eq!(&found[..count.min(found.len())], &search(&mut connection, &shape, &["COUNT", &count.to_string()])[..]);
        let any = search(&mut connection, &shape, &["COUNT", &count.to_string(), "ANY"]);
        prop_assert_eq!(any.len(), count.min(expected.len()));
        prop_assert!(any.iter().all(|member| expected.contains(member)));
        found.sort();
        let mut expected = expected;
        expected.sort();
        prop_assert_eq!(found, expected);
    }

    /// Also for self-intersecting sides, for corners with a centroid outside, and around the poles.
    #[test]
    fn polygons_find_every_place_within(corners in prop::collection::vec(place(), 3..9), places in prop::collection::vec(place(), 1..200)) {
        let shape = Shape { center: centroid(&corners), extent: Extent::Polygon(corners), unit_meters: 1.0 };
        let mut connection = Fixture::new().connect();
        add(&mut connection, &places);
        let mut expected = every(&places, &shape);
        let mut found = search(&mut connection, &shape, &["ASC"]);
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }

    /// A place that is passed over without being measured is outside.
    #[test]
    fn the_window_holds_every_place_within((center, places) in places(), width in meters(), height in meters()) {
        for extent in [Extent::Radius(width), Extent::Box { width, height }] {
            let shape = Shape { center, extent, unit_meters: 1.0 };
            for place in &places {
                let score = place.score();
                let is_within = shape.distance_within(Point::of_score(score)).is_some();
                prop_assert!(!is_within || shape.window().holds(score), "{shape:?} {place:?}");
            }
        }
    }
}
