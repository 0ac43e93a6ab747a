//! Sets made of sets: union, intersection, difference, distinct and join.
//!
//! They compare the visible part of elements: their values, or their documents if they have no
//! values. Elements of equal values are a group, and a group is contiguous in the order of keys.
//! From a group
//!
//! - a union has as many elements as the part that has most of them,
//! - an intersection has the elements of its smallest part,
//! - a difference those of its first part, unless another part has the group,
//! - a join has one element: the element of the least document,
//! - a distinct set one for each run of the same values, that of its least document: 1 and 1.0 are
//!   equal, but not the same.
//!
//! Parts may differ in the number of their values, and in whether they are indexed in reverse order
//! or reversed. Then keys of one form are computed for all of their elements, which are read whole:
//! such sets are not paged efficiently.
//!
//! The share that a set has of a group depends on the whole group, never on the start of a page: a
//! group that a range cuts is read whole and cut then. So the pages of a set, in either direction
//! and of any size, add up to the set.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::evaluation::Evaluation;
use crate::evaluation::permitted::Readable;
use crate::evaluation::permitted::part;
use crate::evaluation::sets::{CHUNK_MAX, Element};
use crate::language::error::wrong_type;
use crate::language::error::{Code, Errors, Result};
use crate::language::signature::Kind;
use crate::language::value::as_set;
use crate::language::value::{Set, Value};
use crate::storage::ranges::{Range, Shape, mixed_key};

/// Elements of the source of a join.
const JOIN_SOURCE_MAX: usize = 100_000;

