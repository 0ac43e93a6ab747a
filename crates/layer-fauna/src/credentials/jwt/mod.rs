//! JSON Web Tokens: what one claims, and whether a key of its issuer signed it (RFC 7515, 7517,
//! 7519).
//!
//! A token is untrusted until `KeySet::verify` has succeeded. The algorithm belongs to the key: an
//! RSA key verifies only RS256, an elliptic one only ES256, so that a token cannot choose how it is
//! verified. This module fetches nothing; `keys` holds the fetched sets.

pub mod keys;

use std::sync::Arc;

use base64::Engine as _;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};

use crate::language::json::{self, Json};

/// Longer tokens are refused; they are part of a header, which is shorter.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// Keys of a set beyond these are left out.
const KEYS_MAX: usize = 100;

/// Returns true for a secret that looks like another issuer's token: its first bytes are those of a
/// JSON object.
pub fn is_token(secret: &str) -> bool {
    secret.starts_with("ey") && secret.contains('.')
}

/// A token taken apart. Nothing it says is true yet.
#[derive(Debug)]
pub struct Token {
    algorithm: Arc<str>,
    key_id: Option<Arc<str>>,
    signed: String,
    signature: Vec<u8>,
    pub claims: Json,
}

impl Token {
    pub fn parse(text: &str) -> Option<Token> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = object(header)?;
        // Critical extensions are not supported.
        if header.field("crit").is_some() {
            return None;
        }
        Some(Token {
            algorithm: text_of(&header, "alg")?,
            key_id: text_of(&header, "kid"),
            signed: signed.to_owned(),
            signature: decode(signature)?,
            claims: object(claims)?,
        })
    }

    pub fn issuer(&self) -> Option<Arc<str>> {
        text_of(&self.claims, "iss")
    }

    /// Returns the audience with this prefix, if exactly one has it.
    pub fn audience(&self, prefix: &str) -> Option<Arc<str>> {
        let all = match self.claims.field("aud")? {
            Json::Array(items) => items.to_vec(),
            single => vec![single.clone()],
        };
        let mut ours = all.into_iter().filter_map(|audience| match audience {
            Json::String(text) if text.starts_with(prefix) => Some(text),
            _ => None,
        });
        let only = ours.next()?;
        ours.next().is_none().then_some(only)
    }

    /// Returns true if it has become valid and has not expired. A time that is not a number is
    /// treated as missing.
    pub fn is_current(&self, now_micros: u64) -> bool {
        let now = now_micros as f64 / 1e6;
        let seconds = |claim| match self.claims.field(claim) {
            None => Some(None),
            Some(Json::Int(seconds)) => Some(Some(*seconds as f64)),
            Some(Json::Double(seconds)) => Some(Some(*seconds)),
            Some(_) => None,
        };
        match (seconds("exp"), seconds("nbf")) {
            (Some(end), Some(start)) => end.is_none_or(|end| now < end) && start.is_none_or(|start| start < now),
            _ => false,
        }
    }
}

/// The public keys of an issuer.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<(Option<Arc<str>>, PublicKey)>,
}

#[derive(Debug)]
enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point of P-256.
    P256(Vec<u8>),
}

impl KeySet {
    /// Reads a JWKS document. Keys that are of another kind, or not for signatures, are left out.
    pub fn parse(bytes: &[u8]) -> Option<KeySet> {
        let document = json::parse(bytes).ok()?;
        let Json::Array(keys) = document.field("keys")? else {
            return None;
        };
        let keys = keys.iter().take(KEYS_MAX);
        let usable = keys.filter(|key| text_of(key, "use").is_none_or(|purpose| &*purpose == "sig"));
        Some(KeySet {
            keys: usable
                .filter_map(|key| Some((text_of(key, "kid"), public_key(key)?)))
                .collect(),
        })
    }

    pub fn has_key_for(&self, token: &Token) -> bool {
        self.candidates(token).next().is_some()
    }

    /// The key that the token names, or any if it names none.
    fn candidates<'k>(&'k self, token: &'k Token) -> impl Iterator<Item = &'k PublicKey> {
        let named = |id: &Option<Arc<str>>| token.key_id.is_none() || *id == token.key_id;
        self.keys.iter().filter(move |(id, _)| named(id)).map(|(_, key)| key)
    }

    pub fn verify(&self, token: &Token) -> bool {
        self.candidates(token).any(|key| key.verify(token))
    }
}

fn public_key(key: &Json) -> Option<PublicKey> {
    let bytes = |name| decode(&text_of(key, name)?);
    match &*text_of(key, "kty")? {
        "RSA" => Some(PublicKey::Rsa {
            modulus: bytes("n")?,
            exponent: bytes("e")?,
        }),
        "EC" if *text_of(key, "crv")? == *"P-256" => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == 32 && y.len() == 32).then(|| PublicKey::P256([&[4], &x[..], &y].concat()))
        }
        _ => None,
    }
}

impl PublicKey {
    fn verify(&self, token: &Token) -> bool {
        let (signed, signature) = (token.signed.as_bytes(), &token.signature[..]);
        let verified = match (self, &*token.algorithm) {
            (PublicKey::Rsa { modulus, exponent }, "RS256") => {
                // Some write the sign of the number with it.
                let n = &modulus[modulus.iter().take_while(|byte| **byte == 0).count()..];
                let components = RsaPublicKeyComponents { n, e: exponent };
                components.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }
            (PublicKey::P256(point), "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

fn text_of(json: &Json, key: &str) -> Option<Arc<str>> {
    match json.field(key)? {
        Json::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn decode(part: &str) -> Option<Vec<u8>> {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).ok()
}

fn object(part: &str) -> Option<Json> {
    match json::parse(&decode(part)?) {
        Ok(object @ Json::Object(_)) => Some(object),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
