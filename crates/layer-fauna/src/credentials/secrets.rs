//! Secrets of keys and tokens, and passwords.
//!
//! A generated secret carries 160 random bits, so it is stored as a plain SHA-256; a password is
//! chosen by a person and stored by bcrypt.

use base64::Engine as _;
use sha2::{Digest, Sha256};

/// Work of hashing a password: about ten milliseconds.
const PASSWORD_COST: u32 = 8;
/// The greatest cost of an imported hash: a second of one thread.
const PASSWORD_COST_MAX: u32 = 14;
/// bcrypt looks at no more bytes of a password.
const PASSWORD_BYTES_MAX: usize = 72;
/// `$2b$08$`, 22 of salt, 31 of hash.
const PASSWORD_HASH_CHARS: usize = 60;

const KEY_MARK: [u8; 2] = [0x7e, 0x70];
const TOKEN_MARK: [u8; 2] = [0x7e, 0x71];
/// The same marks for a logical database other than the default one: its number follows the mark,
/// so that the secret names its database.
const KEY_ELSEWHERE_MARK: [u8; 2] = [0x7e, 0x72];
const TOKEN_ELSEWHERE_MARK: [u8; 2] = [0x7e, 0x73];

/// A secret as its owner sees it.
pub struct Secret {
    pub text: String,
}

/// The claim of a presented secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Key(u64),
    Token(u64),
}

impl Secret {
    /// `elsewhere`: the number of the logical database, if the secret must name it.
    pub fn key(elsewhere: Option<u16>, id: u64, random: &[u8; 20]) -> Secret {
        let mark = marked(KEY_MARK, KEY_ELSEWHERE_MARK, elsewhere);
        Secret::of(&[&mark[..], &id.to_be_bytes(), random].concat())
    }

    pub fn token(elsewhere: Option<u16>, id: u64, database: u64, random: &[u8; 20]) -> Secret {
        let mark = marked(TOKEN_MARK, TOKEN_ELSEWHERE_MARK, elsewhere);
        Secret::of(&[&mark[..], &id.to_be_bytes(), &database.to_be_bytes(), random].concat())
    }

    fn of(bytes: &[u8]) -> Secret {
        Secret {
            text: base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes),
        }
    }

    pub fn hash(&self) -> [u8; 32] {
        hash(&self.text)
    }

    /// Returns the value of `hashed_secret`.
    pub fn shown_hash(&self) -> String {
        shown_hash(&self.text)
    }
}

/// Returns the value of `hashed_secret` for a secret.
pub fn shown_hash(secret: &str) -> String {
    let digest = base64::engine::general_purpose::STANDARD_NO_PAD.encode(hash(secret));
    format!("$sha256${digest}")
}

fn marked(own_mark: [u8; 2], other_mark: [u8; 2], elsewhere: Option<u16>) -> Vec<u8> {
    match elsewhere {
        None => own_mark.to_vec(),
        Some(number) => [other_mark, number.to_be_bytes()].concat(),
    }
}

/// The number of the logical database that the secret of a key or a token says it is known in.
pub fn elsewhere_of(secret: &str) -> Option<u16> {
    let secret = secret.split(':').next()?;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(secret).ok()?;
    let mark = bytes.get(..2)?;
    let number = bytes.get(2..4)?.try_into().ok()?;
    (mark == KEY_ELSEWHERE_MARK || mark == TOKEN_ELSEWHERE_MARK).then(|| u16::from_be_bytes(number))
}

/// The hash that `hashed_secret` shows, if it is one of ours.
pub fn hash_shown_as(text: &str) -> Option<[u8; 32]> {
    let digest = base64::engine::general_purpose::STANDARD_NO_PAD.decode(text.strip_prefix("$sha256$")?);
    digest.ok()?.try_into().ok()
}

pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

/// Parses the key or token that a secret belongs to. The bytes `7E 70` and `7E 71` make every
/// secret start with `fn`.
pub fn claim(secret: &str) -> Option<Claim> {
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(secret).ok()?;
    let id_at = |position: usize| crate::storage::rows::number_at(&bytes, position);
    match (bytes.get(..2)?, bytes.len()) {
        (mark, 30) if mark == KEY_MARK => Some(Claim::Key(id_at(2))),
        (mark, 38) if mark == TOKEN_MARK => Some(Claim::Token(id_at(2))),
        (mark, 32) if mark == KEY_ELSEWHERE_MARK => Some(Claim::Key(id_at(4))),
        (mark, 40) if mark == TOKEN_ELSEWHERE_MARK => Some(Claim::Token(id_at(4))),
        _ => None,
    }
}

pub fn hash_password(password: &str) -> String {
    bcrypt::hash(first_bytes(password), PASSWORD_COST).expect("the cost is in range and the system has randomness")
}

pub fn password_matches(password: &str, hash: &str) -> bool {
    bcrypt::verify(first_bytes(password), hash).unwrap_or(false)
}

