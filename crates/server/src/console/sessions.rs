//! The sessions of the console: in memory, few, and limited in idle time.
//!
//! A session is found by the hash of its cookie and believed by the hash of its proof. It holds the
//! credentials that its person has shown, because the layers want to see them with each request;
//! they leave the process in no answer.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::answers::{NO_CONTENT, OK, whole};
use crate::http::{Answer, Head};
use crate::process::system::random_hexadecimal;

/// The header with the second secret of a session.
pub const PROOF: &str = "x-quartet-proof";
/// Idle limit of a session.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
/// Age limit of any session.
const AGE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Upper bound on sessions; the longest idle session is evicted.
const SESSIONS_MAX: usize = 256;
/// 256 bits.
const SECRET_DIGITS: usize = 64;

/// The credentials of a person, by the names of the databases that they open.
#[derive(Clone, Default)]
pub struct Keyring {
    /// Opens the default database in every protocol, and the admin API.
    pub root_key: Option<String>,
    /// Tokens of REST.
    pub redis: BTreeMap<String, String>,
    pub fauna: BTreeMap<String, String>,
    /// Access keys with their secrets.
    pub dynamodb: BTreeMap<String, (String, String)>,
}

impl Keyring {
    pub fn is_empty(&self) -> bool {
        self.root_key.is_none() && self.redis.is_empty() && self.fauna.is_empty() && self.dynamodb.is_empty()
    }

    /// It has something for this database.
    pub fn names(&self, database: &str) -> bool {
        self.redis.contains_key(database) || self.fauna.contains_key(database) || self.dynamodb.contains_key(database)
    }

    pub fn add(&mut self, other: Keyring) {
        self.root_key = other.root_key.or(self.root_key.take());
        self.redis.extend(other.redis);
        self.fauna.extend(other.fauna);
        self.dynamodb.extend(other.dynamodb);
    }
}

struct Session {
    proof: [u8; 32],
    keyring: Keyring,
    opened: Instant,
    used: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.used) >= IDLE_MAX || now.duration_since(self.opened) >= AGE_MAX
    }
}

pub struct Sessions {
    /// Under the hashes of their cookies.
    open: Mutex<HashMap<[u8; 32], Session>>,
    /// Names the port, because servers on other ports of the host have sessions of their own.
    cookie: String,
}

impl Sessions {
    pub fn new(port: u16) -> Sessions {
        Sessions {
            open: Mutex::default(),
            cookie: format!("quartet_console_{port}"),
        }
    }

    /// Returns the keyring of a request's session.
    pub fn keyring_of(&self, head: &Head<'_>, now: Instant) -> Option<Keyring> {
        self.with(head, now, |session| session.keyring.clone())
    }

    /// Gives the session of a request more. False if there is none.
    pub fn extend(&self, head: &Head<'_>, more: &Keyring, now: Instant) -> bool {
        self.with(head, now, |session| session.keyring.add(more.clone()))
            .is_some()
    }

    /// The answer has both secrets for the browser: the cookie, which the page cannot read, and the
    /// proof, which only the page can read.
    pub fn open(&self, keyring: Keyring, head: &Head<'_>, now: Instant) -> Answer {
        let (name, proof) = (random_hexadecimal(SECRET_DIGITS), random_hexadecimal(SECRET_DIGITS));
        let session = Session {
            proof: hash(&proof),
            keyring,
            opened: now,
            used: now,
        };
        let mut open = self.open.lock();
        open.retain(|_, session| !session.is_over(now));
        if open.len() >= SESSIONS_MAX {
            let idle = open.iter().min_by_key(|(_, session)| session.used);
            let idle = idle.map(|(name, _)| *name);
            idle.map(|name| open.remove(&name));
        }
        open.insert(hash(&name), session);
        drop(open);
        let mut answer = whole(OK, &json!({ "proof": proof }));
        let is_encrypted = head
            .header("origin")
            .is_some_and(|origin| origin.starts_with("https://"));
        let secure = if is_encrypted { "; Secure" } else { "" };
        let cookie = format!(
            "{}={name}; Path=/console/; HttpOnly; SameSite=Strict{secure}",
            self.cookie
        );
        answer.headers.push(("set-cookie", cookie.into()));
        answer
    }

