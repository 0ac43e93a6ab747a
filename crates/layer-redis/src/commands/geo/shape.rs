//! Distances on the globe, the places within a circle, a box or a polygon, and the cells that cover
//! it.
//!
//! The globe is a sphere; distances are along great circles (haversine). A search looks at the cell
//! around its centre and those of its eight neighbours that the shape can reach: each is one range
//! of scores. The sides of a polygon are straight lines on a map whose axes are longitude and
//! latitude, so a polygon never crosses the date line.
//!
//! Pure, and the same arithmetic in the same order as Redis 7.0 does (polygons: Valkey 9.0), so
//! that answers agree to the last digit.

use std::f64::consts::PI;

use super::hash::{Area, Cell, Point, STEPS_MAX, Window};

const RADIANS_PER_DEGREE: f64 = PI / 180.0;
const GLOBE_RADIUS_METERS: f64 = 6372797.560856;
/// Upper bound of rounding errors of coordinates, in degrees.
const ROUNDING_DEGREES: f64 = 1e-5;
/// Half the width of the Mercator map.
const MERCATOR_METERS: f64 = 20037726.37;

/// The boundary of a search, in units of `unit_meters`.
#[derive(Clone, Debug, PartialEq)]
pub enum Extent {
    Radius(f64),
    Box {
        width: f64,
        height: f64,
    },
    /// Its corners, three or more; the last is joined to the first.
    Polygon(Vec<Point>),
}

/// The area of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub center: Point,
    pub extent: Extent,
    pub unit_meters: f64,
}

fn radians(degrees: f64) -> f64 {
    degrees * RADIANS_PER_DEGREE
}

fn degrees(radians: f64) -> f64 {
    radians / RADIANS_PER_DEGREE
}

pub fn distance_meters(from: Point, to: Point) -> f64 {
    let v = ((radians(to.longitude) - radians(from.longitude)) / 2.0).sin();
    if v == 0.0 {
        return latitude_meters(from.latitude, to.latitude);
    }
    let (from_latitude, to_latitude) = (radians(from.latitude), radians(to.latitude));
    let u = ((to_latitude - from_latitude) / 2.0).sin();
    let a = u * u + from_latitude.cos() * to_latitude.cos() * v * v;
    2.0 * GLOBE_RADIUS_METERS * a.sqrt().asin()
}

fn latitude_meters(from: f64, to: f64) -> f64 {
    GLOBE_RADIUS_METERS * (radians(to) - radians(from)).abs()
}

/// The middle of a polygon's corners, computed in three dimensions. It may be outside of the
/// polygon, and near a pole outside of the valid coordinates.
pub fn centroid(corners: &[Point]) -> Point {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for corner in corners {
        let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
        x += GLOBE_RADIUS_METERS * latitude.cos() * longitude.cos();
        y += GLOBE_RADIUS_METERS * latitude.cos() * longitude.sin();
        z += GLOBE_RADIUS_METERS * latitude.sin();
    }
    let count = corners.len() as f64;
    let (x, y, z) = (x / count, y / count, z / count);
    Point {
        longitude: degrees(y.atan2(x)),
        latitude: degrees(z.atan2((x * x + y * y).sqrt())),
    }
}

/// Returns true if a line from the point to the east crosses an odd number of sides.
fn is_inside(corners: &[Point], point: Point) -> bool {
    let mut inside = false;
    let mut previous = corners.len() - 1;
    for (index, &corner) in corners.iter().enumerate() {
        let other = corners[previous];
        let spans = (corner.latitude > point.latitude) != (other.latitude > point.latitude);
        if spans
            && point.longitude
                < (other.longitude - corner.longitude) * (point.latitude - corner.latitude)
                    / (other.latitude - corner.latitude)
                    + corner.longitude
        {
            inside = !inside;
        }
        previous = index;
    }
    inside
}

