//! The output of metrics: the Prometheus text format, or any other receiver of families, values and
//! histograms.

use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things, or a ratio.
    None,
    Bytes,
    Seconds,
}

impl Unit {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
        }
    }

    /// The word of UCUM, as OTLP has it.
    pub fn code(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Bytes => "By",
            Unit::Seconds => "s",
        }
    }
}

/// The facts that the samples of a metric share.
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: Unit,
    pub help: &'static str,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

pub type Labels<'l> = &'l [(&'l str, &'l str)];

/// The numbers of durations up to each bound, in microseconds; the bounds ascend.
pub struct Buckets {
    pub within: Vec<(u64, u64)>,
    pub count: u64,
    pub micros: u64,
}

pub trait Exposition {
    /// Starts a metric: the samples written next belong to it.
    fn family(&mut self, family: &Family);

    fn value(&mut self, labels: Labels<'_>, value: f64);

    fn histogram(&mut self, labels: Labels<'_>, buckets: &Buckets);

    /// About how many bytes more it should take.
    fn room(&self) -> usize;
}

pub fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Upper bound on the page of metrics, for any number of databases.
const TEXT_BYTES_MAX: usize = 950_000;

/// The Prometheus text format, version 0.0.4.
#[derive(Default)]
pub struct Text {
    pub text: String,
    name: &'static str,
}

impl Text {
    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&str>, value: impl std::fmt::Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in all {
            let _ = write!(self.text, "{separator}{name}=\"");
            self.push_escaped(value);
            self.text.push('"');
            separator = ',';
        }
        let close = if separator == ',' { "}" } else { "" };
        let _ = writeln!(self.text, "{close} {value}");
    }

    /// Adds a label's value. Users choose the names of indexes, so any character may be in it.
    fn push_escaped(&mut self, value: &str) {
        for character in value.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }
}

impl Exposition for Text {
    fn family(&mut self, family: &Family) {
        let Family { name, kind, help, .. } = family;
        self.name = name;
        let kind = kind.name();
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, labels: Labels<'_>, value: f64) {
        self.line("", labels, None, value);
    }

    fn histogram(&mut self, labels: Labels<'_>, buckets: &Buckets) {
        for (bound, within) in &buckets.within {
            self.line("_bucket", labels, Some(&seconds(*bound).to_string()), within);
        }
        self.line("_bucket", labels, Some("+Inf"), buckets.count);
        self.line("_sum", labels, None, seconds(buckets.micros));
        self.line("_count", labels, None, buckets.count);
    }

    fn room(&self) -> usize {
        TEXT_BYTES_MAX.saturating_sub(self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_a_line_for_each_value() {
        let mut text = Text::default();
        text.family(&Family {
            name: "one",
            kind: Kind::Gauge,
            unit: Unit::None,
            help: "First.",
        });
        text.value(&[], 1.5);
        text.family(&Family {
            name: "two_seconds",
            kind: Kind::Histogram,
            unit: Unit::Seconds,
            help: "Second.",
        });
        let buckets = Buckets {
            within: vec![(1000, 2), (1_000_000, 3)],
            count: 4,
            micros: 2_500_000,
        };
        text.histogram(&[("layer", "fauna")], &buckets);
        let expected = "# HELP one First.\n# TYPE one gauge\none 1.5\n\
                        # HELP two_seconds Second.\n# TYPE two_seconds histogram\n\
                        two_seconds_bucket{layer=\"fauna\",le=\"0.001\"} 2\n\
                        two_seconds_bucket{layer=\"fauna\",le=\"1\"} 3\n\
                        two_seconds_bucket{layer=\"fauna\",le=\"+Inf\"} 4\n\
                        two_seconds_sum{layer=\"fauna\"} 2.5\n\
                        two_seconds_count{layer=\"fauna\"} 4\n";
        assert_eq!(text.text, expected);
        assert_eq!(text.room(), TEXT_BYTES_MAX - expected.len());
    }

    #[test]
    fn any_name_is_one_label() {
        let mut text = Text::default();
        text.value(&[("index", "a\"} 1\nb{c=\"\\n\u{e9}")], 2.0);
        assert_eq!(text.text, "{index=\"a\\\"} 1\\nb{c=\\\"\\\\n\u{e9}\"} 2\n");
    }
}
