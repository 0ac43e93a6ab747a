//! Libraries of functions, as rows of the logical database: they survive a restart, and are part of
//! the transaction that loads them.
//!
//! ```text
//! 'L' 'l' library    packed: digest, code, then name, description and flags of each function
//! 'L' 'f' function   packed: digest of the library's code, flags, name of the library; the function in lower case
//! ```
//!
//! Invariant: the rows of a library and of its functions are written and cleared together, only by
//! this file.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use quartet_engine::Transaction;

use crate::keyspace::packed;
use crate::scripting::scripts::Digest;

/// A library with what it registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLibrary {
    pub name: String,
    pub digest: Digest,
    /// The whole source, first line included.
    pub code: Vec<u8>,
    pub functions: Vec<StoredFunction>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFunction {
    pub name: String,
    pub description: Option<String>,
    pub flags: u32,
}

/// The place of a function.
pub struct FunctionEntry {
    pub library: String,
    pub digest: Digest,
    pub flags: u32,
}

fn library_row(name: &[u8]) -> Vec<u8> {
    [b"Ll", name].concat()
}

/// Functions are found by their names in any case.
fn function_row(name: &[u8]) -> Vec<u8> {
    [b"Lf", name.to_ascii_lowercase().as_slice()].concat()
}

/// The libraries in the order of their names.
pub fn all(tx: &mut Transaction<'_>) -> Vec<StoredLibrary> {
    let mut libraries = Vec::new();
    tx.scan(b"Ll", b"Lm", false, &mut |row| {
        let name = &Transaction::layer_key(row)[2..];
        libraries.push(StoredLibrary::read(name, row.value()));
        ControlFlow::Continue(())
    });
    libraries
}

pub fn find(tx: &mut Transaction<'_>, name: &[u8]) -> Option<StoredLibrary> {
    let row = tx.get(&library_row(name))?;
    Some(StoredLibrary::read(name, row.value()))
}

pub fn find_function(tx: &mut Transaction<'_>, name: &[u8]) -> Option<FunctionEntry> {
    let row = tx.get(&function_row(name))?;
    let mut parts = packed::iter(row.value());
    Some(FunctionEntry {
        digest: digest(parts.next()?),
        flags: flags(parts.next()?),
        library: text(parts.next()?),
    })
}

/// Number of libraries and of functions.
pub fn count(tx: &mut Transaction<'_>) -> (u64, u64) {
    (tx.count(b"Ll", b"Lm"), tx.count(b"Lf", b"Lg"))
}

pub fn clear(tx: &mut Transaction<'_>) {
    tx.clear_range(b"L", b"M");
}

impl StoredLibrary {
    fn read(name: &[u8], value: &[u8]) -> StoredLibrary {
        let mut parts = packed::iter(value);
        let digest = digest(parts.next().unwrap_or_default());
        let code = parts.next().unwrap_or_default().to_vec();
        let mut functions = Vec::new();
        while let (Some(name), Some(description), Some(bits)) = (parts.next(), parts.next(), parts.next()) {
            functions.push(StoredFunction {
                name: text(name),
                description: description.strip_prefix(b"+").map(text),
                flags: flags(bits),
            });
        }
        StoredLibrary {
            name: text(name),
            digest,
            code,
            functions,
        }
    }

    /// Writes the library and its functions.
    pub fn store(&self, tx: &mut Transaction<'_>) {
        let mut value = Vec::new();
        packed::push(&mut value, &self.digest);
        packed::push(&mut value, &self.code);
        for function in &self.functions {
            packed::push(&mut value, function.name.as_bytes());
            let description = function.description.as_ref().map(|text| format!("+{text}"));
            packed::push(&mut value, description.unwrap_or_default().as_bytes());
            packed::push(&mut value, &function.flags.to_be_bytes());
            let mut entry = Vec::new();
            packed::push(&mut entry, &self.digest);
            packed::push(&mut entry, &function.flags.to_be_bytes());
            packed::push(&mut entry, self.name.as_bytes());
            tx.set(&function_row(function.name.as_bytes()), &entry);
        }
        tx.set(&library_row(self.name.as_bytes()), &value);
    }

    pub fn remove(&self, tx: &mut Transaction<'_>) {
        for function in &self.functions {
            tx.clear(&function_row(function.name.as_bytes()));
        }
        tx.clear(&library_row(self.name.as_bytes()));
    }
}

/// The handling of existing libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    Kept,
    Replaced,
    Flushed,
}

/// Adds libraries, all or none. The error is the reply's text without its code.
pub fn join(tx: &mut Transaction<'_>, added: &[StoredLibrary], existing: Existing) -> Result<(), String> {
    let mut replaced = BTreeSet::new();
    for library in added {
        if existing != Existing::Flushed && find(tx, library.name.as_bytes()).is_some() {
            if existing == Existing::Kept {
                return Err(format!("Library {} already exists", library.name));
            }
            replaced.insert(&library.name);
        }
    }
    for function in added.iter().flat_map(|library| &library.functions) {
        let owner = find_function(tx, function.name.as_bytes()).filter(|_| existing != Existing::Flushed);
        if owner.is_some_and(|owner| !replaced.contains(&owner.library)) {
            return Err(format!("Function {} already exists", function.name));
        }
    }
    if existing == Existing::Flushed {
        clear(tx);
    }
    for name in replaced {
        if let Some(old) = find(tx, name.as_bytes()) {
            old.remove(tx);
        }
    }
    added.iter().for_each(|library| library.store(tx));
    Ok(())
}

fn digest(bytes: &[u8]) -> Digest {
    bytes.try_into().expect("a row's digest has twenty bytes")
}

fn flags(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("a row's flags have four bytes"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
