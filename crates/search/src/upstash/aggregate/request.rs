//! Aggregations in JSON.

use serde_json::{Map, Value as Json};

use crate::upstash::automata::Automaton;
use crate::upstash::schema::{FieldType, Schema, TypedField};
use crate::upstash::value::facet;

/// Deepest nesting of aggregations.
const DEPTH_MAX: usize = 8;

/// Most aggregations of a request.
const AGGREGATIONS_MAX: usize = 128;

/// Longest request, in bytes.
const BYTES_MAX: usize = 1 << 20;

/// Default and greatest number of groups in the answers of $terms and $facet.
const SIZE: usize = 10;
const SIZE_MAX: u64 = 65_000;

/// The width of $extendedStats' bounds, in standard deviations.
const SIGMA: f64 = 2.0;

const PERCENTS: [f64; 7] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];

/// A named aggregation.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// Its name in the answer.
    pub name: String,
    pub(super) field: u16,
    pub(super) kind: FieldType,
    pub(super) operator: Operator,
    /// The aggregations that are computed for each group.
    pub(super) inner: Vec<Aggregation>,
}

#[derive(Clone, Debug)]
pub enum Operator {
    Metric(Metric),
    Terms(Terms),
    Range { ranges: Vec<Range>, keyed: bool },
    Histogram(Histogram),
    Facet(Facet),
}

#[derive(Clone, Debug)]
pub struct Metric {
    pub figure: MetricFigure,
    pub missing: Option<f64>,
    /// The value that documents without one count as, for $cardinality.
    pub missing_key: Option<String>,
}

#[derive(Clone, Debug)]
pub enum MetricFigure {
    Avg,
    Sum,
    Min,
    Max,
    Count,
    Cardinality,
    Stats,
    Extended(f64),
    Percentiles { percents: Vec<f64>, keyed: bool },
}

#[derive(Clone, Debug)]
pub struct Terms {
    pub size: usize,
    pub min_documents: u64,
    pub order: TermOrder,
    pub ascends: bool,
    pub missing: Option<Json>,
    pub include: Option<Chosen>,
    pub exclude: Option<Chosen>,
}

#[derive(Clone, Debug)]
pub enum TermOrder {
    Count,
    Key,
    /// A figure of an inner aggregation.
    Inner {
        name: String,
        part: Option<String>,
    },
}

/// Which terms are meant.
#[derive(Clone, Debug)]
pub enum Chosen {
    Listed(Vec<String>),
    Matching(Automaton),
}