    pub fn close(&self, head: &Head<'_>) {
        if self.with(head, Instant::now(), |_| ()).is_some()
            && let Some(name) = self.name_in(head)
        {
            self.open.lock().remove(&hash(name));
        }
    }

    pub fn forgetting_answer(&self) -> Answer {
        let mut answer = Answer::settled(NO_CONTENT, "");
        let cookie = format!("{}=; Path=/console/; HttpOnly; SameSite=Strict; Max-Age=0", self.cookie);
        answer.headers.push(("set-cookie", cookie.into()));
        answer
    }

    fn with<T>(&self, head: &Head<'_>, now: Instant, look: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let name = hash(self.name_in(head)?);
        let proof = hash(head.header(PROOF)?);
        let mut open = self.open.lock();
        let session = open.get_mut(&name)?;
        if session.is_over(now) {
            open.remove(&name);
            return None;
        }
        // Hashes are compared, so how much of a guess is right does not show in the time.
        if session.proof != proof {
            return None;
        }
        session.used = now;
        Some(look(session))
    }

    fn name_in<'r>(&self, head: &Head<'r>) -> Option<&'r str> {
        let mut cookies = head
            .texts()
            .filter(|(name, _)| name.eq_ignore_ascii_case("cookie"))
            .flat_map(|(_, value)| value.split(';'));
        cookies.find_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        })
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Header;

    fn with_headers<T>(headers: &[(&str, &str)], check: impl FnOnce(&Head<'_>) -> T) -> T {
        let headers: Vec<Header<'_>> = headers
            .iter()
            .map(|(name, value)| Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        check(&Head {
            method: "GET",
            target: "/",
            headers: &headers,
        })
    }

    /// Opens a session; returns its cookie and its proof.
    fn opened(sessions: &Sessions, now: Instant) -> (String, String) {
        let keyring = Keyring {
            root_key: Some("sesame".into()),
            ..Keyring::default()
        };
        let answer = with_headers(&[], |head| sessions.open(keyring, head, now));
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let cookie = answer.headers.iter().find(|(name, _)| *name == "set-cookie").unwrap();
        let cookie = cookie.1.split(';').next().unwrap().to_owned();
        (cookie, body["proof"].as_str().unwrap().to_owned())
    }

    fn is_known(sessions: &Sessions, cookie: &str, proof: &str, now: Instant) -> bool {
        with_headers(&[("cookie", cookie), (PROOF, proof)], |head| {
            sessions.keyring_of(head, now).is_some()
        })
    }

    #[test]
    fn a_session_needs_its_cookie_and_its_proof() {
        let (sessions, now) = (Sessions::new(8080), Instant::now());
        let (cookie, proof) = opened(&sessions, now);
        assert!(is_known(&sessions, &cookie, &proof, now));
        assert!(is_known(&sessions, &format!("other=1; {cookie}"), &proof, now));
        assert!(!is_known(&sessions, &cookie, "", now));
        assert!(!is_known(&sessions, "quartet_console_8080=", &proof, now));
        let (_, other_proof) = opened(&sessions, now);
        assert!(!is_known(&sessions, &cookie, &other_proof, now));
    }

    #[test]
    fn a_session_ends_when_idle_and_at_its_maximum_age() {
        let (sessions, start) = (Sessions::new(1), Instant::now());
        let (cookie, proof) = opened(&sessions, start);
        let nearly = IDLE_MAX - Duration::from_secs(1);
        let mut now = start;
        while now + nearly < start + AGE_MAX {
            now += nearly;
            assert!(is_known(&sessions, &cookie, &proof, now));
        }
        assert!(!is_known(&sessions, &cookie, &proof, start + AGE_MAX));
        let (cookie, proof) = opened(&sessions, start);
        assert!(!is_known(&sessions, &cookie, &proof, start + IDLE_MAX));
    }

    #[test]
    fn there_are_never_more_than_the_limit() {
        let (sessions, start) = (Sessions::new(1), Instant::now());
        let (first, first_proof) = opened(&sessions, start);
        let later = start + Duration::from_secs(1);
        for _ in 0..SESSIONS_MAX {
            opened(&sessions, later);
        }
        assert_eq!(sessions.open.lock().len(), SESSIONS_MAX);
        assert!(!is_known(&sessions, &first, &first_proof, later));
    }
}
