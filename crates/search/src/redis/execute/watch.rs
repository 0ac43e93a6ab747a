//! The steps of a search: the calls of each condition and their time.

use std::fmt;
use std::rc::Rc;

use crate::hits::Step;
use crate::index::doc_sets::DocSet;
use crate::index::schema::Schema;
use crate::redis::aggregate::Value;
use crate::redis::execute::matcher::Matcher;
use crate::redis::query::{Affix, Node, NodeKind};
use crate::rows::{DocumentId, Rows};

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

/// A matcher whose steps are counted.
pub(super) struct Watched {
    pub matcher: Matcher,
    clock: Clock,
    step: Step,
    last: Option<DocumentId>,
}

impl DocSet for Watched {
    fn doc(&self) -> Option<DocumentId> {
        self.matcher.doc()
    }

    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        let started_micros = self.clock.micros();
        let reached = self.matcher.seek(rows, id);
        self.step.micros += self.clock.micros().saturating_sub(started_micros);
        // A repeated seek to the current document counts no read.
        self.step.reads += u64::from(reached.is_some() && reached != self.last);
        self.last = reached;
        reached
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
    let step_of_kind = |kind| Step {
        kind,
        ..Step::default()
    };
    let united = |united: String| Step {
        united: Some(united),
        ..step_of_kind("UNION")
    };
    let has_one_child = true;
    match (matcher, &node.kind) {
        (Matcher::Empty, _) => step_of_kind("EMPTY"),
        (Matcher::Words(_) | Matcher::Rows { term: Some(_), .. }, _) => step_of_term(matcher),
        (Matcher::Any { .. }, NodeKind::Affix(affix)) => united(pattern(affix)),
        (Matcher::Any { .. }, NodeKind::Tag { .. }) => united("TAG".into()),
        (Matcher::Any { .. }, _) => united("UNION".into()),
        (Matcher::Every(_), _) => step_of_kind("INTERSECT"),
        (Matcher::Not { .. }, _) => Step {
            has_one_child,
            ..step_of_kind("NOT")
        },
        (Matcher::Optional { .. }, _) => Step {
            has_one_child,
            ..step_of_kind("OPTIONAL")
        },
        (Matcher::All(..), _) => step_of_kind("WILDCARD"),
        (Matcher::Near { .. }, _) => Step {
            mode: Some("RANGE_QUERY"),
            ..step_of_kind("METRIC SORTED BY ID - VECTOR DISTANCE")
        },
        (Matcher::Ids(ids), NodeKind::Numeric(range)) => {
            let [from, to] = [range.from, range.to].map(|number| Value::Number(number).to_string());
            Step {
                about: Some(("Term", format!("{from} - {to}").into_bytes())),
                size: Some(ids.count() as u64),
                ..step_of_kind("NUMERIC")
            }
        }
        (Matcher::Ids(ids), NodeKind::Geo { field, .. }) => Step {
            about: Some(("Term", schema.field(*field).name.clone().into_bytes())),
            size: Some(ids.count() as u64),
            ..step_of_kind("GEO")
        },
        (Matcher::Ids(_), NodeKind::Shape(_)) => step_of_kind("GEO-SHAPE"),
        (Matcher::Ids(_), _) => step_of_kind("ID-LIST-SORTED"),
        (Matcher::Rows { term: None, .. }, NodeKind::Missing(field)) => Step {
            about: Some(("Field", schema.field(*field).name.clone().into_bytes())),
            ..step_of_kind("MISSING")
        },
        (Matcher::Rows { term: None, .. }, _) => step_of_kind("MISSING"),
        (Matcher::Watched(_), _) => step_of_kind("UNION"),
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