impl Evaluation<'_> {
    pub fn union(&mut self, parts: &[Value], range: &Range, backwards: bool, limit: usize) -> Result<Vec<Element>> {
        let (whole, count) = (range.widened(), limit.saturating_add(1));
        let mut largest: BTreeMap<Vec<u8>, Vec<Element>> = BTreeMap::new();
        for value in parts {
            let groups = part(value).and_then(|part| self.groups(&part, &whole, backwards, count));
            for group in groups? {
                let most = largest.entry(group[0].group().to_vec()).or_default();
                if most.len() < group.len() {
                    *most = group;
                }
            }
            truncate(&mut largest, backwards, count);
        }
        let elements = largest.into_values().flatten().collect();
        Ok(shown(elements, range, backwards, limit))
    }

    pub fn intersection(
        &mut self,
        parts: &[Value],
        range: &Range,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<Element>> {
        let parts: Vec<Arc<Set>> = parts.iter().map(part).collect::<Result<_>>()?;
        let Some((first, following)) = parts.split_first() else {
            return Ok(Vec::new());
        };
        if self.shape(first)?.reversals.is_empty() {
            return self.chosen(first, range, backwards, limit, &mut |evaluation, element| {
                evaluation.is_in_all(following, element)
            });
        }
        let (mut elements, mut remaining) = (Vec::new(), range.widened());
        loop {
            let groups = self.groups(first, &remaining, backwards, limit)?;
            let Some(last) = groups.last().map(|group| group[0].group().to_vec()) else {
                return Ok(elements);
            };
            for mut group in groups {
                let common = self.least_count(following, &group)?;
                group.truncate(common);
                elements.extend(shown(group, range, backwards, limit - elements.len()));
                if elements.len() == limit {
                    return Ok(elements);
                }
            }
            remaining = remaining.after_group(&last, backwards);
        }
    }

    /// Returns true if the parts of a set have keys of several forms.
    pub fn is_mixed(&mut self, parts: &[Value]) -> Result<bool> {
        let parts: Vec<Arc<Set>> = parts.iter().map(part).collect::<Result<_>>()?;
        Ok(!self.have_keys_of_one_form(parts.iter().map(|part| &**part))?)
    }

    pub fn have_keys_of_one_form<'s>(&mut self, sets: impl Iterator<Item = &'s Set>) -> Result<bool> {
        let mut first: Option<Shape> = None;
        for set in sets {
            let shape = self.shape(set)?;
            if !first.get_or_insert_with(|| shape.clone()).has_keys_of(&shape) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The first elements in reading direction of a set whose parts have keys of several forms.
    pub fn mixed(
        &mut self,
        set: &Set,
        parts: &[Readable],
        range: &Range,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<Element>> {
        let mut groups: BTreeMap<Vec<u8>, Vec<Vec<Element>>> = BTreeMap::new();
        for (index, part) in parts.iter().enumerate() {
            for element in self.all_with_mixed_keys(part)? {
                let part_elements = groups.entry(element.group().to_vec()).or_default();
                if part_elements.is_empty() {
                    self.make(parts.len() * std::mem::size_of::<Vec<Element>>())?;
                }
                part_elements.resize_with(parts.len(), Vec::new);
                part_elements[index].push(element);
            }
        }
        let chosen = groups
            .into_values()
            .flat_map(|part_elements| of_group_in(set, part_elements));
        Ok(shown(chosen.collect(), range, backwards, limit))
    }

    /// All elements of a set in the order in which they are listed, with keys that go with those of
    /// any other.
    fn all_with_mixed_keys(&mut self, of: &Readable) -> Result<Vec<Element>> {
        let shape = self.shape(&of.set)?;
        let reversals = shape.mixed().reversals;
        let schema = self.schema.clone();
        let mut all = Vec::new();
        self.each_element(of, &mut |evaluation, element| {
            let key = mixed_key(&element.values, &reversals, &element.reference, &schema);
            evaluation.make(key.len() + element.value().size().bytes as usize)?;
            all.push(Element { key, ..element.clone() });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    fn is_in_all(&mut self, sets: &[Arc<Set>], element: &Element) -> Result<bool> {
        for set in sets {
            if self.of_group(set, element, 1)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The smallest number of a group's elements in any of the sets, at most the number of these.
    fn least_count(&mut self, sets: &[Arc<Set>], group: &[Element]) -> Result<usize> {
        let mut least = group.len();
        for set in sets {
            if least > 0 {
                least = self.of_group(set, &group[0], least)?.len();
            }
        }
        Ok(least)
    }

    pub fn difference(
        &mut self,
        parts: &[Value],
        range: &Range,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<Element>> {
        let parts: Vec<Arc<Set>> = parts.iter().map(part).collect::<Result<_>>()?;
        let Some((first, following)) = parts.split_first() else {
            return Ok(Vec::new());
        };
        let mut previous: Option<(Vec<u8>, bool)> = None;
        self.chosen(first, range, backwards, limit, &mut |evaluation, element| {
            if let Some((group, stays)) = &previous
                && group == element.group()
            {
                return Ok(*stays);
            }
            let stays = evaluation.is_in_none(following, element)?;
            previous = Some((element.group().to_vec(), stays));
            Ok(stays)
        })
    }

    fn is_in_none(&mut self, sets: &[Arc<Set>], element: &Element) -> Result<bool> {
        for set in sets {
            if !self.of_group(set, element, 1)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the set's share of the group of an element.
    fn of_group(&mut self, set: &Set, element: &Element, limit: usize) -> Result<Vec<Element>> {
        self.unchecked(set, &Range::prefix(element.group()), false, limit)
    }

    /// The element of the least document of each run of the same values.
    pub fn distinct(&mut self, of: &Readable, range: &Range, backwards: bool, limit: usize) -> Result<Vec<Element>> {
        let mut elements = Vec::new();
        let mut run: Option<Element> = None;
        let (mut remaining, mut chunk_size) = (range.widened(), limit.saturating_add(1).min(CHUNK_MAX));
        let is_of_one_index = is_of_one_index(&of.set);
        loop {
            let chunk = self.elements(of, &remaining, backwards, chunk_size)?;
            self.step(chunk.len())?;
            let is_all = chunk.len() < chunk_size;
            let last = chunk.last().map(|last| last.key.clone());
            for element in chunk {
                match &mut run {
                    Some(current) if current.shows_the_same(&element) && backwards => *current = element,
                    Some(current) if current.shows_the_same(&element) => {}
                    _ => elements.extend(run.replace(element).filter(|done| range.contains(&done.key))),
                }
            }
            let (Some(last), Some(current), false) = (last, &mut run, is_all || elements.len() >= limit) else {
                break;
            };
            remaining = match is_of_one_index && !current.has_equals_of_other_kinds() {
                false => remaining.after(&last, backwards),
                // The rest of the group shows the same.
                true => {
                    let group = current.group().to_vec();
                    if backwards {
                        let least = self.elements(of, &Range::prefix(&group), false, 1)?.pop();
                        *current = least.unwrap_or_else(|| current.clone());
                    }
                    remaining.after_group(&group, backwards)
                }
            };
            chunk_size = (chunk_size * 2).min(CHUNK_MAX);
        }
        elements.extend(run.filter(|done| range.contains(&done.key)));
        elements.truncate(limit);
        Ok(elements)
    }

    /// The element of the least document of each group in any of the parts.
    pub fn united_least(
        &mut self,
        parts: &[Readable],
        range: &Range,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<Element>> {
        let (whole, count) = (range.widened(), limit.saturating_add(1));
        let mut least: BTreeMap<Vec<u8>, Element> = BTreeMap::new();
        for part in parts {
            for element in self.least_of_groups(part, &whole, backwards, count)? {
                match least.get_mut(element.group()) {
                    Some(current) if current.key <= element.key => {}
                    Some(current) => *current = element,
                    None => drop(least.insert(element.group().to_vec(), element)),
                }
            }
            truncate(&mut least, backwards, count);
        }
        Ok(shown(least.into_values().collect(), range, backwards, limit))
    }

    /// The first groups of a set in reading direction, at most `count`, each with its elements in
    /// the order of their keys. The range must not cut a group.
    fn groups(&mut self, set: &Set, range: &Range, backwards: bool, count: usize) -> Result<Vec<Vec<Element>>> {
        let mut groups: Vec<Vec<Element>> = Vec::new();
        let (mut remaining, mut chunk_size) = (range.clone(), count.saturating_add(1).min(CHUNK_MAX));
        loop {
            let chunk = self.unchecked(set, &remaining, backwards, chunk_size)?;
            self.step(chunk.len())?;
            self.make(chunk.iter().map(|element| element.key.len()).sum())?;
            let last = chunk.last().filter(|_| chunk.len() == chunk_size);
            let last = last.map(|last| last.key.clone());
            for element in chunk {
                match groups.last_mut() {
                    Some(group) if group[0].group() == element.group() => group.push(element),
                    _ => groups.push(vec![element]),
                }
            }
            match last {
                // The last group may continue.
                Some(last) if groups.len() <= count => remaining = remaining.after(&last, backwards),
                _ => break,
            }
            chunk_size = (chunk_size * 2).min(CHUNK_MAX);
        }
        groups.truncate(count);
        if backwards {
            groups.iter_mut().for_each(|group| group.reverse());
        }
        Ok(groups)
    }

    /// The element of the least document of each of the first groups, at most `count`. The range
    /// must not cut a group.
    fn least_of_groups(&mut self, of: &Readable, range: &Range, backwards: bool, count: usize) -> Result<Vec<Element>> {
        let mut least: Vec<Element> = Vec::new();
        let (mut remaining, chunk_size) = (range.clone(), count.saturating_add(1).min(CHUNK_MAX));
        loop {
            let chunk = self.elements(of, &remaining, backwards, chunk_size)?;
            self.step(chunk.len())?;
            let is_all = chunk.len() < chunk_size;
            for element in chunk {
                match least.last_mut() {
                    Some(current) if current.group() == element.group() && backwards => *current = element,
                    Some(current) if current.group() == element.group() => {}
                    _ => least.push(element),
                }
            }
            let Some(last) = least.last_mut().filter(|_| !is_all) else {
                break;
            };
            let group = last.group().to_vec();
            if backwards {
                let first = self.elements(of, &Range::prefix(&group), false, 1)?.pop();
                *last = first.unwrap_or_else(|| last.clone());
            }
            if least.len() >= count {
                break;
            }
            remaining = remaining.after_group(&group, backwards);
        }
        least.truncate(count);
        Ok(least)
    }

    /// The sets that a join unites: one for each element of its source, as far as they may be read.
    pub fn joined(&mut self, source: &Arc<Set>, with: &Value) -> Result<Vec<Readable>> {
        let mut parts = Vec::new();
        let source = Readable::wholly(source.clone());
        self.each_element(&source, &mut |evaluation, element| {
            let target = evaluation.joined_with(with, element.value())?;
            parts.extend(evaluation.permitted(&target)?);
            match parts.len() < JOIN_SOURCE_MAX {
                true => Ok(ControlFlow::Continue(())),
                false => Err(Errors::new(Code::BadRequest, "Join source exceeds the size limit.")),
            }
        })?;
        Ok(parts)
    }

    /// The set to which an element of a join's source leads.
    pub fn joined_with(&mut self, with: &Value, element: Value) -> Result<Arc<Set>> {
        match with {
            Value::Query(closure) => {
                let target = self.apply(closure, element).and_then(|target| match as_set(&target) {
                    Some(set) => Ok(set),
                    None => Err(Kind::Set.wrong(&target)),
                });
                target.map_err(|errors| errors.placed_at(&closure.lambda.place))
            }
            Value::Ref(index) => Ok(Arc::new(Set::Match {
                index: index.clone(),
                terms: Some(element),
            })),
            other => Err(wrong_type("Lambda", other)),
        }
    }
}

/// Returns the set's share of a group, given the share of each of its parts.
fn of_group_in(set: &Set, part_elements: Vec<Vec<Element>>) -> Vec<Element> {
    let mut part_elements = part_elements;
    part_elements
        .iter_mut()
        .for_each(|group| group.sort_by(|a, b| a.key.cmp(&b.key)));
    let mut first = part_elements[0].clone();
    match set {
        Set::Union(_) => part_elements.into_iter().rev().max_by_key(Vec::len).unwrap_or_default(),
        Set::Intersection(_) => {
            first.truncate(part_elements.iter().map(Vec::len).min().unwrap_or(0));
            first
        }
        Set::Difference(_) if part_elements[1..].iter().all(Vec::is_empty) => first,
        Set::Join(..) => part_elements
            .into_iter()
            .flatten()
            .min_by(|a, b| a.key.cmp(&b.key))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns true for a set of a single index: then the keys of a group are exactly those with the
/// same prefix.
fn is_of_one_index(set: &Set) -> bool {
    match set {
        Set::Match { .. } | Set::Documents(_) | Set::Singleton(_) => true,
        Set::Reverse(of) | Set::Filter(of, _) | Set::Distinct(of) | Set::Range { of, .. } => {
            as_set(of).is_some_and(|of| is_of_one_index(&of))
        }
        _ => false,
    }
}

/// Keeps the first groups in reading direction.
fn truncate<T>(groups: &mut BTreeMap<Vec<u8>, T>, backwards: bool, count: usize) {
    while groups.len() > count {
        match backwards {
            true => groups.pop_first(),
            false => groups.pop_last(),
        };
    }
}

/// Returns the elements in the range, in reading direction; `elements` are in the order of their
/// keys.
fn shown(elements: Vec<Element>, range: &Range, backwards: bool, limit: usize) -> Vec<Element> {
    let inside = elements.into_iter().filter(|element| range.contains(&element.key));
    let mut inside: Vec<Element> = inside.collect();
    if backwards {
        inside.reverse();
    }
    inside.truncate(limit);
    inside
}
