//! Places as numbers: the interleaved bits of longitude and latitude, which a sorted set keeps as
//! scores.
//!
//! Longitude and latitude are each cut into 2^step equal parts, and the bits of the two parts'
//! numbers alternate, longitude first. So places near each other mostly have numbers near each
//! other, and a number's upper bits name a larger cell around it. A score has 26 steps, 52 bits,
//! which a double holds exactly. Latitudes end where the Mercator map does.
//!
//! Pure, and the same arithmetic in the same order as Redis 7.0 does, so that answers agree to the
//! last digit.

use std::ops::Range;

/// Bits of each coordinate in a score.
pub const STEPS_MAX: u32 = 26;
const LONGITUDES: Axis = Axis {
    min: -180.0,
    max: 180.0,
};
const LATITUDES: Axis = Axis {
    min: -85.05112878,
    max: 85.05112878,
};
/// For the well-known geohash, whose latitudes reach the poles.
const WHOLE_LATITUDES: Axis = Axis { min: -90.0, max: 90.0 };
const LONGITUDE_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;
const LATITUDE_BITS: u64 = 0x5555_5555_5555_5555;

/// A coordinate's range.
#[derive(Clone, Copy)]
struct Axis {
    min: f64,
    max: f64,
}

/// A place in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub longitude: f64,
    pub latitude: f64,
}

/// A cell of the grid with `step` bits for each coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub bits: u64,
    pub step: u32,
}

/// The area of a cell, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    pub longitude: (f64, f64),
    pub latitude: (f64, f64),
}

/// A range of parts of both axes, of 2^26, the first and the last included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    latitude: (u32, u32),
    longitude: (u32, u32),
}

impl Axis {
    /// The range of parts that covers the interval between two values, which may exceed the axis.
    fn parts_between(self, from: f64, to: f64) -> (u32, u32) {
        let first = if from > self.min {
            self.part(from.min(self.max), STEPS_MAX)
        } else {
            0
        };
        let last = if to < self.max {
            self.part(to.max(self.min), STEPS_MAX)
        } else {
            u32::MAX
        };
        (first, last)
    }

    fn contains(self, value: f64) -> bool {
        value >= self.min && value <= self.max
    }

    /// The part that holds the value, of 2^step. The upper end is a part of its own.
    fn part(self, value: f64, step: u32) -> u32 {
        let offset = (value - self.min) / (self.max - self.min);
        (offset * (1_u64 << step) as f64) as u32
    }

    /// Start and end of a part.
    fn ends(self, part: u32, step: u32) -> (f64, f64) {
        let scale = self.max - self.min;
        let at = |part: u32| self.min + (f64::from(part) / (1_u64 << step) as f64) * scale;
        (at(part), at(part.wrapping_add(1)))
    }
}

impl Point {
    /// Returns true if the place can be kept.
    pub fn is_valid(self) -> bool {
        LONGITUDES.contains(self.longitude) && LATITUDES.contains(self.latitude)
    }

    /// The nearest place on the map, excluding its upper edges, which have no cell.
    pub fn within_map(self) -> Point {
        const WITHIN: f64 = 1e-9;
        Point {
            longitude: self.longitude.clamp(LONGITUDES.min, LONGITUDES.max - WITHIN),
            latitude: self.latitude.clamp(LATITUDES.min, LATITUDES.max - WITHIN),
        }
    }

    /// The cell that holds a valid place.
    pub fn cell(self, step: u32) -> Cell {
        self.cell_between(LATITUDES, step)
    }

    fn cell_between(self, latitudes: Axis, step: u32) -> Cell {
        let latitude = latitudes.part(self.latitude, step);
        let longitude = LONGITUDES.part(self.longitude, step);
        Cell {
            bits: spread(latitude) | spread(longitude) << 1,
            step,
        }
    }

    /// The score under which a sorted set keeps a valid place.
    pub fn score(self) -> f64 {
        self.cell(STEPS_MAX).bits as f64
    }

    /// The middle of the cell of a score.
    pub fn of_score(score: f64) -> Point {
        let bits = bits_of(score);
        let area = Cell { bits, step: STEPS_MAX }.area();
        let middle = |(min, max): (f64, f64), axis: Axis| ((min + max) / 2.0).clamp(axis.min, axis.max);
        Point {
            longitude: middle(area.longitude, LONGITUDES),
            latitude: middle(area.latitude, LATITUDES),
        }
    }

    /// The well-known geohash, eleven letters, of which 52 bits fill ten.
    pub fn geohash(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = self.cell_between(WHOLE_LATITUDES, STEPS_MAX).bits;
        let mut letters = [LETTERS[0]; 11];
        for (index, letter) in letters[..10].iter_mut().enumerate() {
            *letter = LETTERS[(bits >> (52 - (index + 1) * 5)) as usize & 0x1f];
        }
        letters
    }
}