/// The bounding box of the corners, in degrees.
fn box_around(corners: &[Point]) -> Area {
    let mut area = Area {
        longitude: (f64::INFINITY, f64::NEG_INFINITY),
        latitude: (f64::INFINITY, f64::NEG_INFINITY),
    };
    for corner in corners {
        area.longitude.0 = area.longitude.0.min(corner.longitude);
        area.longitude.1 = area.longitude.1.max(corner.longitude);
        area.latitude.0 = area.latitude.0.min(corner.latitude);
        area.latitude.1 = area.latitude.1.max(corner.latitude);
    }
    area
}

impl Shape {
    /// The distance from the centre, if the place is within the shape.
    pub fn distance_within(&self, point: Point) -> Option<f64> {
        match &self.extent {
            Extent::Polygon(corners) => is_inside(corners, point).then(|| distance_meters(self.center, point)),
            &Extent::Radius(radius) => {
                let distance = distance_meters(self.center, point);
                (distance <= radius * self.unit_meters).then_some(distance)
            }
            &Extent::Box { width, height } => {
                let (width, height) = (width * self.unit_meters, height * self.unit_meters);
                let beside = Point {
                    longitude: self.center.longitude,
                    ..point
                };
                let is_outside = latitude_meters(point.latitude, self.center.latitude) > height / 2.0
                    || distance_meters(point, beside) > width / 2.0;
                (!is_outside).then(|| distance_meters(self.center, point))
            }
        }
    }

    /// A window that contains all places of the shape: others need not be measured.
    pub fn window(&self) -> Window {
        let (half_width, half_height) = match &self.extent {
            Extent::Polygon(corners) => return Window::around(&widened(box_around(corners))),
            &Extent::Radius(radius) => self.reach_meters(2.0 * radius, 2.0 * radius),
            &Extent::Box { width, height } => self.reach_meters(width, height),
        };
        let Point { longitude, latitude } = self.center;
        let latitude_reach = degrees(half_height / GLOBE_RADIUS_METERS) + ROUNDING_DEGREES;
        let longitude_reach = longitude_reach(half_width, latitude.abs() + latitude_reach) + ROUNDING_DEGREES;
        let mut longitudes = (longitude - longitude_reach, longitude + longitude_reach);
        if !(longitudes.0 > -180.0 && longitudes.1 < 180.0) {
            // Beyond the date line it continues at the other edge.
            longitudes = (f64::NEG_INFINITY, f64::INFINITY);
        }
        Window::around(&Area {
            longitude: longitudes,
            latitude: (latitude - latitude_reach, latitude + latitude_reach),
        })
    }

    /// Half of a width and a height, in meters.
    fn reach_meters(&self, width: f64, height: f64) -> (f64, f64) {
        (self.unit_meters * (width / 2.0), self.unit_meters * (height / 2.0))
    }

    /// The distance to the furthest place within, in meters.
    fn radius_meters(&self) -> f64 {
        match &self.extent {
            Extent::Polygon(corners) => self.furthest_meters(&box_around(corners)),
            &Extent::Radius(radius) => radius * self.unit_meters,
            &Extent::Box { width, height } => {
                let diagonal = ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt();
                diagonal * self.unit_meters
            }
        }
    }

    /// The distance to the furthest corner of an area.
    fn furthest_meters(&self, area: &Area) -> f64 {
        let (west, east) = area.longitude;
        let (south, north) = area.latitude;
        let corners = [(west, north), (east, north), (west, south), (east, south)];
        let distances =
            corners.map(|(longitude, latitude)| distance_meters(self.center, Point { longitude, latitude }));
        distances.into_iter().fold(0.0, f64::max)
    }

    /// The bounding box of the shape, in degrees.
    fn bounds(&self) -> Area {
        match &self.extent {
            Extent::Polygon(corners) => box_around(corners),
            &Extent::Radius(radius) => self.bounds_of(2.0 * radius, 2.0 * radius),
            &Extent::Box { width, height } => self.bounds_of(width, height),
        }
    }

