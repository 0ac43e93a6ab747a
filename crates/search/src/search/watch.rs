//! The steps of a search: the calls of each condition and their time.

use std::fmt;
use std::rc::Rc;

use crate::Schema;
use crate::aggregate::Value;
use crate::layout::DocumentId;
use crate::query::{Affix, Node, NodeKind};
use crate::rows::Rows;
use crate::search::matcher::Matcher;

/// Returns the time in microseconds.
#[derive(Clone)]
pub struct Clock(Rc<dyn Fn() -> u64>);

impl Clock {
    /// A clock from this function.
    pub fn new(micros: impl Fn() -> u64 + 'static) -> Clock {
        Clock(Rc::new(micros))
    }

    /// Microseconds since a moment of its own.
    pub fn micros(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Clock")
    }
}

/// One condition of a search as it was executed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The original's word for it.
    pub kind: &'static str,
    /// The kind of alternatives of a union.
    pub united: Option<String>,
    /// The term, range or field of the condition, after the original's word for it.
    pub about: Option<(&'static str, Vec<u8>)>,
    /// Its duration, including its children.
    pub micros: u64,
    /// The number of documents that it found.
    pub reads: u64,
    /// The number of its documents, if that is known.
    pub size: Option<u64>,
    /// The original's word for how vectors were compared.
    pub mode: Option<&'static str>,
    /// The conditions below it.
    pub children: Vec<Step>,
    /// There is never more than one child.
    pub has_one_child: bool,
}

/// A matcher whose steps are counted.
pub(super) struct Watched {
    pub matcher: Matcher,
    clock: Clock,
    step: Step,
    last: Option<DocumentId>,
}

impl Watched {
    pub fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        let started_micros = self.clock.micros();
        let found = self.matcher.seek(rows, id);
        self.step.micros += self.clock.micros().saturating_sub(started_micros);
        // A repeated seek to the current document counts no read.
        self.step.reads += u64::from(found.is_some() && found != self.last);
        self.last = found;
        found
    }
}

pub(super) fn watched(matcher: Matcher, node: &Node, schema: &Schema, clock: &Clock) -> Matcher {
    let step = step_of(&matcher, node, schema);
    Matcher::Watched(Box::new(Watched {
        matcher: with_watched_terms(matcher, clock),
        clock: clock.clone(),
        step,
        last: None,
    }))
}

/// The terms of a pattern or of a TAG condition are no nodes of the query.
fn with_watched_terms(matcher: Matcher, clock: &Clock) -> Matcher {
    let Matcher::Any {
        children,
        stands,
        at,
        weight,
        is_written: false,
    } = matcher
    else {
        return matcher;
    };
    let children = children.into_iter().map(|child| {
        let step = step_of_term(&child);
        Matcher::Watched(Box::new(Watched {
            matcher: with_watched_terms(child, clock),
            clock: clock.clone(),
            step,
            last: None,
        }))
    });
    Matcher::Any {
        children: children.collect(),
        stands,
        at,
        weight,
        is_written: false,
    }
}

fn step_of_term(matcher: &Matcher) -> Step {
    match matcher {
        Matcher::Words(words) => Step {
            kind: "TEXT",
            about: Some(("Term", words.term.clone())),
            size: Some(words.documents),
            ..Step::default()
        },
        Matcher::Rows { term: Some(term), .. } => Step {
            kind: "TAG",
            about: Some(("Term", term.text.clone())),
            size: Some(term.documents),
            ..Step::default()
        },
        _ => Step {
            kind: "UNION",
            united: Some("TAG".into()),
            ..Step::default()
        },
    }
}

fn step_of(matcher: &Matcher, node: &Node, schema: &Schema) -> Step {
    let of_kind = |kind| Step {
        kind,
        ..Step::default()
    };
    let united = |united: String| Step {
        united: Some(united),
        ..of_kind("UNION")
    };
    let has_one_child = true;
    match (matcher, &node.kind) {
        (Matcher::Empty, _) => of_kind("EMPTY"),
        (Matcher::Words(_) | Matcher::Rows { term: Some(_), .. }, _) => step_of_term(matcher),
        (Matcher::Any { .. }, NodeKind::Affix(affix)) => united(pattern(affix)),
        (Matcher::Any { .. }, NodeKind::Tag { .. }) => united("TAG".into()),
        (Matcher::Any { .. }, _) => united("UNION".into()),
        (Matcher::Every(_), _) => of_kind("INTERSECT"),
        (Matcher::Not { .. }, _) => Step {
            has_one_child,
            ..of_kind("NOT")
        },
        (Matcher::Optional { .. }, _) => Step {
            has_one_child,
            ..of_kind("OPTIONAL")
        },
        (Matcher::All(..), _) => of_kind("WILDCARD"),
        (Matcher::Near { .. }, _) => Step {
            mode: Some("RANGE_QUERY"),
            ..of_kind("METRIC SORTED BY ID - VECTOR DISTANCE")
        },
        (Matcher::Ids(ids), NodeKind::Numeric(range)) => {
            let [from, to] = [range.from, range.to].map(|number| Value::Number(number).to_string());
            Step {
                about: Some(("Term", format!("{from} - {to}").into_bytes())),
                size: Some(ids.count() as u64),
                ..of_kind("NUMERIC")
            }
        }
        (Matcher::Ids(ids), NodeKind::Geo { field, .. }) => Step {
            about: Some(("Term", schema.field(*field).name.clone().into_bytes())),
            size: Some(ids.count() as u64),
            ..of_kind("GEO")
        },
        (Matcher::Ids(_), NodeKind::Shape(_)) => of_kind("GEO-SHAPE"),
        (Matcher::Ids(_), _) => of_kind("ID-LIST-SORTED"),
        (Matcher::Rows { term: None, .. }, NodeKind::Missing(field)) => Step {
            about: Some(("Field", schema.field(*field).name.clone().into_bytes())),
            ..of_kind("MISSING")
        },
        (Matcher::Rows { term: None, .. }, _) => of_kind("MISSING"),
        (Matcher::Watched(_), _) => of_kind("UNION"),
    }
}

fn pattern(affix: &Affix) -> String {
    let (kind, text) = match affix {
        Affix::Prefix(text) | Affix::Suffix(text) | Affix::Infix(text) => ("PREFIX", text),
        Affix::Wildcard(text) => ("WILDCARD", text),
        Affix::Fuzzy(text, _) => ("FUZZY", text),
    };
    format!("{kind} - {}", String::from_utf8_lossy(text))
}

impl Step {
    /// The steps of a matcher that was watched.
    pub(super) fn of(matcher: &Matcher) -> Option<Step> {
        let Matcher::Watched(watched) = matcher else {
            return None;
        };
        let children: Vec<&Matcher> = match &watched.matcher {
            Matcher::Every(every) => every.children.iter().collect(),
            Matcher::Any { children, .. } => children.iter().collect(),
            Matcher::Not { child, .. } | Matcher::Optional { child, .. } => vec![child],
            // An intersection or a union is left with one condition.
            only @ Matcher::Watched(_) => return Step::of(only),
            _ => Vec::new(),
        };
        let mut step = watched.step.clone();
        step.children = children.into_iter().filter_map(Step::of).collect();
        // Alternatives are replaced by their only child that has documents.
        let is_alone = matches!(watched.matcher, Matcher::Any { .. }) && step.children.len() == 1;
        if is_alone {
            return step.children.pop();
        }
        Some(step)
    }
}
