//! The catalogue's invariants, for `quartet check`: definitions can be read, names and credentials
//! open one database, usage and rows belong to an existing database, the operator's credentials can
//! be read.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use quartet_engine::{Invariants, PartitionId, Reader, Repair, Verification};
use quartet_model::{DatabaseId, LayerId, hexadecimal};

use crate::definition::{Definition, Move, Place};
use crate::operator::{ACCESS_KEY, ROOT_KEY, access_key, root_key};
use crate::partitions::{NUMBER, number_in};
use crate::rows::COPY;

/// The catalogue's invariants. The first partition is verified first: only then can the others be
/// compared with its placement of databases.
#[derive(Default)]
pub struct CatalogueInvariants {
    placed: RefCell<Option<Placed>>,
    /// Their definitions, as far as they can be read.
    defined: RefCell<BTreeMap<u16, Definition>>,
    /// The databases that are being moved.
    moving: RefCell<BTreeMap<u16, Move>>,
    /// The partitions verified since the first.
    judged: RefCell<BTreeSet<PartitionId>>,
}

/// The partition of each database that there is.
type Placed = BTreeMap<u16, PartitionId>;

const SYSTEM: DatabaseId = DatabaseId(0);
const DEFAULT: DatabaseId = DatabaseId(1);

impl Invariants for CatalogueInvariants {
    fn layer(&self) -> LayerId {
        LayerId::System
    }

    fn disowned(&self, rows: &Reader) -> Vec<DatabaseId> {
        let mut away = Vec::new();
        rows.scan(b"H", b"I", false, &mut |key, value| {
            let place = serde_json::from_slice::<Place>(value);
            if place.is_ok_and(|place| !place.is_here) {
                away.extend(id_of(key).map(DatabaseId));
            }
            ControlFlow::Continue(())
        });
        away
    }

    fn judge(&self, verification: &mut Verification<'_>) {
        if verification.database() != SYSTEM {
            return;
        }
        let number = verification.rows.get(NUMBER);
        let partition = number.map_or(Some(PartitionId(0)), |row| number_in(&row));
        let Some(partition) = partition else {
            verification.found("the number of the partition cannot be read".into(), Vec::new());
            return;
        };
        if partition == PartitionId(0) {
            let (placed, defined) = verify_definitions(verification);
            self.defined.replace(defined);
            verify_usage(verification, &placed);
            self.moving.replace(verify_moves(verification, &placed));
            verify_credentials(verification);
            self.placed.replace(Some(placed));
        }
        if !self.judged.borrow_mut().insert(partition) {
            let message = format!("this is partition {}, and another folder is as well", partition.0);
            verification.found(message, Vec::new());
        }
        if let Some(placed) = &*self.placed.borrow() {
            verify_places(verification, placed, &self.moving.borrow(), partition);
            if partition != PartitionId(0) {
                verify_usage(verification, placed);
                verify_copies(verification, &self.defined.borrow(), &self.moving.borrow());
            }
        }
    }
}

/// Every database is whole in the partition that the catalogue names.
fn verify_places(
    verification: &mut Verification<'_>,
    placed: &Placed,
    moving: &BTreeMap<u16, Move>,
    partition: PartitionId,
) {
    for &database in verification.databases {
        let place = match database {
            SYSTEM => continue,
            DEFAULT => Some(PartitionId(0)),
            other => placed.get(&other.0).copied(),
        };
        let message = match place {
            Some(place) if place == partition => continue,
            // The next start clears them: the move has not ended.
            Some(_)
                if moving
                    .get(&database.0)
                    .is_some_and(|ways| [ways.from, ways.to].contains(&partition.0)) =>
            {
                continue;
            }
            Some(place) => format!(
                "database {} is in partition {}, and has rows in partition {}",
                database.0, place.0, partition.0
            ),
            None => format!("database {} has rows and is not in the catalogue", database.0),
        };
        verification.found(message, Vec::new());
    }
}

