//! A read-only query sees one state, and no client sees writes that a crash can undo.
//!
//! Documents were read as of the durable version, but names, schemas, keys and tokens as of the
//! latest commit, and the reply was not held: half of a transaction that renamed a collection and
//! changed a document was seen, and a key's deletion showed before it was durable. Here the disk is
//! stopped, so that commits stay ahead of the durable version.

use std::io;
use std::sync::{Arc, Condvar, Mutex};

use quartet_engine::Durability;
use quartet_env::{Disk, FaultyDisk, File};
use quartet_layer_fauna::Reply;
use serde_json::{Value, json};

use crate::world::World;

/// Whether syncs wait.
#[derive(Clone, Default)]
struct Stopped(Arc<(Mutex<bool>, Condvar)>);

impl Stopped {
    fn set(&self, stopped: bool) {
        *self.0.0.lock().unwrap() = stopped;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let stopped = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(stopped, |stopped| *stopped).unwrap());
    }
}

struct StoppableDisk {
    disk: FaultyDisk,
    stopped: Stopped,
}

struct StoppableFile {
    file: Box<dyn File>,
    stopped: Stopped,
}

impl StoppableDisk {
    fn wrapped(&self, file: io::Result<Box<dyn File>>) -> io::Result<Box<dyn File>> {
        let stopped = self.stopped.clone();
        file.map(|file| Box::new(StoppableFile { file, stopped }) as Box<dyn File>)
    }
}

impl Disk for StoppableDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.wrapped(self.disk.create(name))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.wrapped(self.disk.open(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.disk.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        self.disk.available_bytes()
    }
}

impl File for StoppableFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.stopped.wait();
        self.file.sync_data()
    }
}

struct Place {
    world: World,
    stopped: Stopped,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stopped.set(false);
    }
}

impl Place {
    /// With these queries done and durable, and the disk stopped afterwards.
    fn after(queries: &[&str]) -> Place {
        let stopped = Stopped::default();
        let disk = StoppableDisk {
            disk: FaultyDisk::new(),
            stopped: stopped.clone(),
        };
        let world = World::on(Arc::new(disk), 1_700_000_000_000_000, Durability::Always);
        for query in queries {
            let reply = world.ask("secret", query);
            assert!(reply.status < 300, "{query}: {}", reply.body);
            assert!(world.fauna.engine.wait_durable(reply.dependency));
        }
        stopped.set(true);
        Place { world, stopped }
    }

    /// The answer, and whether it is held back for what has been committed since.
    fn ask(&self, secret: &str, query: &str) -> (u16, Value, bool) {
        let reply: Reply = self.world.ask(secret, query);
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        let is_held = reply.dependency > self.world.fauna.engine.durable();
        (reply.status, body["resource"].clone(), is_held)
    }

    fn commit(&self, query: &str) {
        let (status, _, is_held) = self.ask("secret", query);
        assert!(status < 300 && is_held, "{query}");
    }
}

const DOCUMENT: [&str; 2] = [
    r#"{"create_collection":{"object":{"name":"old"}}}"#,
    r#"{"create":{"ref":{"collection":"old"},"id":"1"},"params":{"object":{"data":{"object":{"v":1}}}}}"#,
];

fn value_in(name: &str) -> String {
    format!(r#"{{"select":["data","v"],"from":{{"get":{{"ref":{{"collection":"{name}"}},"id":"1"}}}}}}"#)
}

#[test]
fn half_of_a_transaction_is_not_seen() {
    let place = Place::after(&DOCUMENT);
    place.commit(
        r#"{"do":[{"update":{"ref":{"collection":"old"},"id":"1"},"params":{"object":{"data":{"object":{"v":2}}}}},
            {"update":{"collection":"old"},"params":{"object":{"name":"new"}}},true]}"#,
    );
    let query = format!(
        r#"{{"if":{{"exists":{{"collection":"new"}}}},"then":["new",{}],"else":["old",{}]}}"#,
        value_in("new"),
        value_in("old")
    );
    assert_eq!(place.ask("secret", &query), (200, json!(["new", 2]), true));
    // The collection's own document and lists of names are no different.
    let listed = r#"{"map":{"lambda":"r","expr":{"select":"name","from":{"get":{"var":"r"}}}},"collection":{"select":"data","from":{"paginate":{"collections":null}}}}"#;
    assert_eq!(place.ask("secret", listed), (200, json!(["new"]), true));
}

