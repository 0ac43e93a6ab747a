//! Looks up a query's words at this snapshot, and makes the matchers that walk their documents.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::analysis::folded;
use crate::document::DocumentRow;
use crate::geo::Circle;
use crate::index::{DocumentRows, State, count_of_numbers, gone, unsettled_documents};
use crate::layout::{DocumentId, after, cell_of, field_prefix, id_of};
use crate::layout::{number_prefix, place_prefix, tag_prefix, term_row};
use crate::postings::{Posting, Walk, documents_of};
use crate::query::{Affix, Node, NodeKind, NumberRange, Options, ShapeCondition, VectorRange};
use crate::rows::Rows;
use crate::schema::{ALL_FIELDS, FieldKind};
use crate::search::Request;
use crate::search::affixes;
use crate::search::comparison::{compare_all, kind_of};
use crate::search::matcher::{Matcher, Term, Words};
use crate::search::watch;
use crate::shapes::Shape;
use crate::walking::{IdRows, TermWalk};
use crate::{Schema, SearchError};

/// Rows of a range that are read between two looks at the time.
const ROWS_BETWEEN_CHECKS: u32 = 1024;

pub(super) struct Lookup<'l> {
    rows: &'l mut dyn Rows,
    schema: &'l Schema,
    request: &'l Request,
    is_over: &'l dyn Fn() -> bool,
    state: &'l State,
    unsettled: DocumentRows,
    gone: DocumentRows,
    gone_ids: Rc<BTreeSet<DocumentId>>,
    words: BTreeMap<Vec<u8>, Word>,
    /// The terms of each pattern, in the order in which the query has the patterns.
    patterns: VecDeque<Vec<Vec<u8>>>,
}

/// A term that the query asks for.
#[derive(Default)]
struct Word {
    /// How many documents have it.
    documents: u64,
    unsettled: Vec<Posting>,
    /// The term's row; empty if there is none.
    row: Vec<u8>,
}

