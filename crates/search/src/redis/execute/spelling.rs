//! Words of a query that no document has, and terms that they may have been meant to be.

use std::collections::BTreeMap;

use crate::error::SearchError;
use crate::index::doc_sets::DocSet;
use crate::index::schema::{ALL_FIELDS, FieldMask, Schema};
use crate::index::{State, gone_with_terms, unsettled_documents};
use crate::redis::execute::lookup::Lookup;
use crate::redis::execute::{Matcher, Request, affixes};
use crate::redis::query::{Affix, Node, NodeKind};
use crate::rows::Rows;
use crate::text::analysis::{PHONETIC_PREFIX, STEM_PREFIX, SYNONYM_PREFIX, folded};

/// A requested check of spelling.
pub struct Spelling<'s> {
    /// The number of letters that may differ.
    pub distance: usize,
    /// Words that are right although no document has them.
    pub excluded: &'s dyn Fn(&[u8]) -> bool,
    /// Words that are proposed beside the terms of documents, in any case.
    pub included: &'s [Vec<u8>],
}

/// A word, and what it may have been meant to be, the best first: each with how many documents have
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction {
    /// The word of the query.
    pub word: Vec<u8>,
    /// The proposals.
    pub proposals: Vec<(Vec<u8>, u64)>,
}

/// Looks at each word of a query that is not expanded.
pub fn corrections(
    rows: &mut dyn Rows,
    schema: &Schema,
    root: &Node,
    spelling: &Spelling<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<Correction>, SearchError> {
    let mut words = Vec::new();
    add_words(root, &mut words);
    let mut corrected = Vec::new();
    for (word, fields) in words {
        let mut speller = Speller {
            rows,
            schema,
            fields,
            is_over,
        };
        // A word of any field is correct in all.
        let documents = speller.documents(std::slice::from_ref(&word), ALL_FIELDS)?;
        if documents.is_empty() && !(spelling.excluded)(&word) {
            let proposals = speller.proposals(&word, spelling)?;
            corrected.push(Correction { word, proposals });
        }
    }
    Ok(corrected)
}

fn add_words(node: &Node, words: &mut Vec<(Vec<u8>, FieldMask)>) {
    match &node.kind {
        NodeKind::Word { term, .. } => words.push((term.clone(), node.options.fields)),
        NodeKind::Every { children, .. } | NodeKind::Any(children) | NodeKind::Tag { values: children, .. } => {
            children.iter().for_each(|child| add_words(child, words));
        }
        NodeKind::Not(child) | NodeKind::Optional(child) => add_words(child, words),
        _ => {}
    }
}

struct Speller<'s> {
    rows: &'s mut dyn Rows,
    schema: &'s Schema,
    fields: FieldMask,
    is_over: &'s dyn Fn() -> bool,
}

impl Speller<'_> {
    /// Those of the terms that some document has in these fields, with how many have it in any.
    fn documents(&mut self, terms: &[Vec<u8>], fields: FieldMask) -> Result<BTreeMap<Vec<u8>, u64>, SearchError> {
        let state = State::read(self.rows);
        let request = Request::default();
        let nodes = terms.iter().map(|term| {
            let mut node = Node::word(term.clone());
            node.options.fields = fields;
            node
        });
        let nodes: Vec<Node> = nodes.collect();
        let mut lookup = Lookup::new(self.rows, self.schema, &state, &request, self.is_over);
        lookup.read(&Node::of(NodeKind::Any(nodes.clone())))?;
        let matchers = nodes.iter().map(|node| lookup.matcher(node));
        let matchers = matchers.collect::<Result<Vec<_>, _>>()?;
        let mut proposals = BTreeMap::new();
        for mut matcher in matchers {
            if matcher.seek(self.rows, 1).is_some()
                && let Matcher::Words(words) = matcher
            {
                proposals.insert(words.term.clone(), words.documents);
            }
        }
        Ok(proposals)
    }

    fn proposals(&mut self, word: &[u8], spelling: &Spelling<'_>) -> Result<Vec<(Vec<u8>, u64)>, SearchError> {
        let affix = Affix::Fuzzy(word.to_vec(), spelling.distance);
        let state = State::read(self.rows);
        let unsettled = unsettled_documents(self.rows, &state, usize::MAX);
        let removed = gone_with_terms(self.rows, usize::MAX);
        let mut terms = affixes::terms(self.rows, &affix, &unsettled, &removed, self.is_over)?;
        terms.retain(|term| !is_derived(term));
        let mut proposals = self.documents(&terms, self.fields)?;
        let is_near = |proposed: &&Vec<u8>| affix.matches(&folded(proposed));
        for proposed in spelling.included.iter().filter(is_near) {
            proposals.entry(proposed.clone()).or_insert(0);
        }
        let mut proposals: Vec<_> = proposals.into_iter().collect();
        proposals.sort_by_key(|(_, documents)| std::cmp::Reverse(*documents));
        Ok(proposals)
    }
}

/// A stem, a sound or a group of synonyms is no word.
fn is_derived(term: &[u8]) -> bool {
    let prefixes = [STEM_PREFIX, PHONETIC_PREFIX, SYNONYM_PREFIX];
    term.first().is_some_and(|first| prefixes.contains(first))
}
