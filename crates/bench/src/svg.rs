//! The two drawings of a cell, as inline SVG: latency by percentile, and the histogram. The page
//! defines the colours.
//!
//! Both axes of the curve are logarithmic: to the right by how rare a latency is (90%, 99%, 99.9%
//! at equal distances), upwards by its size. A tail a hundred times the median stays on the page
//! that way, and the median stays readable.

use crate::results::{Cell, Latency};
use std::fmt::Write;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 36.0;

/// Latency by percentile.
pub fn curve(cell: &Cell) -> String {
    let latency = &cell.latency_us;
    let nines = (cell.requests as f64).log10().max(1.0);
    let x = Axis::new(0.0, nines, LEFT, WIDTH - RIGHT);
    let y = latency_axis(latency, HEIGHT - BOTTOM, TOP);
    let mut svg = start(&format!(
        "Latency by percentile, {}, parallelism {}",
        cell.test, cell.parallelism
    ));
    for (decade, label) in [
        (0.0, "0%"),
        (1.0, "90%"),
        (2.0, "99%"),
        (3.0, "99.9%"),
        (4.0, "99.99%"),
        (5.0, "99.999%"),
    ] {
        if decade <= nines {
            vertical_grid(&mut svg, x.at(decade), label);
        }
    }
    for (us, label) in latency_ticks(&y) {
        horizontal_grid(&mut svg, y.at(us.log10()), &label);
    }
    let _ = write!(svg, "<polyline class=\"curve\" points=\"");
    for point in &latency.curve {
        let rarity = -(1.0 - point.percentile).log10();
        let _ = write!(
            svg,
            "{:.1},{:.1} ",
            x.at(rarity.min(nines)),
            y.at(logarithm(point.latency_us))
        );
    }
    svg.push_str("\"/>");
    for point in &latency.percentiles {
        let rarity = -(1.0 - point.percentile).log10();
        let (x, y) = (x.at(rarity.min(nines)), y.at(logarithm(point.latency_us)));
        let percent = point.percentile * 100.0;
        let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>");
        let _ = write!(svg, "{percent}%: {} µs</title></circle>", point.latency_us);
    }
    svg + "</svg>"
}

/// A histogram of the requests' durations.
pub fn histogram(cell: &Cell) -> String {
    let latency = &cell.latency_us;
    let x = latency_axis(latency, LEFT, WIDTH - RIGHT);
    let count_max = latency.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1) as f64;
    let y = Axis::new(0.0, count_max, HEIGHT - BOTTOM, TOP);
    let mut svg = start(&format!(
        "Requests by latency, {}, parallelism {}",
        cell.test, cell.parallelism
    ));
    for (us, label) in latency_ticks(&x) {
        vertical_grid(&mut svg, x.at(us.log10()), &label);
    }
    for part in [0.0, 0.5, 1.0] {
        horizontal_grid(&mut svg, y.at(count_max * part), &format!("{:.0}", count_max * part));
    }
    for bucket in &latency.buckets {
        let (from, to) = (x.at(logarithm(bucket.from_us)), x.at(logarithm(bucket.to_us)));
        let (top, bottom) = (y.at(bucket.count as f64), y.at(0.0));
        let (width, height) = ((to - from - 1.0).max(0.5), bottom - top);
        let _ = write!(
            svg,
            "<rect class=\"bar\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>"
        );
        let _ = write!(
            svg,
            "{} to {} µs: {}</title></rect>",
            bucket.from_us,
            bucket.to_us - 1,
            bucket.count
        );
    }
    svg + "</svg>"
}

/// A linear map from values to positions.
struct Axis {
    from: f64,
    to: f64,
    position_from: f64,
    position_to: f64,
}

impl Axis {
    fn new(from: f64, to: f64, position_from: f64, position_to: f64) -> Axis {
        Axis {
            from,
            to,
            position_from,
            position_to,
        }
    }

    fn at(&self, value: f64) -> f64 {
        self.position_from + (value - self.from) / (self.to - self.from) * (self.position_to - self.position_from)
    }
}

/// The decimal logarithm of microseconds, from the shortest latency to the longest with a little
/// room.
fn latency_axis(latency: &Latency, position_from: f64, position_to: f64) -> Axis {
    Axis::new(
        logarithm(latency.min) - 0.1,
        logarithm(latency.max) + 0.1,
        position_from,
        position_to,
    )
}

fn logarithm(us: u64) -> f64 {
    (us.max(1) as f64).log10()
}

/// 1, 2 and 5 of each decade within the axis; only 1 if it spans more than two decades.
fn latency_ticks(axis: &Axis) -> Vec<(f64, String)> {
    let steps: &[f64] = if axis.to - axis.from > 2.0 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let decades = axis.from.floor() as i32..=axis.to.ceil() as i32;
    let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
    all.filter(|us| (axis.from..=axis.to).contains(&us.log10()))
        .map(|us| (us, duration(us)))
        .collect()
}

fn duration(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", us / 1e6),
        us if us >= 1e3 => format!("{} ms", us / 1e3),
        us => format!("{us} µs"),
    }
}

fn start(title: &str) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">"#)
}

fn vertical_grid(svg: &mut String, x: f64, label: &str) {
    let bottom = HEIGHT - BOTTOM;
    let text_y = bottom + 18.0;
    let _ = write!(
        svg,
        r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{bottom}"/>"#
    );
    let _ = write!(
        svg,
        r#"<text x="{x:.1}" y="{text_y}" text-anchor="middle">{label}</text>"#
    );
}

fn horizontal_grid(svg: &mut String, y: f64, label: &str) {
    let right = WIDTH - RIGHT;
    let (text_x, text_y) = (LEFT - 6.0, y + 4.0);
    let _ = write!(
        svg,
        r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/>"#
    );
    let _ = write!(
        svg,
        r#"<text x="{text_x}" y="{text_y:.1}" text-anchor="end">{label}</text>"#
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::samples;

    #[test]
    fn the_drawings_stay_finite_and_inside() {
        let cell = &samples::results("product", "read").cells[0];
        let svg = curve(cell);
        assert!(svg.contains("99.9%") && svg.contains("1 ms") && !svg.contains("NaN") && !svg.contains("inf"));
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        for point in points.split_whitespace() {
            let (x, y) = point.split_once(',').unwrap();
            assert!(
                (LEFT - 0.1..=WIDTH - RIGHT + 0.1).contains(&x.parse::<f64>().unwrap()),
                "{point}"
            );
            assert!((TOP..=HEIGHT - BOTTOM).contains(&y.parse::<f64>().unwrap()), "{point}");
        }
        assert_eq!(histogram(cell).matches("<rect").count(), cell.latency_us.buckets.len());
    }
}
