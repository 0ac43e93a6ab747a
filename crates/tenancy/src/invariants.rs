//! The catalogue's invariants, for `quartet check`: definitions can be read, names and credentials
//! open one database, usage and rows belong to an existing database, the operator's credentials can
//! be read.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use quartet_engine::{Invariants, Repair, Verification};
use quartet_model::{DatabaseId, LayerId, hexadecimal};

use crate::Definition;
use crate::operator::{ACCESS_KEY, ROOT_KEY, access_key, root_key};

/// The catalogue's promises.
pub struct CatalogueInvariants;

/// The server's own, and the default one: neither is in the catalogue.
const UNLISTED: [DatabaseId; 2] = [DatabaseId(0), DatabaseId(1)];

impl Invariants for CatalogueInvariants {
    fn layer(&self) -> LayerId {
        LayerId::System
    }

    fn judge(&self, verification: &mut Verification<'_>) {
        if verification.database() != DatabaseId(0) {
            return;
        }
        let known = verify_definitions(verification);
        verify_usage(verification, &known);
        verify_credentials(verification);
        for database in verification.databases {
            if !UNLISTED.contains(database) && !known.contains(&database.0) {
                verification.found(
                    format!("database {} has rows and is not in the catalogue", database.0),
                    Vec::new(),
                );
            }
        }
    }
}

/// Answers the databases that there are.
fn verify_definitions(verification: &mut Verification<'_>) -> BTreeSet<u16> {
    let (mut known, mut owners) = (BTreeSet::new(), HashMap::new());
    let rows = verification.rows;
    rows.scan(b"D", b"E", false, &mut |key, value| {
        let Some(id) = id_of(key) else {
            verification.found(
                "a definition is of no database".into(),
                vec![Repair::Clear { key: key.to_vec() }],
            );
            return ControlFlow::Continue(());
        };
        known.insert(id);
        match serde_json::from_slice::<Definition>(value) {
            Ok(definition) => {
                for what in opened_by(&definition) {
                    if let Some(other) = owners.insert(what, id) {
                        verification.found(
                            format!("databases {other} and {id} share a name or a credential"),
                            Vec::new(),
                        );
                    }
                }
            }
            Err(error) => verification.found(
                format!("the definition of database {id} cannot be read: {error}"),
                Vec::new(),
            ),
        }
        ControlFlow::Continue(())
    });
    known
}

/// Returns the names and credentials that lead to a database.
fn opened_by(definition: &Definition) -> Vec<String> {
    let credentials = &definition.credentials;
    let hashes = [credentials.token, credentials.read_only_token, credentials.fauna_key];
    let hashes = hashes.iter().map(|hash| format!("secret {}", hexadecimal(&hash.0)));
    let keys = credentials.access_keys.keys().map(|key| format!("key {key}"));
    let mut all: Vec<String> = hashes.chain(keys).collect();
    if definition.deleted {
        // Its credentials open nothing any more.
        all.clear();
    }
    all.push(format!("name {}", definition.name));
    all
}

fn verify_usage(verification: &mut Verification<'_>, known: &BTreeSet<u16>) {
    let rows = verification.rows;
    rows.scan(b"U", b"V", false, &mut |key, value| {
        let is_readable = serde_json::from_slice::<crate::Usage>(value).is_ok();
        if !is_readable || !id_of(key).is_some_and(|id| known.contains(&id)) {
            let what = "what a database has used cannot be read, or is of none".into();
            verification.found(what, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

/// A person decides: without the row, the next start would make another credential.
fn verify_credentials(verification: &mut Verification<'_>) {
    let rows = verification.rows;
    let is_damaged = |key, is_whole: fn(&[u8]) -> bool| rows.get(key).is_some_and(|row| !is_whole(&row));
    if is_damaged(ROOT_KEY, |row| root_key(row).is_some()) {
        verification.found("the root key's hash cannot be read".into(), Vec::new());
    }
    if is_damaged(ACCESS_KEY, |row| access_key(row).is_some()) {
        verification.found("DynamoDB's access key cannot be read".into(), Vec::new());
    }
}

fn id_of(key: &[u8]) -> Option<u16> {
    key[1..].try_into().ok().map(u16::from_be_bytes)
}