/// A change of only documents is read as of the durable version, without waiting.
#[test]
fn reading_documents_does_not_wait_for_writes_to_them() {
    let place = Place::after(&DOCUMENT);
    place.commit(r#"{"update":{"ref":{"collection":"old"},"id":"1"},"params":{"object":{"data":{"object":{"v":2}}}}}"#);
    assert_eq!(place.ask("secret", &value_in("old")), (200, json!(1), false));
}

const USER: [&str; 4] = [
    r#"{"create_collection":{"object":{"name":"old"}}}"#,
    r#"{"create":{"ref":{"collection":"old"},"id":"1"},"params":{"object":{"data":{"object":{"v":1}},"credentials":{"object":{"password":"p"}}}}}"#,
    r#"{"create_role":{"object":{"name":"readers","membership":{"object":{"resource":{"collection":"old"},"predicate":{"query":{"lambda":"r","expr":{"lte":[{"select":["data","v"],"from":{"get":{"var":"r"}}},2]}}}}},"privileges":[{"object":{"resource":{"collection":"old"},"actions":{"object":{"read":true}}}}]}}}"#,
    r#"{"create_key":{"object":{"role":{"role":"readers"}}}}"#,
];

/// A key and a token, created and durable, with the disk stopped.
fn credentials() -> (Place, String, String) {
    let place = Place::after(&USER);
    place.stopped.set(false);
    let make = |query: &str| {
        let reply = place.world.ask("secret", query);
        assert!(place.world.fauna.engine.wait_durable(reply.dependency));
        let body: Value = serde_json::from_str(&reply.body).unwrap();
        body["resource"]["secret"].as_str().unwrap().to_owned()
    };
    let key = make(r#"{"create_key":{"object":{"role":{"role":"readers"}}}}"#);
    let token = make(r#"{"login":{"ref":{"collection":"old"},"id":"1"},"params":{"object":{"password":"p"}}}"#);
    place.stopped.set(true);
    (place, key, token)
}

#[test]
fn a_key_that_is_deleted_opens_until_that_is_durable_or_the_refusal_waits() {
    let (place, key, _) = credentials();
    assert_eq!(place.ask(&key, &value_in("old")), (200, json!(1), false));
    place.commit(
        r#"{"foreach":{"lambda":"r","expr":{"delete":{"var":"r"}}},"collection":{"select":"data","from":{"paginate":{"keys":null}}}}"#,
    );
    assert_eq!(place.ask(&key, &value_in("old")), (401, Value::Null, true));
    // A query that cannot be parsed, and one that would write, are refused no earlier.
    assert_eq!(place.ask(&key, r#"{"nonsense":1}"#), (401, Value::Null, true));
    assert_eq!(
        place.ask(&key, r#"{"delete":{"ref":{"collection":"old"},"id":"1"}}"#),
        (401, Value::Null, true)
    );
}

#[test]
fn a_token_that_logs_out_opens_until_that_is_durable_or_the_refusal_waits() {
    let (place, _, token) = credentials();
    assert_eq!(place.ask(&token, &value_in("old")), (200, json!(1), false));
    assert_eq!(place.ask(&token, r#"{"logout":true}"#), (200, json!(true), true));
    assert_eq!(place.ask(&token, &value_in("old")), (401, Value::Null, true));
}

#[test]
fn a_new_key_is_known_with_its_role() {
    let (place, _, _) = credentials();
    let made = r#"{"do":[{"update":{"ref":{"collection":"old"},"id":"1"},"params":{"object":{"data":{"object":{"v":2}}}}},{"create_key":{"object":{"role":"server"}}}]}"#;
    let (_, key, _) = place.ask("secret", made);
    let secret = key["secret"].as_str().unwrap();
    assert_eq!(place.ask(secret, &value_in("old")), (200, json!(2), true));
}

/// A role's rights and members are of one state with the documents that they concern.
#[test]
fn roles_are_of_one_state_with_documents() {
    let (place, key, token) = credentials();
    // Only the document has changed: membership is decided by the durable document.
    place.commit(r#"{"update":{"ref":{"collection":"old"},"id":"1"},"params":{"object":{"data":{"object":{"v":3}}}}}"#);
    assert_eq!(place.ask(&token, &value_in("old")), (200, json!(1), false));
    place.commit(r#"{"update":{"role":"readers"},"params":{"object":{"privileges":[]}}}"#);
    assert_eq!(place.ask(&key, &value_in("old")), (403, Value::Null, true));
    // No role covers it any longer, so it reads itself as it is now.
    assert_eq!(place.ask(&token, &value_in("old")), (200, json!(3), true));
}

#[test]
fn a_stream_starts_when_what_it_saw_is_durable() {
    use quartet_layer_fauna::{Request, StreamStep};
    let place = Place::after(&DOCUMENT);
    place.commit(r#"{"update":{"collection":"old"},"params":{"object":{"name":"new"}}}"#);
    let request = Request {
        method: "POST",
        target: "/stream",
        headers: &[("authorization", "Bearer secret"), ("x-faunadb-api-version", "4")],
        body: br#"{"documents":{"collection":"new"}}"#,
    };
    let (_, mut stream) = place.world.fauna.stream(request, Arc::new(|| {})).unwrap().unwrap();
    assert!(matches!(stream.step(), StreamStep::Wait(_)));
    place.stopped.set(false);
    let reader = place.world.fauna.engine.reader(place.world.fauna.space).unwrap();
    assert!(place.world.fauna.engine.wait_durable(reader.dependency));
    assert!(matches!(stream.step(), StreamStep::Send(start) if start.contains("start")));
}
