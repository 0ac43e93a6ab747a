//! Looks up a query's words at this snapshot, and makes the matchers that walk their documents.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::error::SearchError;
use crate::index::doc_sets::{DocSet, IdRows, TermWalk, agreed, common};
use crate::index::document::DocumentRow;
use crate::index::layout::{
    DOCUMENT, after, cell_of, field_prefix, number_prefix, number_row, place_prefix, tag_prefix, term_row, with_id,
};
use crate::index::postings::{Posting, Walk, documents_of, number_of};
use crate::index::schema::{ALL_FIELDS, FieldKind, Schema};
use crate::index::term_dictionary::TermNumber;
use crate::index::{DocumentRows, State, count_of_numbers, gone, gone_with_terms, unsettled_documents};
use crate::redis::execute::comparison::{compare_all, kind_of};
use crate::redis::execute::matcher::{Matcher, Term, Words};
use crate::redis::execute::request::{DOCUMENTS_AT_ONCE, Request};
use crate::redis::execute::{affixes, watch};
use crate::redis::query::{Affix, Node, NodeKind, NumberRange, Options, ShapeCondition, VectorRange};
use crate::rows::{DocumentId, KeyRange, Rows, id_of};
use crate::text::analysis::folded;
use crate::text::geo::Circle;
use crate::text::shapes::Shape;

/// The number of a range's numbers that are read in the time of one document.
const NUMBERS_READ_AT_ONCE: u64 = 32;

/// About how long the row of a usual document is.
const DOCUMENT_BYTES_READ: usize = 1024;

/// Longer lists of ids are not joined as a whole.
const JOINED_MAX: u64 = 1 << 16;

/// Lists are joined as a whole if the longest has at most this many times the ids of the shortest.
const JOINED_TIMES: u64 = 16;

/// The first key of a range of rows, and its exclusive end.
type RowRange = (Vec<u8>, Vec<u8>);

/// Rows of a range that are read between two looks at the time.
const ROWS_BETWEEN_CHECKS: usize = 1024;

pub(super) struct Lookup<'l> {
    pub rows: &'l mut dyn Rows,
    pub schema: &'l Schema,
    pub request: &'l Request,
    pub is_over: &'l dyn Fn() -> bool,
    pub state: &'l State,
    unsettled: DocumentRows,
    /// They may have the numbers of their terms only.
    gone: DocumentRows,
    /// The same with their terms, for patterns.
    gone_with_terms: Option<DocumentRows>,
    gone_ids: Rc<BTreeSet<DocumentId>>,
    words: BTreeMap<Vec<u8>, Word>,
    /// The terms of each pattern, in the order in which the query has the patterns.
    patterns: VecDeque<Vec<Vec<u8>>>,
    /// The search is limited to these documents, which ascend.
    among: Option<Vec<DocumentId>>,
}

