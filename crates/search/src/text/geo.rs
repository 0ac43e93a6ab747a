//! Places on the Earth, distances between them, and the cells that order them.
//!
//! The Earth is a sphere. A place is kept as in the original, as a cell of a grid: longitude and
//! latitude in 26 bits each, interleaved (a geohash). Cells that are near each other in this order
//! are near each other on the ground, so a circle is a few ranges of cells. Each cell is then
//! compared by the distance of its centre.

use crate::error::SearchError;

/// Highest latitude that a document may have: where the square map of the original ends.
const LATITUDE_MAX: f64 = 85.051_128_78;

const LONGITUDE_MAX: f64 = 180.0;

const EARTH_RADIUS_METERS: f64 = 6_372_797.560_856;

/// Bits of a cell in each direction.
const BITS: u32 = 26;

/// A circle's bounds are covered by about this many cells in each direction.
const CELLS_ACROSS: u32 = 8;

/// A unit of length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `m`
    Meters,
    /// `km`
    Kilometers,
    /// `mi`
    Miles,
    /// `ft`
    Feet,
}

impl Unit {
    /// The unit of this name, in any case.
    pub fn of_name(name: &str) -> Option<Unit> {
        match name.to_ascii_lowercase().as_str() {
            "m" => Some(Unit::Meters),
            "km" => Some(Unit::Kilometers),
            "mi" => Some(Unit::Miles),
            "ft" => Some(Unit::Feet),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Meters => "m",
            Unit::Kilometers => "km",
            Unit::Miles => "mi",
            Unit::Feet => "ft",
        }
    }

    fn meters(self) -> f64 {
        match self {
            Unit::Meters => 1.0,
            Unit::Kilometers => 1000.0,
            Unit::Miles => 1609.34,
            Unit::Feet => 0.3048,
        }
    }
}

/// A place, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// East of Greenwich.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

impl Place {
    /// Parses `longitude,latitude`; a blank may replace or follow the comma. An empty part is zero,
    /// as in the original.
    pub fn parse(text: &[u8]) -> Option<Place> {
        let text = std::str::from_utf8(text).ok()?;
        let (longitude, latitude) = text.split_once([' ', ','])?;
        let number = |text: &str| match text.trim_ascii_start() {
            "" => Some(0.0),
            text => text.parse::<f64>().ok(),
        };
        let (longitude, latitude) = (number(longitude)?, number(latitude)?);
        Some(Place { longitude, latitude })
    }

    /// The distance to another place, in metres along the ground.
    pub fn meters_to(&self, other: &Place) -> f64 {
        let (latitude, other_latitude) = (self.latitude.to_radians(), other.latitude.to_radians());
        let latitude_term = ((other_latitude - latitude) / 2.0).sin();
        let longitude_term = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        let root =
            latitude_term * latitude_term + latitude.cos() * other_latitude.cos() * longitude_term * longitude_term;
        2.0 * EARTH_RADIUS_METERS * root.sqrt().min(1.0).asin()
    }

    /// The place's cell; an error if there is none so far in the north, south, east or west.
    pub(crate) fn cell(&self) -> Result<Cell, String> {
        let is_inside = self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX;
        if !is_inside {
            let Place { longitude, latitude } = self;
            return Err(format!("Invalid geo coordinates: {longitude:.6}, {latitude:.6}"));
        }
        let column = offset(self.longitude, LONGITUDE_MAX);
        Ok(Cell::of(column, offset(self.latitude, LATITUDE_MAX)))
    }
}

/// The row or column of the grid in which a coordinate is; the last one for what is outside.
fn offset(coordinate: f64, max: f64) -> u32 {
    let share = (coordinate + max) / (2.0 * max);
    let offset = (share * f64::from(1 << BITS)).max(0.0) as u32;
    offset.min((1 << BITS) - 1)
}

/// A cell of the grid. Cells are ordered by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell(pub u64);

impl Cell {
    fn of(column: u32, row: u32) -> Cell {
        Cell(spread_out(column) << 1 | spread_out(row))
    }

    /// The middle of the cell.
    pub fn place(self) -> Place {
        let middle = |bits: u32, max: f64| {
            let cells = f64::from(1 << BITS);
            let (low, high) = (f64::from(bits) / cells, f64::from(bits + 1) / cells);
            let coordinate = |share: f64| -max + share * (2.0 * max);
            (coordinate(low) + coordinate(high)) / 2.0
        };
        Place {
            longitude: middle(gathered(self.0 >> 1), LONGITUDE_MAX),
            latitude: middle(gathered(self.0), LATITUDE_MAX),
        }
    }
}

