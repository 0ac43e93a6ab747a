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
        let mut events_of_element: HashMap<Vec<u8>, Vec<(usize, Event)>> = HashMap::new();
        for (part, set) in parts.iter().enumerate() {
            for event in self.events(set)? {
                events_of_element
                    .entry(event.element())
                    .or_default()
                    .push((part, event));
            }
        }
        let mut changed = Vec::new();
        for events in events_of_element.into_values() {
            self.work(events.len().saturating_mul(parts.len()))?;
            changed.extend(changes(events, parts.len(), has));
        }
        Ok(changed)
    }

    /// Returns the events of any of the parts; equal events of the same time appear once.
    pub fn united_events(&mut self, parts: &[Value]) -> Result<Vec<Event>> {
        let mut events: Vec<Event> = Vec::new();
        for part in parts {
            self.work(1)?;
            events.extend(self.events(part)?);
        }
        let identity = |event: &Event| (event.key().clone(), event.action(), event.element());
        events.sort_by_cached_key(identity);
        Ok(Event::merged(events, |event, other| identity(event) == identity(other)))
    }

    pub fn joined_events(&mut self, source: &Value, with: &Value) -> Result<Vec<Event>> {
        let mut events_of_element: HashMap<Vec<u8>, Vec<Event>> = HashMap::new();
        for event in self.events(source)? {
            events_of_element.entry(event.element()).or_default().push(event);
        }
        let mut joined = Vec::new();
        for source_events in events_of_element.values() {
            self.step(1)?;
            let Some(first) = source_events.first() else { continue };
            let target = self.joined_with(with, first.element_value())?;
            let Some(target) = self.permitted(&target)? else {
                continue;
            };
            let events = self.events(&Value::Set(target.set))?;
            joined.extend(events.into_iter().filter(|event| was_there(source_events, event.ts())));
        }
        joined.sort_by(|event: &Event, other| event.key().cmp(other.key()));
        Ok(Event::merged(joined, |event, other| event.key() == other.key()))
    }
}

/// Returns those of one element's events in several parts that change whether the whole has it.
fn changes(mut events: Vec<(usize, Event)>, parts: usize, has: fn(&[bool]) -> bool) -> Vec<Event> {
    let mut members = vec![false; parts];
    // The first event of a part says what it had before.
    for (part, event) in events.iter().rev() {
        members[*part] = event.is_removal();
    }
    events.sort_by(|(_, a), (_, b)| a.key().cmp(b.key()));
    let mut changes = Vec::new();
    for together in events.chunk_by(|(_, one), (_, other)| one.ts() == other.ts()) {
        let before = has(&members);
        for (part, event) in together {
            members[*part] = !event.is_removal();
        }
        let after = has(&members);
        let change = together.iter().find(|(_, event)| event.is_removal() != after);
        match change {
            Some((_, event)) if before != after => changes.push(event.clone()),
            // It left because it entered a subtracted part, or the reverse.
            None if before != after => changes.extend(together.first().map(|(_, event)| event.turned(after))),
            _ => {}
        }
    }
    changes
}

/// Returns true if an element was in its set at a time, by its events, oldest first.
fn was_there(events: &[Event], at: Timestamp) -> bool {
    let last = events.iter().rev().find(|event| event.ts() <= at);
    match (last, events.first()) {
        (Some(last), _) => !last.is_removal(),
        (None, first) => first.is_some_and(Event::is_removal),
    }
}