    /// Meridians draw together towards the pole, so the end nearer to it counts.
    fn bounds_of(&self, width: f64, height: f64) -> Area {
        let (half_width, half_height) = self.reach_meters(width, height);
        let Point { longitude, latitude } = self.center;
        let latitude_reach = degrees(half_height / GLOBE_RADIUS_METERS);
        let polar = if latitude < 0.0 {
            latitude - latitude_reach
        } else {
            latitude + latitude_reach
        };
        let longitude_reach = degrees(half_width / GLOBE_RADIUS_METERS / radians(polar).cos());
        Area {
            longitude: (longitude - longitude_reach, longitude + longitude_reach),
            latitude: (latitude - latitude_reach, latitude + latitude_reach),
        }
    }

    /// The cells that cover the shape: the centre's first, then those beside it, then those at its
    /// corners.
    pub fn cells(&self) -> Vec<Cell> {
        const BESIDE: [(i8, i8); 8] = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let bounds = self.bounds();
        // The centre of a polygon may be far from its sides' middle, so that one step back is not
        // always enough.
        let (center, steps_back_max) = match self.extent {
            Extent::Polygon(_) => (self.center.within_map(), STEPS_MAX),
            _ => (self.center, 1),
        };
        let mut cell = center.cell(step_of(self.radius_meters(), center.latitude));
        for _ in 0..steps_back_max {
            if cell.step > 1 && !reaches(cell, &bounds) {
                cell = center.cell(cell.step - 1);
            }
        }
        let mut cells = vec![cell];
        for (east, north) in BESIDE {
            let neighbor = cell.neighbor(east, north);
            // In a coarse grid two neighbours may be the same.
            let is_again = cells.len() > 1 && cells.last() == Some(&neighbor);
            if !is_again && may_need(cell, &bounds, east, north) {
                cells.push(neighbor);
            }
        }
        cells
    }
}

fn widened(area: Area) -> Area {
    let widened = |(from, to): (f64, f64)| (from - ROUNDING_DEGREES, to + ROUNDING_DEGREES);
    Area {
        longitude: widened(area.longitude),
        latitude: widened(area.latitude),
    }
}

/// By how many degrees of longitude two places differ at most that are so far from each other, none
/// of them nearer to a pole than `polar` degrees of latitude.
fn longitude_reach(meters: f64, polar: f64) -> f64 {
    let half_angle = meters / GLOBE_RADIUS_METERS / 2.0;
    let sine = half_angle.sin() / radians(polar).cos();
    if polar < 90.0 && half_angle < PI / 2.0 && sine < 1.0 {
        2.0 * degrees(sine.asin())
    } else {
        f64::INFINITY
    }
}

/// How fine the grid is in which nine cells cover a circle.
fn step_of(radius_meters: f64, latitude: f64) -> u32 {
    if radius_meters == 0.0 {
        return STEPS_MAX;
    }
    let (mut range_meters, mut step) = (radius_meters, 1_i64);
    while range_meters < MERCATOR_METERS {
        range_meters *= 2.0;
        step += 1;
    }
    step -= 2;
    step -= i64::from(latitude.abs() > 66.0) + i64::from(latitude.abs() > 80.0);
    step.clamp(1, i64::from(STEPS_MAX)) as u32
}

/// Returns true if the cells beside this one end beyond the bounds.
fn reaches(cell: Cell, bounds: &Area) -> bool {
    let north = cell.neighbor(0, 1).area().latitude.1;
    let south = cell.neighbor(0, -1).area().latitude.0;
    let east = cell.neighbor(1, 0).area().longitude.1;
    let west = cell.neighbor(-1, 0).area().longitude.0;
    let is_short = north < bounds.latitude.1
        || south > bounds.latitude.0
        || east < bounds.longitude.1
        || west > bounds.longitude.0;
    !is_short
}

/// False if the cell itself goes beyond the bounds on the neighbour's side. In a grid of two by two
/// all are needed.
fn may_need(cell: Cell, bounds: &Area, east: i8, north: i8) -> bool {
    let area = cell.area();
    let is_beyond = north < 0 && area.latitude.0 < bounds.latitude.0
        || north > 0 && area.latitude.1 > bounds.latitude.1
        || east < 0 && area.longitude.0 < bounds.longitude.0
        || east > 0 && area.longitude.1 > bounds.longitude.1;
    cell.step < 2 || !is_beyond
}
