//! The readable part of a set.
//!
//! The permission to read an index, a collection or a history is checked once, before anything is
//! read. A part of a union or an intersection without permission is left out, and so is the
//! subtracted part of a difference; a set without remaining parts is denied. Whether each element's
//! document must be checked too depends on the parts: one such part applies to the whole. The check
//! is made on the elements of the whole set, not of its parts, so that a difference also subtracts
//! elements that the caller does not see.

use std::sync::Arc;

use crate::evaluation::Evaluation;
use crate::evaluation::authorization::Rights;
use crate::language::error::wrong_type;
use crate::language::error::{Errors, Result};
use crate::language::value::{Native, Ref, Set, Target, Value, as_set};

/// A set as far as it may be read.
#[derive(Clone, Debug)]
pub struct Readable {
    pub set: Arc<Set>,
    /// The document of each element must be one that may be read.
    pub is_checked: bool,
}

impl Readable {
    /// All of it.
    pub fn wholly(set: Arc<Set>) -> Readable {
        Readable { set, is_checked: false }
    }
}

/// A part of a set that must be a set itself.
pub fn part(value: &Value) -> Result<Arc<Set>> {
    as_set(value).ok_or_else(|| wrong_type("Set", value))
}

impl Evaluation<'_> {
    /// Returns the readable part of a set; denied if there is none.
    pub fn readable(&mut self, set: &Arc<Set>) -> Result<Readable> {
        self.permitted(set)?.ok_or_else(Errors::denied)
    }

    pub fn permitted(&mut self, set: &Arc<Set>) -> Result<Option<Readable>> {
        self.work(1)?;
        let checked = match &**set {
            Set::Match { index, terms } => {
                let terms = terms.as_ref().map_or(&[][..], Value::one_or_many);
                self.is_index_checked(index, terms)
            }
            Set::Documents(collection) => self.is_collection_checked(collection),
            Set::Singleton(document) => self.permit_history(document).is_ok().then_some(false),
            Set::Events(of) => return self.permitted_history(of),
            Set::Union(parts) => return self.permitted_parts(set, parts, 0, Set::Union),
            Set::Intersection(parts) => return self.permitted_parts(set, parts, 0, Set::Intersection),
            Set::Difference(parts) => return self.permitted_parts(set, parts, 1, Set::Difference),
            Set::Distinct(of) => return self.permitted_of(set, of, Set::Distinct),
            Set::Reverse(of) => return self.permitted_of(set, of, Set::Reverse),
            Set::Filter(of, closure) => return self.permitted_of(set, of, |of| Set::Filter(of, closure.clone())),
            Set::Join(of, with) => return self.permitted_of(set, of, |of| Set::Join(of, with.clone())),
            Set::Range { of, from, to } => {
                let (from, to) = (from.clone(), to.clone());
                return self.permitted_of(set, of, |of| Set::Range { of, from, to });
            }
        };
        Ok(checked.map(|is_checked| Readable {
            set: set.clone(),
            is_checked,
        }))
    }

    /// A set made of one other.
    fn permitted_of(
        &mut self,
        whole: &Arc<Set>,
        of: &Value,
        make: impl FnOnce(Value) -> Set,
    ) -> Result<Option<Readable>> {
        let inner = part(of)?;
        let Some(permitted) = self.permitted(&inner)? else {
            return Ok(None);
        };
        let set = match Arc::ptr_eq(&permitted.set, &inner) {
            true => whole.clone(),
            false => Arc::new(make(Value::Set(permitted.set))),
        };
        Ok(Some(Readable { set, ..permitted }))
    }

    /// A composed set, with at least the first `needed` parts permitted.
    fn permitted_parts(
        &mut self,
        whole: &Arc<Set>,
        parts: &[Value],
        needed: usize,
        make: fn(Vec<Value>) -> Set,
    ) -> Result<Option<Readable>> {
        let (mut retained, mut is_checked, mut is_whole) = (Vec::with_capacity(parts.len()), false, true);
        for (index, value) in parts.iter().enumerate() {
            let inner = part(value)?;
            match self.permitted(&inner)? {
                Some(permitted) => {
                    is_checked |= permitted.is_checked;
                    is_whole &= Arc::ptr_eq(&permitted.set, &inner);
                    retained.push(Value::Set(permitted.set));
                }
                None if index < needed => return Ok(None),
                None => is_whole = false,
            }
        }
        let is_nothing = retained.is_empty() && !parts.is_empty();
        let set = match is_whole {
            true => whole.clone(),
            false => Arc::new(make(retained)),
        };
        Ok((!is_nothing).then_some(Readable { set, is_checked }))
    }

    /// The history of a document or a set.
    pub fn permitted_history(&mut self, of: &Value) -> Result<Option<Readable>> {
        match of {
            Value::Document(document) => self.permitted_history(&Value::Ref(document.reference.clone())),
            Value::Ref(document) if !matches!(document.target, Target::Native(_)) => {
                let events = || Readable::wholly(Arc::new(Set::Events(of.clone())));
                Ok(self.permit_history(document).is_ok().then(events))
            }
            set => {
                let set = as_set(set).ok_or_else(|| wrong_type("Ref or Set", set))?;
                let permitted = self.permitted(&set)?;
                Ok(permitted.map(|permitted| Readable {
                    set: Arc::new(Set::Events(Value::Set(permitted.set))),
                    ..permitted
                }))
            }
        }
    }

    /// Returns true if the documents in an index must be checked; `None`: it may not be read.
    fn is_index_checked(&mut self, index: &Ref, terms: &[Value]) -> Option<bool> {
        if self.authorization.reads_everything() {
            return Some(false);
        }
        let terms = [Value::array(terms.to_vec())];
        if self.permit_on("unrestricted_read", index, &terms).is_ok() {
            return Some(false);
        }
        self.permit_on("read", index, &terms).is_ok().then_some(true)
    }

    /// The same for a collection. A collection of users' documents can always be read: unreadable
    /// documents are not shown.
    fn is_collection_checked(&mut self, collection: &Ref) -> Option<bool> {
        let is_native = matches!(collection.target, Target::Native(_));
        if self.authorization.reads_everything() {
            let is_permitted = !is_native || self.permit_on("read", collection, &[]).is_ok();
            return is_permitted.then_some(false);
        }
        if self.permit_on("unrestricted_read", collection, &[Value::Null]).is_ok() {
            return Some(false);
        }
        // A caller with read access to the collections sees the built-in ones, and their readable
        // documents.
        let collections = Ref::native(Native::Collections);
        let is_listed = !is_native
            || self.some_role_reads(collection)
            || self
                .permit_on("read", &collections, &[Value::Ref(collection.clone())])
                .is_ok();
        is_listed.then_some(true)
    }

    /// Returns true if a role grants reading what is in a collection, perhaps under a condition.
    fn some_role_reads(&self, collection: &Ref) -> bool {
        let Rights::Roles(roles) = &self.authorization.rights else {
            return false;
        };
        let mut granted = roles
            .iter()
            .filter_map(|role| role.privileges.get(collection))
            .flatten();
        granted.any(|(action, _)| &**action == "read")
    }
}
