//! The verification of the rows of a document in pieces, for `quartet check`.

use std::collections::HashSet;

use super::document::{Json, NAME_BYTES};
use super::pieces::{self, Meaning};

/// The rows of a document. Each row is requested once.
pub trait Pieced {
    fn piece(&mut self, number: u32) -> Option<Json>;
    /// The rows of a wide object: first hash and members.
    fn members(&mut self, number: u32) -> Vec<(u32, Option<Json>)>;
}

/// The parts of a document.
#[derive(Default)]
pub struct Judged {
    /// The numbers of its pieces.
    pub pieces: HashSet<u32>,
    /// The numbers of its wide objects.
    pub wide: HashSet<u32>,
    pub text_bytes: u64,
    pub memory_bytes: u64,
    open: Vec<Meaning<'static>>,
}

/// Returns the parts of a document, or the text of a fault.
pub fn judge(rows: &mut dyn Pieced) -> Result<Judged, String> {
    let mut judged = Judged::default();
    judged.open.push(Meaning::Piece(0));
    while let Some(reference) = judged.open.pop() {
        match reference {
            Meaning::Itself(_) => {}
            Meaning::Piece(number) => {
                let stub = judged.piece(rows, number)?;
                judged.count(&stub)?;
            }
            Meaning::Elements(group) => {
                let number = group.number;
                let Json::Array(elements) = judged.piece(rows, number)? else {
                    return Err(format!("has no elements in piece {number}"));
                };
                elements.iter().try_for_each(|element| judged.count(element))?;
                let counted: usize = elements.iter().map(pieces::count_of).sum();
                if counted != group.count {
                    return Err(format!("has {counted} values in piece {number} and says otherwise"));
                }
            }
            Meaning::Wide(wide) => judged.wide(rows, wide.number, wide.count)?,
        }
    }
    Ok(judged)
}

impl Judged {
    fn piece(&mut self, rows: &mut dyn Pieced, number: u32) -> Result<Json, String> {
        if !self.pieces.insert(number) {
            return Err(format!("has piece {number} in two places"));
        }
        rows.piece(number).ok_or_else(|| format!("lacks piece {number}"))
    }

    fn wide(&mut self, rows: &mut dyn Pieced, number: u32, count: usize) -> Result<(), String> {
        if !self.wide.insert(number) {
            return Err(format!("has object {number} in two places"));
        }
        let buckets = rows.members(number);
        let ends = buckets.iter().skip(1).map(|(hash, _)| Some(*hash)).chain([None]);
        let ends: Vec<Option<u32>> = ends.collect();
        let (mut names, mut orders) = (HashSet::new(), HashSet::new());
        for ((start, members), end) in buckets.into_iter().zip(ends) {
            let Some(Json::Object(members)) = members else {
                return Err(format!("has no members in a row of object {number}"));
            };
            for (stored, value) in members {
                let named = pieces::judged_name(&stored);
                let (order, name) = named.ok_or_else(|| format!("has a member without order in object {number}"))?;
                let hash = pieces::hash_of(name);
                if hash < start || end.is_some_and(|end| hash >= end) {
                    return Err(format!("has a member of object {number} in a wrong row"));
                }
                if !names.insert(name.to_owned()) || !orders.insert(order) {
                    return Err(format!("has a member of object {number} twice"));
                }
                self.count_name(name);
                self.count(&value)?;
            }
        }
        match names.len() == count {
            true => Ok(()),
            false => Err(format!(
                "has {} members in object {number} and says otherwise",
                names.len()
            )),
        }
    }

    fn count_name(&mut self, name: &str) {
        self.add(Json::name_bytes(name), NAME_BYTES + name.len());
    }

    fn count_container(&mut self, children: usize) {
        self.add(2 + children.saturating_sub(1), Json::Null.memory_bytes());
    }

    fn add(&mut self, text_bytes: usize, memory_bytes: usize) {
        self.text_bytes += text_bytes as u64;
        self.memory_bytes += memory_bytes as u64;
    }

    /// Counts a value of a piece, and notes its references.
    fn count(&mut self, value: &Json) -> Result<(), String> {
        match value {
            Json::Text(text) => match pieces::judged_meaning(text) {
                None => return Err("has a reference that no version has written".to_owned()),
                Some(Meaning::Itself(own)) => {
                    let own = Json::Text(own.to_owned());
                    self.add(own.text_bytes(), own.memory_bytes());
                }
                Some(Meaning::Piece(number)) => self.open.push(Meaning::Piece(number)),
                Some(Meaning::Elements(group)) => self.open.push(Meaning::Elements(group)),
                Some(Meaning::Wide(wide)) => {
                    self.count_container(wide.count);
                    self.open.push(Meaning::Wide(wide));
                }
            },
            Json::Array(elements) => {
                elements.iter().try_for_each(|element| self.count(element))?;
                self.count_container(elements.iter().map(pieces::count_of).sum());
            }
            Json::Object(members) => {
                self.count_container(members.len());
                for (name, value) in members {
                    self.count_name(name);
                    self.count(value)?;
                }
            }
            scalar => self.add(scalar.text_bytes(), scalar.memory_bytes()),
        }
        Ok(())
    }
}
