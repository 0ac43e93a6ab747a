//! Filters by labels, and the series that pass them.
//!
//! A filter with values finds its series by the marks of keys; the filter with the fewest series is
//! taken, and the labels of those are compared with the others.

use std::ops::ControlFlow;

use quartet_layer_redis::module_api::{Context, ELEMENT_BYTES, ErrorReply, GatheredList};
use quartet_wire_resp::Arguments;

use super::definition::labels_of;
use super::series::Series;

const NO_LABELS: &str = "ERR TSDB: failed parsing labels";
const NO_MATCHER: &str = "ERR TSDB: please provide at least one matcher";
const NO_PERMISSION: &str = "NOPERM TSDB: the current user doesn't have the read permission to one or more keys that \
                             match the specified filter";

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    /// The label has one of the values.
    OneOf(Vec<Vec<u8>>),
    /// The label has none of the values.
    NoneOf(Vec<Vec<u8>>),
    /// There is such a label.
    Present,
    /// There is no such label.
    Absent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    label: Vec<u8>,
    condition: Condition,
}

/// Filters that a series has to pass, all of them.
#[derive(Clone, Debug)]
pub struct Filters(Vec<Filter>);

/// The non-empty parts of a text between any of some bytes: as C's `strtok` gives them.
fn parts<'t>(text: &'t [u8], separators: &'static [u8]) -> impl Iterator<Item = &'t [u8]> {
    let parts = text.split(|byte| separators.contains(byte));
    parts.filter(|part| !part.is_empty())
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

impl Filter {
    fn read(text: &[u8]) -> Option<Filter> {
        let (separators, is_list, is_negative): (&'static [u8], _, _) = match () {
            () if contains(text, b"!=(") => (b"!=(", true, true),
            () if contains(text, b"!=") => (b"!=", false, true),
            () if contains(text, b"=(") => (b"=(", true, false),
            () if contains(text, b"=") => (b"=", false, false),
            () => return None,
        };
        let mut parts_of = parts(text, separators);
        let label = parts_of.next()?.to_vec();
        let value = parts_of.next();
        let condition = match (is_list, value) {
            (true, value) => {
                let list = value?.strip_suffix(b")")?;
                let count = list.iter().filter(|byte| **byte == b',').count() + 1;
                let values: Vec<Vec<u8>> = parts(list, b",").map(<[u8]>::to_vec).collect();
                if !list.is_empty() && values.len() < count {
                    return None;
                }
                if is_negative {
                    Condition::NoneOf(values)
                } else {
                    Condition::OneOf(values)
                }
            }
            (false, Some(value)) if is_negative => Condition::NoneOf(vec![value.to_vec()]),
            (false, Some(value)) => Condition::OneOf(vec![value.to_vec()]),
            (false, None) if is_negative => Condition::Present,
            (false, None) => Condition::Absent,
        };
        Some(Filter { label, condition })
    }

    fn passes(&self, labels: &[(&[u8], &[u8])]) -> bool {
        let mut own = labels.iter().filter(|(label, _)| *label == self.label);
        let mut has_one_of = |values: &[Vec<u8>]| own.any(|(_, value)| values.iter().any(|known| known == value));
        match &self.condition {
            Condition::OneOf(values) => has_one_of(values),
            Condition::NoneOf(values) => !has_one_of(values),
            Condition::Present => own.next().is_some(),
            Condition::Absent => own.next().is_none(),
        }
    }
}

impl Filters {
    /// Reads the filters of `from..to` of a request.
    pub fn read(arguments: Arguments<'_>, from: usize, to: usize) -> Result<Filters, ErrorReply> {
        let texts = (from..to).map(|at| Filter::read(&arguments[at]));
        let filters: Option<Vec<Filter>> = texts.collect();
        let filters = filters.ok_or(NO_LABELS)?;
        let finds = |filter: &Filter| matches!(filter.condition, Condition::OneOf(_));
        match filters.iter().any(finds) {
            true => Ok(Filters(filters)),
            false => Err(NO_MATCHER.into()),
        }
    }

    /// The series that pass, in the order of their names. An error if the user may not read one of
    /// them: which series there are depends on their labels.
    pub fn series(&self, context: &mut Context<'_, '_>) -> Result<Vec<Series>, ErrorReply> {
        let mut names = self.names(context);
        let names = names.all()?;
        names.sort_unstable();
        names.dedup();
        let mut workspace = context.workspace();
        let mut candidates = Vec::new();
        for name in names.iter() {
            let Some(entry) = context.keys().find(name) else {
                continue;
            };
            let labels = labels_of(&entry);
            if !self.0.iter().all(|filter| filter.passes(&labels)) {
                continue;
            }
            if !context.client.user.may_read(name) {
                return Err(NO_PERMISSION.into());
            }
            workspace.take(entry.row_bytes() + name.len() + ELEMENT_BYTES)?;
            candidates.extend(Series::of_entry(name, entry));
        }
        Ok(candidates)
    }

    /// The names of the series that the filter finds that finds the fewest.
    fn names<'c>(&self, context: &mut Context<'c, '_>) -> GatheredList<'c> {
        let mut fewest: Option<(u64, &Filter, &[Vec<u8>])> = None;
        for filter in &self.0 {
            if let Condition::OneOf(values) = &filter.condition {
                let mut keys = context.keys();
                let counts = values.iter().map(|value| keys.count_marked(&filter.label, value));
                let count = counts.sum();
                if fewest.is_none_or(|(least, ..)| count < least) {
                    fewest = Some((count, filter, values));
                }
            }
        }
        let mut names = context.gathered_list();
        let (_, filter, values) = fewest.expect("one filter finds series");
        for value in values {
            context
                .keys()
                .each_marked(&filter.label, value, &mut |name| names.push_on(name));
            if names.is_refused() {
                break;
            }
        }
        names
    }
}

/// Visits label names, or the values of a label, of the series that the user may read and that pass
/// the filters, in their order, each once.
pub fn each_label(
    context: &mut Context<'_, '_>,
    label: Option<&[u8]>,
    filters: Option<&Filters>,
) -> Result<Vec<Vec<u8>>, ErrorReply> {
    let mut texts = context.gathered_list();
    match filters {
        Some(filters) => {
            for series in filters.series(context)? {
                for (name, value) in labels_of(&series.entry) {
                    match label {
                        None => texts.push(name),
                        Some(label) if label == name => texts.push(value),
                        Some(_) => {}
                    }
                }
            }
        }
        None => {
            context.keys().each_mark_text(label, &mut |text| texts.push_on(text));
            let all = std::mem::take(texts.all()?);
            return readable(context, label, all);
        }
    }
    let mut all = std::mem::take(texts.all()?);
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The texts that some key has that is alive and that the user may read.
fn readable(
    context: &mut Context<'_, '_>,
    label: Option<&[u8]>,
    texts: Vec<Vec<u8>>,
) -> Result<Vec<Vec<u8>>, ErrorReply> {
    let mut readable_texts = Vec::new();
    for text in texts {
        let values = match label {
            Some(_) => vec![text.clone()],
            None => {
                let mut values = context.gathered_list();
                context
                    .keys()
                    .each_mark_text(Some(&text), &mut |value| values.push_on(value));
                std::mem::take(values.all()?)
            }
        };
        let name_of_label = label.unwrap_or(&text);
        let is_shown = values
            .iter()
            .any(|value| has_readable_key(context, name_of_label, value));
        if is_shown {
            readable_texts.push(text);
        }
    }
    Ok(readable_texts)
}

fn has_readable_key(context: &mut Context<'_, '_>, label: &[u8], value: &[u8]) -> bool {
    const AT_ONCE: usize = 100;
    let user = context.client.user.clone();
    let mut candidates: Vec<Vec<u8>> = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    loop {
        candidates.clear();
        context.keys().each_marked(label, value, &mut |name| {
            if last.as_deref().is_none_or(|last| name > last) {
                candidates.push(name.to_vec());
            }
            match candidates.len() < AT_ONCE {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        let is_found = candidates
            .iter()
            .any(|name| user.may_read(name) && context.keys().find(name).is_some());
        if is_found || candidates.len() < AT_ONCE {
            return is_found;
        }
        last = candidates.last().cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, Condition)>) {
        let found = Filter::read(text.as_bytes());
        let expected = expected.map(|(label, condition)| Filter {
            label: label.into(),
            condition,
        });
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn filters_are_read_as_the_original_reads_them() {
        let list = |values: &[&str]| values.iter().map(|value| value.as_bytes().to_vec()).collect();
        check("a=b", Some(("a", Condition::OneOf(list(&["b"])))));
        check("a=b=c", Some(("a", Condition::OneOf(list(&["b"])))));
        check("a!=b", Some(("a", Condition::NoneOf(list(&["b"])))));
        check("a=", Some(("a", Condition::Absent)));
        check("a!=", Some(("a", Condition::Present)));
        check("a=(b,c)", Some(("a", Condition::OneOf(list(&["b", "c"])))));
        check("a!=(b)", Some(("a", Condition::NoneOf(list(&["b"])))));
        check("a=()", Some(("a", Condition::OneOf(list(&[])))));
        check("a=(b,)", None);
        check("a=(b", None);
        check("a", None);
        check("=", None);
    }
}