impl<'l> Lookup<'l> {
    pub fn new(
        rows: &'l mut dyn Rows,
        schema: &'l Schema,
        state: &'l State,
        request: &'l Request,
        is_over: &'l dyn Fn() -> bool,
    ) -> Lookup<'l> {
        Lookup {
            rows,
            schema,
            request,
            is_over,
            state,
            unsettled: DocumentRows::new(),
            gone: DocumentRows::new(),
            gone_ids: Rc::default(),
            words: BTreeMap::new(),
            patterns: VecDeque::new(),
        }
    }

    /// Reads what is known of every term of the query.
    pub fn read(&mut self, root: &Node) -> Result<(), SearchError> {
        if has_terms(root) {
            self.unsettled = unsettled_documents(self.rows, self.state, usize::MAX);
            self.gone = gone(self.rows, usize::MAX);
            self.gone_ids = Rc::new(self.gone.iter().map(|(id, _)| *id).collect());
        }
        self.ask_for(root)?;
        for (term, word) in &mut self.words {
            word.row = self.rows.get(&term_row(term)).unwrap_or_default();
            if !word.row.is_empty() {
                word.documents = documents_of(&word.row).into();
            }
        }
        let (terms, mut words): (Vec<&[u8]>, Vec<&mut Word>) = self
            .words
            .iter_mut()
            .map(|(term, word)| (term.as_slice(), word))
            .unzip();
        for (_, row) in &self.gone {
            DocumentRow::read(row).find(terms.iter().copied(), |number, _| words[number].documents -= 1);
        }
        for (id, row) in &self.unsettled {
            DocumentRow::read(row).find(terms.iter().copied(), |number, at| {
                words[number].documents += 1;
                words[number].unsettled.push(Posting {
                    id: *id,
                    occurrences: at.to_owned(),
                });
            });
        }
        Ok(())
    }

    /// How many documents match, if that is known without looking at each. Call it after
    /// [`Lookup::read`].
    pub fn total(&mut self, root: &Node) -> Option<u64> {
        match &root.kind {
            NodeKind::Empty => Some(0),
            NodeKind::All => Some(self.state.documents),
            NodeKind::Word { term, .. } if root.options.fields == ALL_FIELDS => {
                self.words.get(term).map(|word| word.documents)
            }
            NodeKind::Numeric(range) => {
                let (start, end) = bounds(range)?;
                count_of_numbers(self.rows, range.field, (&start, &end))
            }
            NodeKind::Tag { field, values } => match values.as_slice() {
                [value] if !matches!(value.kind, NodeKind::Affix(_)) => {
                    let prefix = tag_prefix(*field, &self.tag_of_case(*field, &joined_words(value)));
                    Some(self.rows.count(&prefix, &after(&prefix)))
                }
                _ => None,
            },
            NodeKind::Missing(field) => {
                let prefix = field_prefix(b'i', *field);
                Some(self.rows.count(&prefix, &after(&prefix)))
            }
            _ => None,
        }
    }

    fn ask_for(&mut self, node: &Node) -> Result<(), SearchError> {
        if (self.is_over)() {
            return Err(SearchError::Timeout);
        }
        match &node.kind {
            NodeKind::Word { term, .. } => _ = self.words.entry(term.clone()).or_default(),
            NodeKind::Affix(affix) => {
                let terms = affixes::terms(self.rows, affix, (&self.unsettled, &self.gone), self.is_over)?;
                for term in &terms {
                    self.words.entry(term.clone()).or_default();
                }
                self.patterns.push_back(terms);
            }
            NodeKind::Every { children, .. } | NodeKind::Any(children) => {
                children.iter().try_for_each(|child| self.ask_for(child))?;
            }
            NodeKind::Not(child) | NodeKind::Optional(child) => self.ask_for(child)?,
            _ => {}
        }
        Ok(())
    }

    /// The matcher of the node whose terms were read.
    pub fn matcher(&mut self, node: &Node) -> Result<Matcher, SearchError> {
        let matcher = self.matcher_of(node)?;
        Ok(match &self.request.clock {
            Some(clock) => watch::watched(matcher, node, self.schema, clock),
            None => matcher,
        })
    }

    fn matcher_of(&mut self, node: &Node) -> Result<Matcher, SearchError> {
        Ok(match &node.kind {
            NodeKind::Empty => Matcher::Empty,
            NodeKind::All => Matcher::all(node.options.weight),
            NodeKind::Word { term, .. } => self.word(term, &node.options),
            NodeKind::Affix(_) => {
                let terms = self.patterns.pop_front().expect("the pattern was read");
                let words = terms.iter().map(|term| {
                    self.word(
                        term,
                        &Options {
                            weight: 1.0,
                            ..node.options
                        },
                    )
                });
                Matcher::any(words.collect(), false, node.options.weight)
            }
            NodeKind::Every { children, exact } => self.every(children, *exact, &node.options)?,
            NodeKind::Any(children) => {
                let children = children.iter().map(|child| self.matcher(child));
                Matcher::any(children.collect::<Result<_, _>>()?, true, node.options.weight)
            }
            NodeKind::Not(child) => Matcher::not(self.matcher(child)?),
            NodeKind::Optional(child) => Matcher::optional(self.matcher(child)?),
            NodeKind::Numeric(range) => self.numbers(range)?,
            NodeKind::Geo { field, circle } => self.places(*field, circle)?,
            NodeKind::Shape(condition) => self.shapes(condition)?,
            NodeKind::VectorRange(range) => self.vectors(range)?,
            NodeKind::Tag { field, values } => self.tags(*field, values, node.options.weight)?,
            NodeKind::Missing(field) => {
                let rows = IdRows::new(field_prefix(b'i', *field));
                Matcher::of_rows(rows, None, node.options.weight)
            }
        })
    }

    fn word(&mut self, term: &[u8], options: &Options) -> Matcher {
        let word = self.words.get(term).expect("the term was asked for");
        if word.documents == 0 {
            return Matcher::Empty;
        }
        let settled = Walk::new(term, word.row.clone());
        Matcher::Words(Box::new(Words {
            term: term.to_vec(),
            documents: word.documents,
            weight: options.weight,
            fields: options.fields,
            walk: TermWalk::new(settled, self.gone_ids.clone(), word.unsettled.clone()),
        }))
    }

    fn every(&mut self, children: &[Node], exact: bool, options: &Options) -> Result<Matcher, SearchError> {
        let children = children.iter().map(|child| self.matcher(child));
        let children = children.collect::<Result<_, _>>()?;
        let (slop, in_order) = match exact {
            true => (Some(0), true),
            false => (
                options.slop.or(self.request.slop),
                options.in_order || self.request.in_order,
            ),
        };
        Ok(Matcher::every(children, (slop, in_order), options.weight))
    }

    fn tags(&mut self, field: u16, values: &[Node], weight: f64) -> Result<Matcher, SearchError> {
        let mut found = Vec::new();
        for value in values {
            match &value.kind {
                NodeKind::Affix(affix) => {
                    let affix = self.of_case(field, affix);
                    let tags = affixes::tags(self.rows, field, &affix, self.is_over)?;
                    let tags = tags.iter().map(|tag| self.tag(field, tag, 1.0)).collect();
                    found.push(Matcher::any(tags, false, weight));
                }
                _ => {
                    let value = self.tag_of_case(field, &joined_words(value));
                    found.push(self.tag(field, &value, weight));
                }
            }
        }
        Ok(match found.len() {
            1 => found.remove(0),
            _ => Matcher::any(found, false, weight),
        })
    }

    fn tag(&mut self, field: u16, value: &[u8], weight: f64) -> Matcher {
        let prefix = tag_prefix(field, value);
        match self.rows.count(&prefix, &after(&prefix)) {
            0 => Matcher::Empty,
            documents => {
                let text = value.to_vec();
                Matcher::of_rows(IdRows::new(prefix), Some(Term { text, documents }), weight)
            }
        }
    }

    fn tag_of_case(&self, field: u16, value: &[u8]) -> Vec<u8> {
        match self.schema.field(field).kind {
            FieldKind::Tag {
                case_sensitive: true, ..
            } => value.to_vec(),
            _ => folded(value),
        }
    }

    fn of_case(&self, field: u16, affix: &Affix) -> Affix {
        let of_case = |text: &[u8]| self.tag_of_case(field, text);
        match affix {
            Affix::Prefix(text) => Affix::Prefix(of_case(text)),
            Affix::Suffix(text) => Affix::Suffix(of_case(text)),
            Affix::Infix(text) => Affix::Infix(of_case(text)),
            Affix::Wildcard(text) => Affix::Wildcard(of_case(text)),
            Affix::Fuzzy(text, distance) => Affix::Fuzzy(of_case(text), *distance),
        }
    }

    /// Numbers stand in their own order, so the ids of a range are sorted first.
    fn numbers(&mut self, range: &NumberRange) -> Result<Matcher, SearchError> {
        let (mut ids, mut is_over) = (Vec::new(), Checked::new(self.is_over));
        if let Some((start, end)) = bounds(range).filter(|(start, end)| start < end) {
            self.rows.scan(&start, &end, &mut |key, _| {
                ids.push(id_of(key));
                is_over.go_on()
            });
        }
        is_over.end()?;
        Ok(Matcher::of_ids(ids))
    }

    fn places(&mut self, field: u16, circle: &Circle) -> Result<Matcher, SearchError> {
        let (mut ids, mut is_over) = (Vec::new(), Checked::new(self.is_over));
        for (first, last) in circle.covering() {
            let (start, end) = (place_prefix(field, first), after(&place_prefix(field, last)));
            self.rows.scan(&start, &end, &mut |key, _| {
                if circle.contains(cell_of(key)) {
                    ids.push(id_of(key));
                }
                is_over.go_on()
            });
        }
        is_over.end()?;
        Ok(Matcher::of_ids(ids))
    }

    /// Every shape of the field is compared.
    fn shapes(&mut self, condition: &ShapeCondition) -> Result<Matcher, SearchError> {
        let FieldKind::Shape(system) = self.schema.field(condition.field).kind else {
            unreachable!("the grammar asks for a GEOSHAPE field");
        };
        let prefix = field_prefix(b'o', condition.field);
        let (mut ids, mut was_over) = (Vec::new(), false);
        let is_over = self.is_over;
        self.rows.scan(&prefix, &after(&prefix), &mut |key, row| {
            if Shape::of_row(row).is(condition.relation, &condition.shape, system) {
                ids.push(id_of(key));
            }
            // One comparison may take long.
            was_over = is_over();
            match was_over {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        match was_over {
            true => Err(SearchError::Timeout),
            false => Ok(Matcher::of_ids(ids)),
        }
    }

    /// Every vector is compared, so a range is exact with a graph too.
    fn vectors(&mut self, range: &VectorRange) -> Result<Matcher, SearchError> {
        let vector = kind_of(self.schema, range.field).query(&range.vector)?;
        let mut near = Vec::new();
        let is_near = |distance: f64| distance <= range.radius;
        compare_all(self.rows, range.field, &vector, self.is_over, &mut |distance, id| {
            if is_near(distance) {
                near.push((id, distance));
            }
        })?;
        Ok(Matcher::near(near, range.distance_name.clone()))
    }
}

/// Whether a condition asks for terms of documents.
fn has_terms(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Word { .. } | NodeKind::Affix(_) => true,
        NodeKind::Every { children, .. } | NodeKind::Any(children) => children.iter().any(has_terms),
        NodeKind::Not(child) | NodeKind::Optional(child) => has_terms(child),
        _ => false,
    }
}

/// The rows of the numbers of a range, from a start to an end. Nothing if a bound is no number.
fn bounds(range: &NumberRange) -> Option<(Vec<u8>, Vec<u8>)> {
    let row = |number: f64| (!number.is_nan()).then(|| number_prefix(range.field, number));
    let (from, to) = (row(range.from)?, row(range.to)?);
    let start = if range.from_included { from } else { after(&from) };
    let end = if range.to_included { after(&to) } else { to };
    Some((start, end))
}

/// Looks now and then whether the time of a search is over.
struct Checked<'c> {
    is_over: &'c dyn Fn() -> bool,
    rows: u32,
    was_over: bool,
}

impl<'c> Checked<'c> {
    fn new(is_over: &'c dyn Fn() -> bool) -> Checked<'c> {
        Checked {
            is_over,
            rows: 0,
            was_over: false,
        }
    }

    /// One more row was read.
    fn go_on(&mut self) -> ControlFlow<()> {
        self.rows += 1;
        self.was_over = self.rows.is_multiple_of(ROWS_BETWEEN_CHECKS) && (self.is_over)();
        match self.was_over {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn end(&self) -> Result<(), SearchError> {
        match self.was_over {
            true => Err(SearchError::Timeout),
            false => Ok(()),
        }
    }
}

/// Several words in a TAG value are one value.
fn joined_words(node: &Node) -> Vec<u8> {
    match &node.kind {
        NodeKind::Word { term, .. } => term.clone(),
        NodeKind::Every { children, .. } => children.iter().map(joined_words).collect::<Vec<_>>().join(&b' '),
        _ => unreachable!("a value of a TAG is words"),
    }
}