/// Puts a zero before each bit.
fn spread_out(bits: u32) -> u64 {
    (0..BITS).fold(0, |spread, bit| spread | u64::from(bits >> bit & 1) << (2 * bit))
}

/// Every second bit.
fn gathered(spread: u64) -> u32 {
    (0..BITS).fold(0, |bits, bit| bits | ((spread >> (2 * bit) & 1) as u32) << bit)
}

/// The places that are at most so far from a centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circle {
    /// The centre.
    pub center: Place,
    /// The radius, in the unit.
    pub radius: f64,
    /// The unit of the radius.
    pub unit: Unit,
}

impl Circle {
    /// A circle as queries may name it.
    pub fn new(center: Place, radius: f64, unit: &str) -> Result<Circle, SearchError> {
        let refused = |reason: &str| SearchError::Syntax(format!("Invalid GeoFilter {reason}"));
        let unit = Unit::of_name(unit).ok_or_else(|| refused("unit"))?;
        if center.longitude.abs() > LONGITUDE_MAX || center.latitude.abs() > 90.0 {
            return Err(refused("lat/lon"));
        }
        match radius > 0.0 {
            true => Ok(Circle { center, radius, unit }),
            false => Err(refused("radius")),
        }
    }

    fn meters(&self) -> f64 {
        self.radius * self.unit.meters()
    }

    pub(crate) fn contains(&self, cell: Cell) -> bool {
        self.center.meters_to(&cell.place()) <= self.meters()
    }