/// A term of the query.
#[derive(Default)]
struct Word {
    /// The number of documents with the word.
    documents: u64,
    unsettled: Rc<Vec<Posting>>,
    /// The term's row; empty if there is none.
    row: Vec<u8>,
    /// The term's number, if it has one.
    number: Option<TermNumber>,
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
            gone_with_terms: None,
            gone_ids: Rc::default(),
            words: BTreeMap::new(),
            patterns: VecDeque::new(),
            among: None,
        }
    }

    /// As [`Lookup::matcher`], for a search that is limited to these documents, which ascend. Other
    /// documents may appear to match.
    pub fn matcher_among(&mut self, ids: &[DocumentId], node: &Node) -> Result<Matcher, SearchError> {
        self.among = Some(ids.to_vec());
        self.matcher(node)
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
                word.number = Some(number_of(&word.row)).filter(|number| *number != 0);
            }
        }
        let (terms, mut words): (Vec<&[u8]>, Vec<&mut Word>) = self
            .words
            .iter_mut()
            .map(|(term, word)| (term.as_slice(), word))
            .unzip();
        for (_, row) in &self.gone {
            let document = DocumentRow::read(row);
            match document.numbers() {
                None => document.find(terms.iter().copied(), |index, _| words[index].documents -= 1),
                Some(numbers) => words
                    .iter_mut()
                    .filter(|word| word.number.is_some_and(|number| numbers.binary_search(&number).is_ok()))
                    .for_each(|word| word.documents -= 1),
            }
        }
        for (id, row) in &self.unsettled {
            DocumentRow::read(row).find(terms.iter().copied(), |number, at| {
                words[number].documents += 1;
                Rc::make_mut(&mut words[number].unsettled).push(Posting {
                    id: *id,
                    occurrences: at.to_owned(),
                });
            });
        }
        Ok(())
    }

    /// The number of matching documents, if it is known without visiting them. Must be called after
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
                count_of_numbers(
                    self.rows,
                    range.field,
                    KeyRange {
                        start: &start,
                        end: &end,
                    },
                )
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

    /// About how many documents match, as if conditions were independent of each other; nothing if
    /// that takes a look at each. Call it after [`Lookup::read`].
    pub fn estimate(&mut self, node: &Node) -> Option<u64> {
        let documents = self.state.documents;
        let estimate = match &node.kind {
            NodeKind::Word { term, .. } => self.words.get(term)?.documents,
            NodeKind::Numeric(range) => {
                let (start, end) = bounds(range)?;
                self.rows.count(&start, &end)
            }
            NodeKind::Tag { field, values } => {
                let mut value_count = 0;
                for value in values {
                    if matches!(value.kind, NodeKind::Affix(_)) {
                        return None;
                    }
                    let prefix = tag_prefix(*field, &self.tag_of_case(*field, &joined_words(value)));
                    value_count += self.rows.count(&prefix, &after(&prefix));
                }
                value_count
            }
            NodeKind::Every { children, .. } => {
                let mut share = 1.0;
                for child in children {
                    share *= self.estimate(child)? as f64 / documents.max(1) as f64;
                }
                (share * documents as f64) as u64
            }
            // A word and its stem are alternatives of mostly the same documents.
            NodeKind::Any(children) => {
                let mut most = 0;
                for child in children {
                    most = most.max(self.estimate(child)?);
                }
                most
            }
            NodeKind::Not(child) => documents.saturating_sub(self.estimate(child)?),
            NodeKind::Optional(child) => self.estimate(child).map(|_| documents)?,
            _ => self.total(node)?,
        };
        Some(estimate.min(documents))
    }

    fn ask_for(&mut self, node: &Node) -> Result<(), SearchError> {
        if (self.is_over)() {
            return Err(SearchError::Timeout);
        }
        match &node.kind {
            NodeKind::Word { term, .. } => _ = self.words.entry(term.clone()).or_default(),
            NodeKind::Affix(affix) => {
                let removed = match self.gone_with_terms.take() {
                    Some(removed) => removed,
                    None => gone_with_terms(self.rows, usize::MAX),
                };
                let removed = self.gone_with_terms.insert(removed);
                let terms = affixes::terms(self.rows, affix, &self.unsettled, removed, self.is_over)?;
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
        let children = self.children_of_every(children)?;
        let (slop, in_order) = match exact {
            true => (Some(0), true),
            false => (
                options.slop.or(self.request.slop),
                options.in_order || self.request.in_order,
            ),
        };
        Ok(Matcher::every(children, slop, in_order, options.weight))
    }

    /// The matchers of conditions that all have to hold. The numbers of a wide range are not read
    /// if others leave few documents: then these are looked at one by one.
    fn children_of_every(&mut self, nodes: &[Node]) -> Result<Vec<Matcher>, SearchError> {
        let range_of = |node: &Node| match &node.kind {
            NodeKind::Numeric(range) => bounds(range).filter(|(start, end)| start < end),
            _ => None,
        };
        // A profile shows the matches of each condition by itself, and an explanation starts with
        // the condition that has the fewest.
        let is_shown = self.request.clock.is_some() || self.request.explains_scores;
        let ranges: Vec<Option<RowRange>> = match is_shown {
            true => vec![None; nodes.len()],
            false => nodes.iter().map(range_of).collect(),
        };
        let mut matchers = Vec::with_capacity(nodes.len());
        for (node, range) in nodes.iter().zip(&ranges) {
            matchers.push(match range {
                None => self.matcher(node)?,
                Some(_) => Matcher::Empty,
            });
        }
        let is_narrow = |(_, range): &(&Matcher, &Option<RowRange>)| range.is_none();
        let narrow_others = matchers.iter().zip(&ranges).filter(is_narrow);
        let listed = narrow_others.filter(|(matcher, _)| matcher.lists_ids());
        let fewest = listed.map(|(matcher, _)| matcher.documents()).min();
        for (at, node) in nodes.iter().enumerate() {
            let (Some((start, end)), NodeKind::Numeric(numeric)) = (&ranges[at], &node.kind) else {
                continue;
            };
            let is_wide =
                fewest.is_some_and(|fewest| fewest.saturating_mul(NUMBERS_READ_AT_ONCE) < self.rows.count(start, end));
            if !is_wide {
                matchers[at] = self.numbers(numeric)?;
                continue;
            }
            let ids = self.agreed_ids(&mut matchers, &ranges)?;
            let ids = self.with_number(ids, KeyRange { start, end })?;
            let narrow = matchers.iter_mut().zip(&ranges).filter(|(_, range)| range.is_none());
            narrow.for_each(|(matcher, _)| matcher.restrict(&ids));
            matchers[at] = Matcher::of_ids(ids);
        }
        if !is_shown {
            self.join_lists(&mut matchers);
        }
        Ok(matchers)
    }

    /// Reduces conditions that all list ids to their common ids, unless the shortest list is far
    /// shorter: reading whole lists once takes less time than seeking between them.
    fn join_lists(&mut self, matchers: &mut [Matcher]) {
        let counts = matchers.iter().map(Matcher::documents);
        let (fewest, most) = counts.fold((u64::MAX, 0), |(fewest, most), count| {
            (fewest.min(count), most.max(count))
        });
        let are_alike = most <= JOINED_MAX && most / JOINED_TIMES <= fewest;
        if matchers.len() < 2 || !are_alike || !matchers.iter().all(Matcher::lists_ids) {
            return;
        }
        let mut lists = matchers.iter_mut().map(|matcher| matcher.take_ids(self.rows));
        let first = lists.next().unwrap_or_default();
        let ids = lists.fold(first, |ids, list| common(ids, &list));
        matchers.iter_mut().for_each(|matcher| matcher.restrict(&ids));
    }

    /// The ids shared by all matchers that list ids and are not those of ranges.
    fn agreed_ids(
        &mut self,
        matchers: &mut [Matcher],
        ranges: &[Option<RowRange>],
    ) -> Result<Vec<DocumentId>, SearchError> {
        let narrow = matchers.iter_mut().zip(ranges).filter(|(_, range)| range.is_none());
        let mut listed: Vec<&mut Matcher> = narrow
            .map(|(matcher, _)| matcher)
            .filter(|matcher| matcher.lists_ids())
            .collect();
        listed.sort_by_key(|matcher| matcher.documents());
        let (mut ids, mut from, mut is_over) = (Vec::new(), 1, Checked::new(self.is_over));
        let rows = &mut *self.rows;
        while let Some(id) = agreed(listed.len(), from, |number, id| listed[number].seek(rows, id)) {
            ids.push(id);
            from = id + 1;
            if is_over.go_on(1).is_break() {
                break;
            }
        }
        is_over.end()?;
        Ok(ids)
    }

    /// Those of the documents that have one of these rows beside them.
    fn with_number(&mut self, ids: Vec<DocumentId>, keys: KeyRange<'_>) -> Result<Vec<DocumentId>, SearchError> {
        let (mut matching_ids, mut is_over) = (Vec::new(), Checked::new(self.is_over));
        for together in ids.chunks(DOCUMENTS_AT_ONCE) {
            self.rows
                .show_each(DOCUMENT, together, DOCUMENT_BYTES_READ, &mut |at, row| {
                    let (mut document, mut has_number) = (DocumentRow::read(row), false);
                    document.field_lengths(|_, _| {});
                    document.rows_beside(together[at], |key| {
                        has_number |= keys.start <= key.as_slice() && key.as_slice() < keys.end;
                    });
                    if has_number {
                        matching_ids.push(together[at]);
                    }
                    _ = is_over.go_on(1);
                });
            is_over.end()?;
        }
        Ok(matching_ids)
    }

    fn tags(&mut self, field: u16, values: &[Node], weight: f64) -> Result<Matcher, SearchError> {
        let mut matchers = Vec::new();
        for value in values {
            match &value.kind {
                NodeKind::Affix(affix) => {
                    let affix = self.of_case(field, affix);
                    let tags = affixes::tags(self.rows, field, &affix, self.is_over)?;
                    let tags = tags.iter().map(|tag| self.tag(field, tag, 1.0)).collect();
                    matchers.push(Matcher::any(tags, false, weight));
                }
                _ => {
                    let value = self.tag_of_case(field, &joined_words(value));
                    matchers.push(self.tag(field, &value, weight));
                }
            }
        }
        Ok(match matchers.len() {
            1 => matchers.remove(0),
            _ => Matcher::any(matchers, false, weight),
        })
    }

    fn tag(&mut self, field: u16, value: &[u8], weight: f64) -> Matcher {
        let prefix = tag_prefix(field, value);
        match self.rows.count(&prefix, &after(&prefix)) {
            0 => Matcher::Empty,
            documents => {
                let text = value.to_vec();
                let rows = match &self.among {
                    Some(ids) if (ids.len() as u64) < documents => {
                        let mut ids = ids.clone();
                        ids.retain(|id| self.rows.show(&with_id(prefix.clone(), *id), &mut |_| {}));
                        IdRows::of_ids(ids)
                    }
                    _ => IdRows::new(prefix),
                };
                Matcher::of_rows(rows, Some(Term { text, documents }), weight)
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
        let folded_text = |text: &[u8]| self.tag_of_case(field, text);
        match affix {
            Affix::Prefix(text) => Affix::Prefix(folded_text(text)),
            Affix::Suffix(text) => Affix::Suffix(folded_text(text)),
            Affix::Infix(text) => Affix::Infix(folded_text(text)),
            Affix::Wildcard(text) => Affix::Wildcard(folded_text(text)),
            Affix::Fuzzy(text, distance) => Affix::Fuzzy(folded_text(text), *distance),
        }
    }

    /// Numbers are in their own order, so the ids of a range are sorted first.
    fn numbers(&mut self, range: &NumberRange) -> Result<Matcher, SearchError> {
        let (mut ids, mut is_over) = (Vec::new(), Checked::new(self.is_over));
        if let Some((start, end)) = bounds(range).filter(|(start, end)| start < end) {
            let keys = KeyRange {
                start: &start,
                end: &end,
            };
            if let Some(among) = &self.among
                && among.len() as u64 * NUMBERS_READ_AT_ONCE < self.rows.count(&start, &end)
            {
                let ids = self.with_number(among.clone(), keys)?;
                return Ok(Matcher::of_ids(ids));
            }
            let key_bytes = number_row(range.field, range.from, 0).len();
            self.rows.scan_ids(keys, key_bytes, &mut |scanned| {
                ids.extend_from_slice(scanned);
                is_over.go_on(scanned.len())
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
                is_over.go_on(1)
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

/// Returns true if a condition needs terms of documents.
fn has_terms(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Word { .. } | NodeKind::Affix(_) => true,
        NodeKind::Every { children, .. } | NodeKind::Any(children) => children.iter().any(has_terms),
        NodeKind::Not(child) | NodeKind::Optional(child) => has_terms(child),
        _ => false,
    }
}

/// The rows of the numbers of a range, from a start to an end. Nothing if a bound is no number.
fn bounds(range: &NumberRange) -> Option<RowRange> {
    let row = |number: f64| (!number.is_nan()).then(|| number_prefix(range.field, number));
    let (from, to) = (row(range.from)?, row(range.to)?);
    let start = if range.from_included { from } else { after(&from) };
    let end = if range.to_included { after(&to) } else { to };
    Some((start, end))
}

/// Checks the deadline of a search periodically.
struct Checked<'c> {
    is_over: &'c dyn Fn() -> bool,
    /// Rows since the last check.
    rows: usize,
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

    /// This number of rows more was read.
    fn go_on(&mut self, rows: usize) -> ControlFlow<()> {
        self.rows += rows;
        if self.rows >= ROWS_BETWEEN_CHECKS {
            self.rows = 0;
            self.was_over = (self.is_over)();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hits::Found;
    use crate::index;
    use crate::index::document::Document;
    use crate::index::schema::Field;
    use crate::redis::execute::search;
    use crate::redis::query::{Expander, Parameters, parse};
    use crate::rows::MemoryRows;
    use crate::time::Time;
    use crate::vectors::fields::VectorFields;

    const DOCUMENTS: usize = 400;

    /// The value of a field of the document with this number.
    fn value(number: usize, field: &str) -> Option<String> {
        match field {
            "rare" => (number % 97 < 2).then(|| format!("r{}", number % 97)),
            "half" => Some(format!("h{}", number % 2)),
            "n" => (!number.is_multiple_of(3)).then(|| (number % 50).to_string()),
            "m" => Some((number % 7).to_string()),
            "place" => Some(format!(
                "{:.3},{:.3}",
                (number % 20) as f64 / 10.0,
                (number / 20) as f64 / 10.0
            )),
            _ => Some(format!("word{}", number % 5)),
        }
    }

    fn number(at: usize, field: &str) -> Option<i64> {
        value(at, field).map(|text| text.parse().expect("a number"))
    }

    /// The query finds the documents of which `matches` is true.
    fn check(rows: &mut MemoryRows, schema: &Schema, query: &str, matches: &dyn Fn(usize) -> bool) {
        let parsed = parse(schema, query.as_bytes(), &Parameters::new(), Expander::All).expect("a query");
        let request = Request {
            count: DOCUMENTS,
            ..Request::default()
        };
        let Found { total, hits, .. } =
            search(rows, schema, &parsed, &request, Time::until(&|| false)).expect("an answer");
        let keys: Vec<Vec<u8>> = hits.into_iter().map(|hit| hit.key).collect();
        let expected = (0..DOCUMENTS)
            .filter(|at| matches(*at))
            .map(|at| format!("d{at:03}").into_bytes());
        assert_eq!(keys, expected.collect::<Vec<_>>(), "{query}");
        assert_eq!(total, keys.len() as u64, "{query}");
    }

    #[test]
    fn a_wide_range_beside_few_documents_finds_what_its_numbers_do() {
        let place = Field::new("place", FieldKind::Geo);
        let [rare, half] = ["rare", "half"].map(Field::tag);
        let [n, m] = ["n", "m"].map(Field::numeric);
        let schema = Schema::new(vec![rare, half, n, m, place, Field::text("text", 1.0)]).unwrap();
        let mut rows = MemoryRows::default();
        for at in 0..DOCUMENTS {
            let key = format!("d{at:03}");
            let value_of_field = |field: &Field| value(at, &field.name).map(String::into_bytes);
            let document = Document::new(&schema, key.as_bytes(), value_of_field).unwrap();
            index::put(&mut rows, &document, &VectorFields);
        }
        let within = |at: usize, field: &str, from, to| number(at, field).is_some_and(|n| (from..=to).contains(&n));
        let is = |at: usize, field: &str, expected: &str| value(at, field).as_deref() == Some(expected);
        for is_settled in [false, true] {
            while is_settled && index::settle(&mut rows, 100) {}
            let (rows, schema) = (&mut rows, &schema);
            check(rows, schema, "@rare:{r0} @n:[0 40]", &|at| {
                is(at, "rare", "r0") && within(at, "n", 0, 40)
            });
            check(rows, schema, "@n:[(0 (40] @half:{h1} @rare:{r1}", &|at| {
                is(at, "rare", "r1") && is(at, "half", "h1") && within(at, "n", 1, 39)
            });
            check(rows, schema, "@m:[2 6] @rare:{r0} @n:[5 inf]", &|at| {
                is(at, "rare", "r0") && within(at, "m", 2, 6) && within(at, "n", 5, 100)
            });
            check(rows, schema, "@place:[0.4 0.5 8 km] @n:[0 40] @half:{h0}", &|at| {
                at == 104
            });
            check(rows, schema, "@rare:{r0|r1} @n:[0 40]", &|at| {
                value(at, "rare").is_some() && within(at, "n", 0, 40)
            });
            check(rows, schema, "@rare:{r0} @n:[0 40] -@m:[0 3]", &|at| {
                is(at, "rare", "r0") && within(at, "n", 0, 40) && within(at, "m", 4, 6)
            });
            check(rows, schema, "@rare:{none} @n:[0 40]", &|_| false);
            check(rows, schema, "@rare:{r0} @n:[40 0]", &|_| false);
        }
    }
}
