//! Document paths: `a.b[3].#c`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::wire::failure::Failure;
use crate::wire::value::{Item, Value};

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

    /// Returns PartiQL's name for the value: the last name in the path, with the positions that
    /// follow it.
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

/// Describes how the first paths that clash do; an overlap is reported before a conflict.
pub fn clash_text(paths: &[&Path]) -> Option<String> {
    let mut conflict = None;
    let mut paths_of_roots: HashMap<&str, Vec<&Path>> = HashMap::new();
    for &path in paths {
        let siblings = paths_of_roots.entry(&path.root).or_default();
        for earlier in &*siblings {
            let text = |verb| {
                format!(
                    "Two document paths {verb} with each other; must remove or rewrite one of these paths; \
                     path one: {earlier}, path two: {path}"
                )
            };
            match earlier.clash(path) {
                None => {}
                Some(Clash::Overlap) => return Some(text("overlap")),
                Some(Clash::Conflict) => conflict = conflict.or_else(|| Some(text("conflict"))),
            }
        }
        siblings.push(path);
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
    PathTree::new(paths).of(item)
}

/// Paths, gathered by what they have in common, so that an item costs what it holds and not what
/// the projection names.
pub struct PathTree<'p>(Parts<'p>);

#[derive(Default)]
struct Parts<'p> {
    members: BTreeMap<&'p str, Wanted<'p>>,
    elements: BTreeMap<usize, Wanted<'p>>,
}

enum Wanted<'p> {
    All,
    Parts(Parts<'p>),
}

impl<'p> PathTree<'p> {
    pub fn new(paths: &'p [Path]) -> PathTree<'p> {
        let mut top = Parts::default();
        for path in paths {
            let entry = top.members.entry(path.root.as_str());
            entry
                .or_insert_with(|| Wanted::Parts(Parts::default()))
                .add(&path.steps);
        }
        PathTree(top)
    }

    pub fn of(&self, item: &Item) -> Item {
        self.0.of_members(item)
    }
}

impl<'p> Wanted<'p> {
    fn add(&mut self, steps: &'p [Step]) {
        let Some((step, remaining)) = steps.split_first() else {
            *self = Wanted::All;
            return;
        };
        let Wanted::Parts(parts) = self else { return };
        let inner = match step {
            Step::Member(name) => parts.members.entry(name.as_str()).or_insert_with(Wanted::nothing),
            Step::Index(index) => parts.elements.entry(*index).or_insert_with(Wanted::nothing),
        };
        inner.add(remaining);
    }

    fn nothing() -> Wanted<'p> {
        Wanted::Parts(Parts::default())
    }

    fn of(&self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Wanted::All, value) => Some(value.clone()),
            (Wanted::Parts(parts), Value::M(members)) => {
                let part = parts.of_members(members);
                (!part.is_empty()).then_some(Value::M(part))
            }
            (Wanted::Parts(parts), Value::L(elements)) => {
                let nodes = parts.elements.iter();
                let part: Vec<Value> = nodes
                    .filter_map(|(index, node)| node.of(elements.get(*index)?))
                    .collect();
                (!part.is_empty()).then_some(Value::L(part))
            }
            _ => None,
        }
    }
}

impl Parts<'_> {
    fn of_members(&self, members: &Item) -> Item {
        let projected = members
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), self.members.get(name.as_str())?.of(value)?)));
        projected.collect()
    }
}

/// The values that the paths name, side by side under the last name of each path, as PartiQL shows
/// them.
pub fn project_leaves(item: &Item, paths: &[Path]) -> Item {
    let leaves = paths
        .iter()
        .filter_map(|path| Some((path.leaf_name(), path.resolve(item)?.clone())));
    leaves.collect()
}
