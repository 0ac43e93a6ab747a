//! Document paths: `a.b[3].#c`.

use std::fmt;

use crate::failure::Failure;
use crate::value::{Item, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Member(String),
    Index(usize),
}

/// An attribute and the way into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub root: String,
    pub steps: Vec<Step>,
}

impl Path {
    pub fn top(root: impl Into<String>) -> Path {
        Path {
            root: root.into(),
            steps: Vec::new(),
        }
    }

    pub fn resolve<'i>(&self, item: &'i Item) -> Option<&'i Value> {
        let mut value = item.get(&self.root)?;
        for step in &self.steps {
            value = match (step, value) {
                (Step::Member(name), Value::M(members)) => members.get(name)?,
                (Step::Index(index), Value::L(elements)) => elements.get(*index)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// The map or list that holds what the path names. Only for paths with steps.
    fn parent<'i>(&self, item: &'i mut Item) -> Option<&'i mut Value> {
        let mut value = item.get_mut(&self.root)?;
        let (_, inner) = self.steps.split_last()?;
        for step in inner {
            value = match (step, value) {
                (Step::Member(name), Value::M(members)) => members.get_mut(name)?,
                (Step::Index(index), Value::L(elements)) => elements.get_mut(*index)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// Puts `new` where the path points. An index beyond a list's end appends.
    pub fn set(&self, item: &mut Item, new: Value) -> Result<(), Failure> {
        let Some(last) = self.steps.last() else {
            item.insert(self.root.clone(), new);
            return Ok(());
        };
        match (last, self.parent(item)) {
            (Step::Member(name), Some(Value::M(members))) => {
                members.insert(name.clone(), new);
            }
            (Step::Index(index), Some(Value::L(elements))) => match elements.get_mut(*index) {
                Some(element) => *element = new,
                None => elements.push(new),
            },
            _ => return Err(invalid_path()),
        }
        Ok(())
    }

    /// Takes out what the path names; nothing if it is not there but its parent is.
    pub fn remove(&self, item: &mut Item) -> Result<(), Failure> {
        let Some(last) = self.steps.last() else {
            item.remove(&self.root);
            return Ok(());
        };
        match (last, self.parent(item)) {
            (Step::Member(name), Some(Value::M(members))) => {
                members.remove(name);
            }
            (Step::Index(index), Some(Value::L(elements))) => {
                if *index < elements.len() {
                    elements.remove(*index);
                }
            }
            _ => return Err(invalid_path()),
        }
        Ok(())
    }

    /// What PartiQL calls the value: the last name in the path, with the positions that follow it.
    pub fn leaf_name(&self) -> String {
        let mut name = self.root.clone();
        for step in &self.steps {
            match step {
                Step::Member(member) => name.clone_from(member),
                Step::Index(index) => name.push_str(&format!("[{index}]")),
            }
        }
        name
    }

    /// How two paths of one expression get into each other's way.
    pub fn clash(&self, other: &Path) -> Option<Clash> {
        if self.root != other.root {
            return None;
        }
        for (step, other_step) in self.steps.iter().zip(&other.steps) {
            match (step, other_step) {
                _ if step == other_step => {}
                (Step::Member(_), Step::Index(_)) | (Step::Index(_), Step::Member(_)) => return Some(Clash::Conflict),
                _ => return None,
            }
        }
        Some(Clash::Overlap)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// One holds the other, or they are the same.
    Overlap,
    /// One takes for a map what the other takes for a list.
    Conflict,
}

/// How the first paths that clash do; an overlap is told before a conflict.
pub fn clash_text(paths: &[&Path]) -> Option<String> {
    let mut conflict = None;
    for (index, path) in paths.iter().enumerate() {
        for earlier in &paths[..index] {
            let text = |what| {
                format!(
                    "Two document paths {what} with each other; must remove or rewrite one of these paths; \
                     path one: {earlier}, path two: {path}"
                )
            };
            match earlier.clash(path) {
                None => {}
                Some(Clash::Overlap) => return Some(text("overlap")),
                Some(Clash::Conflict) => conflict = conflict.or_else(|| Some(text("conflict"))),
            }
        }
    }
    conflict
}

pub fn invalid_path() -> Failure {
    Failure::validation("The document path provided in the update expression is invalid for update")
}

/// As messages show it: `[a, b, [1]]`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}", self.root)?;
        for step in &self.steps {
            match step {
                Step::Member(name) => write!(f, ", {name}")?,
                Step::Index(index) => write!(f, ", [{index}]")?,
            }
        }
        f.write_str("]")
    }
}

/// The parts of `item` that the paths name, in their places; the elements of lists move together.
pub fn project(item: &Item, paths: &[Path]) -> Item {
    let roots: Vec<(&str, &[Step])> = paths
        .iter()
        .map(|path| (path.root.as_str(), path.steps.as_slice()))
        .collect();
    project_members(item, &roots)
}

/// The values that the paths name, side by side under the last name of each path, as PartiQL shows them.
pub fn project_leaves(item: &Item, paths: &[Path]) -> Item {
    let found = paths
        .iter()
        .filter_map(|path| Some((path.leaf_name(), path.resolve(item)?.clone())));
    found.collect()
}

/// How many of the paths show one part of an item at most: a part lies in what is shown for each path above it.
pub fn times_shown(paths: &[Path]) -> usize {
    let lies_in = |path: &Path, above: &Path| path.root == above.root && path.steps.starts_with(&above.steps);
    let times = paths
        .iter()
        .map(|path| paths.iter().filter(|above| lies_in(path, above)).count());
    times.max().unwrap_or(1)
}

fn project_members(members: &Item, wanted: &[(&str, &[Step])]) -> Item {
    let mut projected = Item::new();
    for (name, _) in wanted {
        if projected.contains_key(*name) {
            continue;
        }
        let Some(value) = members.get(*name) else { continue };
        let within = wanted
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, steps)| *steps);
        if let Some(part) = project_value(value, within.collect()) {
            projected.insert((*name).to_owned(), part);
        }
    }
    projected
}

fn project_value(value: &Value, wanted: Vec<&[Step]>) -> Option<Value> {
    if wanted.iter().any(|steps| steps.is_empty()) {
        return Some(value.clone());
    }
    match value {
        Value::M(members) => {
            let named = wanted.iter().filter_map(|steps| match steps.split_first()? {
                (Step::Member(name), rest) => Some((name.as_str(), rest)),
                (Step::Index(_), _) => None,
            });
            let part = project_members(members, &named.collect::<Vec<_>>());
            (!part.is_empty()).then_some(Value::M(part))
        }
        Value::L(elements) => {
            let part = elements.iter().enumerate().filter_map(|(index, element)| {
                let within = wanted.iter().filter_map(|steps| match steps.split_first()? {
                    (Step::Index(wanted), rest) if *wanted == index => Some(rest),
                    _ => None,
                });
                let within: Vec<&[Step]> = within.collect();
                if within.is_empty() {
                    None
                } else {
                    project_value(element, within)
                }
            });
            let part: Vec<Value> = part.collect();
            (!part.is_empty()).then_some(Value::L(part))
        }
        _ => None,
    }
}