#[derive(Clone, Debug)]
pub struct Range {
    pub key: Option<String>,
    pub from: Option<f64>,
    pub to: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct Histogram {
    pub interval: f64,
    pub offset: f64,
    pub min_documents: u64,
    pub hard: Option<(f64, f64)>,
    pub extended: Option<(f64, f64)>,
    pub keyed: bool,
}

#[derive(Clone, Debug)]
pub struct Facet {
    pub path: String,
    pub depth: usize,
    pub size: usize,
    pub min_documents: u64,
    pub by_path: bool,
    pub ascends: bool,
}

impl Aggregation {
    /// Reads the aggregations of a request.
    pub fn parse(schema: &Schema, request: &[u8]) -> Result<Vec<Aggregation>, String> {
        if request.len() > BYTES_MAX {
            return Err(format!("aggregations have at most {BYTES_MAX} bytes"));
        }
        let request: Json =
            serde_json::from_slice(request).map_err(|error| format!("invalid JSON in aggregations: {error}"))?;
        let Json::Object(request) = request else {
            return Err("aggregations must be a JSON object".into());
        };
        let mut count = 0;
        several(schema, &request, 0, &mut count)
    }
}

fn several(
    schema: &Schema,
    request: &Map<String, Json>,
    depth: usize,
    count: &mut usize,
) -> Result<Vec<Aggregation>, String> {
    if depth > DEPTH_MAX {
        return Err(format!("aggregations nest at most {DEPTH_MAX} deep"));
    }
    if request.is_empty() {
        return Err("at least one aggregation is expected".into());
    }
    let mut aggregations = Vec::new();
    for (name, value) in request {
        *count += 1;
        if *count > AGGREGATIONS_MAX {
            return Err(format!("a request has at most {AGGREGATIONS_MAX} aggregations"));
        }
        let Json::Object(parts) = value else {
            return Err(format!("Aggregation '{name}' must be a JSON object"));
        };
        aggregations.push(one(schema, name, parts, depth, count)?);
    }
    Ok(aggregations)
}

fn one(
    schema: &Schema,
    name: &str,
    parts: &Map<String, Json>,
    depth: usize,
    count: &mut usize,
) -> Result<Aggregation, String> {
    let mut operators = parts.iter().filter(|(part, _)| *part != "$aggs");
    let (Some((operator, options)), None) = (operators.next(), operators.next()) else {
        return Err(format!("Aggregation '{name}' must have exactly one operator"));
    };
    let of = Options {
        name,
        operator,
        options: options.as_object(),
    };
    let field = of.options.and_then(|options| options.get("field"));
    let missing = || format!("Aggregation '{name}' is missing required 'field' property");
    let field = field.and_then(Json::as_str).ok_or_else(missing)?;
    let unknown = || format!("Aggregation '{name}' names an unknown field '{field}'");
    let (number, field) = schema.find(field).ok_or_else(unknown)?;
    let parsed = of.operator(field)?;
    let is_always_fast = matches!(field.kind, FieldType::Keyword | FieldType::Facet);
    if !field.fast && !is_always_fast {
        let field = &field.name;
        return Err(format!(
            "Aggregation '{name}' operator '{operator}' requires field '{field}' to be FAST"
        ));
    }
    let inner = match parts.get("$aggs") {
        None => Vec::new(),
        Some(_) if matches!(parsed, Operator::Metric(_) | Operator::Facet(_)) => {
            return Err(format!(
                "Aggregation '{name}' operator '{operator}' does not support $aggs"
            ));
        }
        Some(Json::Object(inner)) => several(schema, inner, depth + 1, count)?,
        Some(_) => return Err(format!("$aggs of aggregation '{name}' must be a JSON object")),
    };
    if depth > 0 && matches!(parsed, Operator::Facet(_)) {
        return Err(format!("Aggregation '{name}' operator '$facet' cannot stand in $aggs"));
    }
    if let Operator::Terms(terms) = &parsed
        && let TermOrder::Inner { name: ordering, .. } = &terms.order
        && !inner
            .iter()
            .any(|inner| inner.name == *ordering && matches!(inner.operator, Operator::Metric(_)))
    {
        return Err(format!(
            "Aggregation '{name}' is ordered by '{ordering}', which is no metric of its $aggs"
        ));
    }
    Ok(Aggregation {
        name: name.to_owned(),
        field: number,
        kind: field.kind,
        operator: parsed,
        inner,
    })
}

/// The options of one operator.
struct Options<'o> {
    name: &'o str,
    operator: &'o str,
    options: Option<&'o Map<String, Json>>,
}