/// Definitions in a partition equal the catalogue's, or are older: a start rewrites those.
fn verify_copies(
    verification: &mut Verification<'_>,
    defined: &BTreeMap<u16, Definition>,
    moving: &BTreeMap<u16, Move>,
) {
    let rows = verification.rows;
    rows.scan(&[COPY], &[COPY + 1], false, &mut |key, value| {
        let id = id_of(key);
        let definition = id.and_then(|id| defined.get(&id));
        let message = match (serde_json::from_slice::<Definition>(value), definition) {
            (Err(_), _) => Some("a definition in a database's own partition cannot be read".to_owned()),
            (Ok(definition), None) => {
                let name = definition.name;
                Some(format!(
                    "the definition of database {name}, which is not in the catalogue"
                ))
            }
            (Ok(copy), Some(definition)) => {
                let is_settled = !id.is_some_and(|id| moving.contains_key(&id));
                let differs = is_settled && copy.revision == definition.revision && copy != *definition;
                let name = copy.name;
                differs.then(|| format!("the definition of database {name} is not the catalogue's"))
            }
        };
        if let Some(message) = message {
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
        }
        ControlFlow::Continue(())
    });
}

/// The moves in progress, by database.
fn verify_moves(verification: &mut Verification<'_>, placed: &Placed) -> BTreeMap<u16, Move> {
    let (rows, mut moving) = (verification.rows, BTreeMap::new());
    rows.scan(b"M", b"N", false, &mut |key, value| {
        let id = id_of(key).filter(|id| placed.contains_key(id));
        match (id, serde_json::from_slice::<Move>(value)) {
            (Some(id), Ok(ways)) => drop(moving.insert(id, ways)),
            _ => {
                let message = "a move cannot be read, or is of no database".into();
                verification.found(message, Vec::new());
            }
        }
        ControlFlow::Continue(())
    });
    moving
}

/// Answers the databases that there are, and how they are defined.
fn verify_definitions(verification: &mut Verification<'_>) -> (Placed, BTreeMap<u16, Definition>) {
    let (mut placed, mut defined, mut owners) = (Placed::new(), BTreeMap::new(), HashMap::new());
    let rows = verification.rows;
    rows.scan(b"D", b"E", false, &mut |key, value| {
        let Some(id) = id_of(key) else {
            verification.found(
                "a definition is of no database".into(),
                vec![Repair::Clear { key: key.to_vec() }],
            );
            return ControlFlow::Continue(());
        };
        // Also if its definition cannot be read: then where it is is not known.
        placed.insert(id, PartitionId(0));
        match serde_json::from_slice::<Definition>(value) {
            Ok(definition) => {
                placed.insert(id, PartitionId(definition.partition));
                for opener in opened_by(&definition) {
                    if let Some(other) = owners.insert(opener, id) {
                        verification.found(
                            format!("databases {other} and {id} share a name or a credential"),
                            Vec::new(),
                        );
                    }
                }
                defined.insert(id, definition);
            }
            Err(error) => verification.found(
                format!("the definition of database {id} cannot be read: {error}"),
                Vec::new(),
            ),
        }
        ControlFlow::Continue(())
    });
    (placed, defined)
}

/// Returns the names and credentials that lead to a database.
fn opened_by(definition: &Definition) -> Vec<String> {
    let credentials = &definition.credentials;
    let hashes = [credentials.token, credentials.read_only_token, credentials.fauna_key];
    let hashes = hashes.iter().map(|hash| format!("secret {}", hexadecimal(&hash.0)));
    let keys = credentials.access_keys.keys().map(|key| format!("key {key}"));
    let mut all: Vec<String> = hashes.chain(keys).collect();
    if definition.deleted {
        // Its credentials are no longer valid.
        all.clear();
    }
    all.push(format!("name {}", definition.name));
    all
}

fn verify_usage(verification: &mut Verification<'_>, placed: &Placed) {
    let rows = verification.rows;
    rows.scan(b"U", b"V", false, &mut |key, value| {
        let is_readable = serde_json::from_slice::<crate::Usage>(value).is_ok();
        if !is_readable || !id_of(key).is_some_and(|id| placed.contains_key(&id)) {
            let message = "what a database has used cannot be read, or is of none".into();
            verification.found(message, vec![Repair::Clear { key: key.to_vec() }]);
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