    /// Ranges of cells that hold all of the circle, in order; first and last of each.
    pub(crate) fn covering(&self) -> Vec<(Cell, Cell)> {
        let mut ranges = Vec::new();
        for bounds in self.bounds() {
            bounds.cover(Square::WHOLE, &mut ranges);
        }
        ranges.sort();
        let mut merged: Vec<(Cell, Cell)> = Vec::new();
        for (first, last) in ranges {
            match merged.last_mut() {
                Some((_, end)) if first.0 <= end.0 + 1 => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        merged
    }

    /// Rectangles of the grid around the circle: two where it reaches over the date line.
    fn bounds(&self) -> Vec<Bounds> {
        let angle = self.meters() / EARTH_RADIUS_METERS;
        let (north, south) = (
            self.center.latitude + angle.to_degrees(),
            self.center.latitude - angle.to_degrees(),
        );
        let rows = (offset(south, LATITUDE_MAX), offset(north, LATITUDE_MAX));
        let box_of_longitudes = |west: f64, east: f64| Bounds {
            columns: (offset(west, LONGITUDE_MAX), offset(east, LONGITUDE_MAX)),
            rows,
        };
        if north >= 90.0 || south <= -90.0 {
            return vec![box_of_longitudes(-LONGITUDE_MAX, LONGITUDE_MAX)];
        }
        let width = (angle.sin() / self.center.latitude.to_radians().cos())
            .min(1.0)
            .asin()
            .to_degrees();
        let (west, east) = (self.center.longitude - width, self.center.longitude + width);
        let around = 2.0 * LONGITUDE_MAX;
        match (west < -LONGITUDE_MAX, east > LONGITUDE_MAX) {
            (true, _) => vec![
                box_of_longitudes(-LONGITUDE_MAX, east),
                box_of_longitudes(west + around, LONGITUDE_MAX),
            ],
            (_, true) => vec![
                box_of_longitudes(west, LONGITUDE_MAX),
                box_of_longitudes(-LONGITUDE_MAX, east - around),
            ],
            _ => vec![box_of_longitudes(west, east)],
        }
    }
}

/// A rectangle of the grid, with both ends.
struct Bounds {
    columns: (u32, u32),
    rows: (u32, u32),
}

/// A square of the grid whose sides are a power of two.
#[derive(Clone, Copy)]
struct Square {
    column: u32,
    row: u32,
    bits: u32,
}

impl Square {
    const WHOLE: Square = Square {
        column: 0,
        row: 0,
        bits: BITS,
    };

    fn last(self) -> (u32, u32) {
        let side = (1 << self.bits) - 1;
        (self.column + side, self.row + side)
    }

    fn quarters(self) -> [Square; 4] {
        let bits = self.bits - 1;
        [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(column, row)| Square {
            column: self.column + (column << bits),
            row: self.row + (row << bits),
            bits,
        })
    }
}

impl Bounds {
    /// Cells a little outside count too: what was computed of the circle is rounded.
    fn cover(&self, square: Square, ranges: &mut Vec<(Cell, Cell)>) {
        let (last_column, last_row) = square.last();
        let (west, east) = (self.columns.0.saturating_sub(1), self.columns.1 + 1);
        let (south, north) = (self.rows.0.saturating_sub(1), self.rows.1 + 1);
        if square.column > east || last_column < west || square.row > north || last_row < south {
            return;
        }
        let is_inside = square.column >= west && last_column <= east && square.row >= south && last_row <= north;
        let finest = (east - west).max(north - south) / CELLS_ACROSS;
        if is_inside || square.bits == 0 || 1 << square.bits <= finest {
            let last = Cell::of(last_column, last_row);
            return ranges.push((Cell::of(square.column, square.row), last));
        }
        square
            .quarters()
            .into_iter()
            .for_each(|quarter| self.cover(quarter, ranges));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(longitude: f64, latitude: f64) -> Place {
        Place { longitude, latitude }
    }

    #[test]
    fn places_are_read_as_the_original_reads_them() {
        for good in [
            "13.361389,38.115556",
            "13.361389 38.115556",
            "13.361389, 38.115556",
            "13.361389  38.115556",
        ] {
            assert_eq!(Place::parse(good.as_bytes()), Some(place(13.361389, 38.115556)));
        }
        assert_eq!(Place::parse(b"20,"), Some(place(20.0, 0.0)));
        for bad in ["", "1", "a,b", "10,20,30", " 10 , 20", "10;20", "1x,2", "1,2x", "1,2 "] {
            assert_eq!(Place::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn places_off_the_map_are_refused() {
        let refused = place(10.0, 86.0).cell().unwrap_err();
        assert_eq!(refused, "Invalid geo coordinates: 10.000000, 86.000000");
        assert!(place(f64::NAN, 0.0).cell().is_err() && place(181.0, 0.0).cell().is_err());
        assert!(place(180.0, -LATITUDE_MAX).cell().is_ok());
    }

    #[test]
    fn circles_are_checked() {
        let check = |longitude, latitude, radius, unit| Circle::new(place(longitude, latitude), radius, unit);
        assert!(check(0.0, 90.0, 1.0, "KM").is_ok());
        for (wrong, reason) in [
            (check(0.0, 0.0, 1.0, "x"), "unit"),
            (check(0.0, 91.0, 1.0, "m"), "lat/lon"),
            (check(0.0, 0.0, 0.0, "m"), "radius"),
            (check(0.0, 0.0, f64::NAN, "m"), "radius"),
        ] {
            assert_eq!(wrong.unwrap_err().to_string(), format!("Invalid GeoFilter {reason}"));
        }
    }

    fn places() -> impl Strategy<Value = Place> {
        (-180.0..180.0, -85.0..85.0).prop_map(|(longitude, latitude)| place(longitude, latitude))
    }

    proptest! {
        #[test]
        fn a_cell_is_near_its_place(place in places()) {
            prop_assert!(place.meters_to(&place.cell().unwrap().place()) < 1.0);
        }

        #[test]
        fn all_of_a_circle_is_covered(
            center in places(),
            (east, north) in (-1.0..1.0, -1.0..1.0),
            scale in -5i32..8,
            radius in 1.0..10.0,
        ) {
            let circle = Circle::new(center, radius * 10f64.powi(scale), "m").unwrap();
            let degrees = (circle.meters() / EARTH_RADIUS_METERS).to_degrees().min(360.0);
            let longitude: f64 = center.longitude + east * degrees / center.latitude.to_radians().cos();
            let latitude: f64 = center.latitude + north * degrees;
            let other = place((longitude + 540.0_f64).rem_euclid(360.0) - 180.0, latitude.clamp(-85.0, 85.0));
            let cell = other.cell().unwrap();
            let ranges = circle.covering();
            prop_assert!(ranges.len() < 200);
            let is_covered = ranges.iter().any(|(first, last)| (*first..=*last).contains(&cell));
            prop_assert!(is_covered || !circle.contains(cell));
        }
    }
}