impl Options<'_> {
    fn operator(&self, field: &TypedField) -> Result<Operator, String> {
        let (fits, operator) = match self.metric(field.kind)? {
            Some((fits, metric)) => (fits, Ok(Operator::Metric(metric))),
            None => self.buckets(field.kind)?,
        };
        if fits {
            return operator;
        }
        let (name, of) = (&field.name, field.kind.name());
        // As Upstash says it of a field that can never be FAST.
        Err(match field.kind.is_text() {
            true => self.wrong(&format!("requires field '{name}' to be FAST")),
            false => self.wrong(&format!("does not support field '{name}' of type {of}")),
        })
    }

    /// The metric of an operator, and true if fields of this type have it. None if the operator
    /// makes buckets.
    fn metric(&self, kind: FieldType) -> Result<Option<(bool, Metric)>, String> {
        let is_date = kind == FieldType::Date;
        let is_number = kind.is_numeric() || is_date;
        let is_scalar = is_number || kind == FieldType::Bool;
        let (fits, figure) = match self.operator {
            "$avg" => (is_scalar, MetricFigure::Avg),
            "$sum" => (is_scalar, MetricFigure::Sum),
            "$min" => (is_scalar, MetricFigure::Min),
            "$max" => (is_scalar, MetricFigure::Max),
            "$stats" => (is_scalar, MetricFigure::Stats),
            "$count" => (!kind.is_text(), MetricFigure::Count),
            "$extendedStats" => {
                let sigma = self.number("sigma")?.unwrap_or(SIGMA);
                (is_number, MetricFigure::Extended(sigma))
            }
            "$percentiles" => (is_number, self.percentiles()?),
            "$cardinality" => {
                let missing_key = self.get("missing").map(|missing| match missing {
                    Json::String(text) => text.clone(),
                    other => other.to_string(),
                });
                let metric = Metric {
                    figure: MetricFigure::Cardinality,
                    missing: None,
                    missing_key,
                };
                return Ok(Some((!kind.is_text(), metric)));
            }
            _ => return Ok(None),
        };
        let metric = Metric {
            figure,
            missing: self.number("missing")?,
            missing_key: None,
        };
        Ok(Some((fits, metric)))
    }

    /// The buckets of an operator, and true if fields of this type have them.
    fn buckets(&self, kind: FieldType) -> Result<(bool, Result<Operator, String>), String> {
        let is_date = kind == FieldType::Date;
        let is_number = kind.is_numeric() || is_date;
        let is_key = kind == FieldType::Bool || kind == FieldType::Keyword;
        Ok(match self.operator {
            "$terms" => (is_number || is_key, self.terms().map(Operator::Terms)),
            "$range" => (is_number, self.ranges()),
            "$histogram" => (is_number, self.histogram(self.required("interval")?, false)),
            "$dateHistogram" => {
                let interval = self.duration("fixedInterval")?.unwrap_or(f64::NAN);
                (is_date, self.histogram(interval, true))
            }
            "$facet" => (kind == FieldType::Facet, self.facet().map(Operator::Facet)),
            unknown => {
                let name = self.name;
                return Err(format!("Aggregation '{name}' has an unknown operator '{unknown}'"));
            }
        })
    }

    fn wrong(&self, reason: &str) -> String {
        format!("Aggregation '{}' operator '{}' {reason}", self.name, self.operator)
    }

    fn get(&self, option: &str) -> Option<&Json> {
        self.options?.get(option).filter(|value| !value.is_null())
    }

    fn number(&self, option: &str) -> Result<Option<f64>, String> {
        let Some(value) = self.get(option) else {
            return Ok(None);
        };
        let wrong = || self.wrong(&format!("takes a number as '{option}'"));
        value.as_f64().map(Some).ok_or_else(wrong)
    }

    fn required(&self, option: &str) -> Result<f64, String> {
        let missing = || self.wrong(&format!("is missing required '{option}' property"));
        self.number(option)?.ok_or_else(missing)
    }

    fn whole(&self, option: &str, default: u64, max: u64) -> Result<u64, String> {
        let Some(value) = self.get(option) else {
            return Ok(default);
        };
        let wrong = || self.wrong(&format!("takes a whole number up to {max} as '{option}'"));
        value.as_u64().filter(|number| *number <= max).ok_or_else(wrong)
    }

    fn truth(&self, option: &str, default: bool) -> Result<bool, String> {
        let Some(value) = self.get(option) else {
            return Ok(default);
        };
        let wrong = || self.wrong(&format!("takes true or false as '{option}'"));
        value.as_bool().ok_or_else(wrong)
    }

    fn percentiles(&self) -> Result<MetricFigure, String> {
        let keyed = self.truth("keyed", true)?;
        let percents = match self.get("percents") {
            None => PERCENTS.to_vec(),
            Some(value) => {
                let wrong = || self.wrong("takes numbers from 0 to 100 as 'percents'");
                let list = value
                    .as_array()
                    .filter(|list| list.len() <= AGGREGATIONS_MAX)
                    .ok_or_else(wrong)?;
                let numbers = list
                    .iter()
                    .map(|value| value.as_f64().filter(|number| (0.0..=100.0).contains(number)));
                numbers.collect::<Option<_>>().ok_or_else(wrong)?
            }
        };
        Ok(MetricFigure::Percentiles { percents, keyed })
    }

    /// The one property of `order`, and whether it ascends.
    fn order(&self) -> Result<Option<(&str, bool)>, String> {
        let Some(order) = self.get("order") else {
            return Ok(None);
        };
        let wrong = || self.wrong("takes one property with \"asc\" or \"desc\" as 'order'");
        let order = order.as_object().filter(|order| order.len() == 1).ok_or_else(wrong)?;
        let (by, direction) = order.iter().next().expect("there is one");
        match direction.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("asc") => Ok(Some((by, true))),
            Some("desc") => Ok(Some((by, false))),
            _ => Err(wrong()),
        }
    }

    fn terms(&self) -> Result<Terms, String> {
        let (order, ascends) = match self.order()? {
            None => (TermOrder::Count, false),
            Some(("count" | "_count", ascends)) => (TermOrder::Count, ascends),
            Some(("key" | "_key", ascends)) => (TermOrder::Key, ascends),
            Some((name, ascends)) => {
                let (name, part) = match name.split_once('.') {
                    Some((name, part)) => (name, Some(part.to_owned())),
                    None => (name, None),
                };
                let name = name.to_owned();
                (TermOrder::Inner { name, part }, ascends)
            }
        };
        Ok(Terms {
            size: self.whole("size", SIZE as u64, SIZE_MAX)? as usize,
            min_documents: self.whole("minDocCount", 1, u64::MAX)?,
            order,
            ascends,
            missing: self.get("missing").cloned(),
            include: self.chosen("include")?,
            exclude: self.chosen("exclude")?,
        })
    }

    fn chosen(&self, option: &str) -> Result<Option<Chosen>, String> {
        let wrong = || self.wrong(&format!("takes a regular expression or strings as '{option}'"));
        Ok(match self.get(option) {
            None => None,
            Some(Json::String(pattern)) => {
                let automaton = Automaton::exact_regex(pattern);
                Some(Chosen::Matching(automaton.map_err(|reason| self.wrong(&reason))?))
            }
            Some(Json::Array(list)) => {
                let texts = list.iter().map(|value| value.as_str().map(str::to_owned));
                Some(Chosen::Listed(texts.collect::<Option<_>>().ok_or_else(wrong)?))
            }
            Some(_) => return Err(wrong()),
        })
    }

    /// Ranges in their order, with those between and around them, so that every value is in one.
    fn ranges(&self) -> Result<Operator, String> {
        let wrong = || self.wrong("takes an array of objects with 'from' and 'to' as 'ranges'");
        let list = self
            .get("ranges")
            .and_then(Json::as_array)
            .filter(|list| !list.is_empty());
        let mut percents = Vec::new();
        for range in list.filter(|list| list.len() <= AGGREGATIONS_MAX).ok_or_else(wrong)? {
            let range = range.as_object().ok_or_else(wrong)?;
            let end = |option: &str| match range.get(option) {
                None | Some(Json::Null) => Ok(None),
                Some(value) => value.as_f64().map(Some).ok_or_else(wrong),
            };
            let key = range.get("key").and_then(Json::as_str).map(str::to_owned);
            let range = Range {
                key,
                from: end("from")?,
                to: end("to")?,
            };
            percents.push(range);
        }
        let start = |range: &Range| range.from.unwrap_or(f64::NEG_INFINITY);
        let end = |range: &Range| range.to.unwrap_or(f64::INFINITY);
        percents.sort_by(|a, b| start(a).total_cmp(&start(b)));
        let (mut ranges, mut last) = (Vec::new(), f64::NEG_INFINITY);
        let between = |from: f64, to: f64| Range {
            key: None,
            from: from.is_finite().then_some(from),
            to: to.is_finite().then_some(to),
        };
        for range in percents {
            if start(&range) < last || end(&range) <= start(&range) {
                return Err(self.wrong("takes 'ranges' that do not overlap"));
            }
            if start(&range) > last {
                ranges.push(between(last, start(&range)));
            }
            last = end(&range);
            ranges.push(range);
        }
        if last < f64::INFINITY {
            ranges.push(between(last, f64::INFINITY));
        }
        let keyed = self.truth("keyed", false)?;
        Ok(Operator::Range { ranges, keyed })
    }

    fn histogram(&self, interval: f64, is_of_dates: bool) -> Result<Operator, String> {
        if is_of_dates && interval.is_nan() {
            return Err(self.wrong("is missing required 'fixedInterval' property"));
        }
        if !(interval > 0.0 && interval.is_finite()) {
            return Err(self.wrong("takes an interval above 0"));
        }
        let offset = match is_of_dates {
            true => self.duration("offset")?,
            false => self.number("offset")?,
        };
        Ok(Operator::Histogram(Histogram {
            interval,
            offset: offset.unwrap_or(0.0),
            min_documents: self.whole("minDocCount", 0, u64::MAX)?,
            hard: self.bounds("hardBounds")?,
            extended: self.bounds("extendedBounds")?,
            keyed: self.truth("keyed", false)?,
        }))
    }

    fn bounds(&self, option: &str) -> Result<Option<(f64, f64)>, String> {
        let Some(value) = self.get(option) else {
            return Ok(None);
        };
        let end = |end: &str| value.get(end).and_then(Json::as_f64);
        let wrong = || self.wrong(&format!("takes numbers 'min' and 'max' in '{option}'"));
        match (end("min"), end("max")) {
            (Some(min), Some(max)) if min <= max => Ok(Some((min, max))),
            _ => Err(wrong()),
        }
    }

    /// Milliseconds, from a number with the suffix `ms`, `s`, `m`, `h` or `d`.
    fn duration(&self, option: &str) -> Result<Option<f64>, String> {
        let Some(value) = self.get(option) else {
            return Ok(None);
        };
        let wrong = || self.wrong(&format!("takes a duration such as \"1d\" as '{option}'"));
        let text = value.as_str().ok_or_else(wrong)?;
        let end = text.find(|byte: char| byte.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let factor = match &text[end..] {
            "ms" => 1.0,
            "s" => 1000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return Err(wrong()),
        };
        let number: i64 = text[..end].parse().map_err(|_| wrong())?;
        Ok(Some(number as f64 * factor))
    }

    fn facet(&self) -> Result<Facet, String> {
        let path = self.get("path").and_then(Json::as_str).and_then(facet);
        let path = path.ok_or_else(|| self.wrong("takes a 'path' that begins with /"))?;
        let (is_by_path, ascends) = match self.order()? {
            None | Some(("count", false)) => (false, false),
            Some(("count", true)) => (false, true),
            Some(("path", ascends)) => (true, ascends),
            Some(_) => return Err(self.wrong("is ordered by 'count' or 'path'")),
        };
        let depth = self.whole("depth", 1, 64)? as usize;
        if depth == 0 {
            return Err(self.wrong("takes a 'depth' from 1 on"));
        }
        Ok(Facet {
            path,
            depth,
            size: self.whole("size", SIZE as u64, SIZE_MAX)? as usize,
            min_documents: self.whole("minDocCount", 1, u64::MAX)?,
            by_path: is_by_path,
            ascends,
        })
    }
}