impl Cell {
    pub fn area(self) -> Area {
        Area {
            latitude: LATITUDES.ends(gather(self.bits), self.step),
            longitude: LONGITUDES.ends(gather(self.bits >> 1), self.step),
        }
    }

    /// Returns the cell a number of columns to the east and rows to the north, which is one step at
    /// most. Both axes are rings.
    pub fn neighbor(self, east: i8, north: i8) -> Cell {
        let shift = 64 - self.step * 2;
        let (longitude, latitude) = (self.bits & LONGITUDE_BITS, self.bits & LATITUDE_BITS);
        let longitude = move_part(longitude, LATITUDE_BITS >> shift, LONGITUDE_BITS >> shift, east);
        let latitude = move_part(latitude, LONGITUDE_BITS >> shift, LATITUDE_BITS >> shift, north);
        Cell {
            bits: longitude | latitude,
            ..self
        }
    }

    /// The scores of the places in the cell, the end exclusive.
    pub fn scores(self) -> Range<f64> {
        let shift = 52 - self.step * 2;
        (self.bits << shift) as f64..((self.bits + 1) << shift) as f64
    }
}

impl Window {
    pub fn around(area: &Area) -> Window {
        let ((south, north), (west, east)) = (area.latitude, area.longitude);
        Window {
            latitude: LATITUDES.parts_between(south, north),
            longitude: LONGITUDES.parts_between(west, east),
        }
    }

    /// True for the score of each place in the window.
    pub fn holds(self, score: f64) -> bool {
        let bits = bits_of(score);
        let within = |(first, last): (u32, u32), part: u32| part >= first && part <= last;
        within(self.latitude, gather(bits)) && within(self.longitude, gather(bits >> 1))
    }
}

/// A set that was not made of places may hold any score: one below zero wraps around and one beyond
/// 64 bits is nothing, as observed of Redis.
fn bits_of(score: f64) -> u64 {
    match score {
        ..0.0 => score as i64 as u64,
        18446744073709551616.0.. => 0,
        _ => score as u64,
    }
}

/// Adds a direction to the number in every other bit. A carry passes through `other_bits`, the bits
/// between.
fn move_part(part: u64, other_bits: u64, own: u64, direction: i8) -> u64 {
    match direction {
        0 => part,
        1 => part.wrapping_add(other_bits + 1) & own,
        _ => (part | other_bits).wrapping_sub(other_bits + 1) & own,
    }
}

/// Puts a zero in front of each bit.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & LATITUDE_BITS
}

/// Takes every other bit.
fn gather(bits: u64) -> u32 {
    let mut number = bits & LATITUDE_BITS;
    number = (number | number >> 1) & 0x3333_3333_3333_3333;
    number = (number | number >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    number = (number | number >> 4) & 0x00ff_00ff_00ff_00ff;
    number = (number | number >> 8) & 0x0000_ffff_0000_ffff;
    (number | number >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(longitude: f64, latitude: f64) -> Point {
        Point { longitude, latitude }
    }

    #[test]
    fn known_places() {
        let palermo = point(13.361389, 38.115556);
        assert_eq!(palermo.score(), 3479099956230698.0);
        let stored = Point::of_score(palermo.score());
        assert_eq!(&stored.geohash(), b"sqc8b49rny0");
        assert_eq!(
            (stored.longitude, stored.latitude),
            (13.361389338970184, 38.1155563954963)
        );
    }

    #[test]
    fn edges() {
        assert!(point(180.0, 85.05112878).is_valid() && point(-180.0, -85.05112878).is_valid());
        assert!(!point(180.1, 0.0).is_valid() && !point(0.0, 85.06).is_valid() && !point(f64::NAN, 0.0).is_valid());
        assert_eq!(
            (bits_of(-1.0), bits_of(f64::INFINITY), bits_of(f64::NEG_INFINITY)),
            (u64::MAX, 0, 1 << 63)
        );
        let corner = point(-180.0, -85.05112878).cell(3);
        assert_eq!(corner.neighbor(-1, 0).neighbor(1, 0), corner);
        assert_eq!(corner.neighbor(0, -1).area().latitude.1, 85.05112878);
    }

    proptest! {
        #[test]
        fn a_place_is_kept_within_its_cell(longitude in -180.0..180.0_f64, latitude in -85.0..85.0_f64) {
            let place = point(longitude, latitude);
            let kept = Point::of_score(place.score());
            prop_assert!((kept.longitude - longitude).abs() < 1e-5 && (kept.latitude - latitude).abs() < 1e-5);
            for step in 1..=STEPS_MAX {
                let Range { start: min, end: max } = place.cell(step).scores();
                prop_assert!((min..max).contains(&place.score()));
                for (east, north) in [(1, 0), (0, 1), (1, -1), (-1, -1)] {
                    prop_assert_eq!(place.cell(step).neighbor(east, north).neighbor(-east, -north), place.cell(step));
                }
            }
        }
    }
}
