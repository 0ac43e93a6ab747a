//! Histories of sets that are composed of other sets: the times at which elements entered the
//! whole, and left it.
//!
//! Each part records the times at which an element entered and left it. Replayed in order of time,
//! that gives the parts with the element, and so the times at which the whole gains or loses it. An
//! element whose first event is a removal was present before. For a join the events in its targets
//! count, while the source has the element that leads there; the source's own gains and losses are
//! not events (as in the original, which has no history of filters and ranges either).

use std::collections::HashMap;

use crate::evaluation::Evaluation;
use crate::evaluation::pages::Event;
use crate::language::error::Result;
use crate::language::value::{Timestamp, Value};

impl Evaluation<'_> {
    /// The history of a set that has an element if `has` says so of which parts have it.
    pub fn combined_events(&mut self, parts: &[Value], has: fn(&[bool]) -> bool) -> Result<Vec<Event>> {
        let mut by_element: HashMap<Vec<u8>, Vec<(usize, Event)>> = HashMap::new();
        for (part, set) in parts.iter().enumerate() {
            for event in self.events(set)? {
                by_element.entry(event.element()).or_default().push((part, event));
            }
        }
        let told = by_element
            .into_values()
            .flat_map(|events| changes(events, parts.len(), has));
        Ok(told.collect())
    }

    /// Returns the events of any of the parts; equal events of the same time appear once.
    pub fn united_events(&mut self, parts: &[Value]) -> Result<Vec<Event>> {
        let mut told: Vec<Event> = Vec::new();
        for part in parts {
            told.extend(self.events(part)?);
        }
        let identity = |event: &Event| (event.key().clone(), event.action(), event.element());
        told.sort_by_cached_key(identity);
        told.dedup_by(|other, one| {
            let is_same = identity(one) == identity(other);
            if is_same {
                one.add_sources(other.sources());
            }
            is_same
        });
        Ok(told)
    }

    pub fn joined_events(&mut self, source: &Value, with: &Value) -> Result<Vec<Event>> {
        let mut by_element: HashMap<Vec<u8>, Vec<Event>> = HashMap::new();
        for event in self.events(source)? {
            by_element.entry(event.element()).or_default().push(event);
        }
        let mut told = Vec::new();
        for source_events in by_element.values() {
            self.step(1)?;
            let Some(first) = source_events.first() else { continue };
            let target = self.joined_with(with, first.element_value())?;
            let Some(target) = self.permitted(&target)? else {
                continue;
            };
            let events = self.events(&Value::Set(target.set))?;
            told.extend(events.into_iter().filter(|event| was_there(source_events, event.ts())));
        }
        told.sort_by(|one: &Event, other| one.key().cmp(other.key()));
        told.dedup_by(|other, one| {
            let is_same = one.key() == other.key();
            if is_same {
                one.add_sources(other.sources());
            }
            is_same
        });
        Ok(told)
    }
}

/// Returns those of one element's events in several parts that change whether the whole has it.
fn changes(mut events: Vec<(usize, Event)>, parts: usize, has: fn(&[bool]) -> bool) -> Vec<Event> {
    let first = |part| events.iter().find(|(of, _)| *of == part);
    let mut members: Vec<bool> = (0..parts)
        .map(|part| first(part).is_some_and(|(_, event)| event.is_removal()))
        .collect();
    events.sort_by(|(_, one), (_, other)| one.key().cmp(other.key()));
    let mut told = Vec::new();
    for together in events.chunk_by(|(_, one), (_, other)| one.ts() == other.ts()) {
        let before = has(&members);
        for (part, event) in together {
            members[*part] = !event.is_removal();
        }
        let after = has(&members);
        let shown = together.iter().find(|(_, event)| event.is_removal() != after);
        match shown {
            Some((_, event)) if before != after => told.push(event.clone()),
            // It left because it entered a subtracted part, or the reverse.
            None if before != after => told.extend(together.first().map(|(_, event)| event.turned(after))),
            _ => {}
        }
    }
    told
}

/// Returns true if an element was in its set at a time, by its events, oldest first.
fn was_there(events: &[Event], at: Timestamp) -> bool {
    let last = events.iter().rev().find(|event| event.ts() <= at);
    match (last, events.first()) {
        (Some(last), _) => !last.is_removal(),
        (None, first) => first.is_some_and(Event::is_removal),
    }
}