/// Returns true if a text is a bcrypt hash, of no more work than a login may cost.
pub fn is_password_hash(text: &str) -> bool {
    let hash = text.parse::<bcrypt::HashParts>();
    hash.is_ok_and(|hash| hash.get_cost() <= PASSWORD_COST_MAX) && text.len() == PASSWORD_HASH_CHARS
}

fn first_bytes(password: &str) -> &[u8] {
    let bytes = password.as_bytes();
    &bytes[..bytes.len().min(PASSWORD_BYTES_MAX)]
}

/// The prefix of every audience.
pub const AUDIENCE_PREFIX: &str = "https://db.fauna.com/db/";

/// Returns the audience of a JWT for a database. `elsewhere`: the number of the logical database,
/// if it must be named first.
pub fn audience(elsewhere: Option<u16>, database: u64) -> String {
    let elsewhere = elsewhere.map(|number| global_id(number.into())).unwrap_or_default();
    format!("{AUDIENCE_PREFIX}{elsewhere}{}", global_id(database))
}

/// The logical database that an audience names, if it does, and the database there.
pub fn databases_of(audience: &str) -> Option<(Option<u16>, u64)> {
    let ids = audience.strip_prefix(AUDIENCE_PREFIX)?;
    match ids.split_at_checked(ids.len().checked_sub(LETTERS_OF_AN_ID)?)? {
        ("", id) => Some((None, number_of(id)?)),
        (elsewhere, id) => Some((Some(number_of(elsewhere)?.try_into().ok()?), number_of(id)?)),
    }
}

fn number_of(id: &str) -> Option<u64> {
    let digit = |letter: u8| LETTERS.iter().position(|candidate| *candidate == letter);
    let digits: Option<Vec<usize>> = id.bytes().map(digit).collect();
    let number = digits?.iter().fold(0u64, |number, digit| number << 5 | *digit as u64);
    // An id written in another way is unknown.
    (global_id(number) == id).then_some(number)
}

const LETTERS_OF_AN_ID: usize = 13;
const LETTERS: &[u8; 32] = b"ybndrfg8ejkmcpqxot1uwisza345h769";

/// The public name of a database: its number in letters.
pub fn global_id(number: u64) -> String {
    (0..LETTERS_OF_AN_ID)
        .rev()
        .map(|digit| char::from(LETTERS[(number >> (digit * 5)) as usize & 31]))
        .collect()
}

/// The identity of a credential for the rate limits, regardless of the requested database and role.
pub fn base_hash(secret: &str) -> [u8; 32] {
    hash(secret.split_once(':').map_or(secret, |(secret, _)| secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_its_scope() {
        let key = Secret::key(None, 42, &[7; 20]);
        assert!(key.text.starts_with("fn"));
        assert_eq!(elsewhere_of(&key.text), None);
        let elsewhere = Secret::key(Some(700), 42, &[7; 20]);
        assert!(elsewhere.text.starts_with("fn"));
        assert_eq!(claim(&elsewhere.text), Some(Claim::Key(42)));
        assert_eq!(elsewhere_of(&format!("{}:shop:server", elsewhere.text)), Some(700));
        let elsewhere = Secret::token(Some(700), 43, 1, &[9; 20]);
        assert_eq!(claim(&elsewhere.text), Some(Claim::Token(43)));
        assert_eq!(claim(&key.text), Some(Claim::Key(42)));
        assert_eq!(
            claim(&Secret::token(None, 43, 1, &[9; 20]).text),
            Some(Claim::Token(43))
        );
        for garbage in ["", "garbage", "secret", "fnAEpY1ZWaACQOJh6JZ8t4qB0eNN1l-8r1gFFFFF!"] {
            assert_eq!(claim(garbage), None);
        }
    }

    #[test]
    fn an_audience_names_a_database() {
        for number in [0, 1, 31, 32, u64::MAX] {
            assert_eq!(databases_of(&audience(None, number)), Some((None, number)));
            let elsewhere = Some(700);
            assert_eq!(databases_of(&audience(elsewhere, number)), Some((elsewhere, number)));
        }
        for wrong in [
            "",
            "https://db.fauna.com/db/",
            "https://db.fauna.com/db/y",
            "https://db.fauna.com/db/éyyyyyyyyyyyy",
            "https://db.fauna.com/db/yyyyyyyyyyyyyy",
            "https://db.fauna.com/db/yyyyyyyybyyyyyyyyyyyyyyyyy",
            "https://elsewhere/yyyyyyyyyyyyy",
        ] {
            assert_eq!(databases_of(wrong), None);
        }
    }

    #[test]
    fn passwords_match_only_themselves() {
        let hash = hash_password("sesame");
        assert!(password_matches("sesame", &hash));
        assert!(!password_matches("sesame2", &hash));
    }
}
