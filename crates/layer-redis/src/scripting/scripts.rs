//! Scripts of EVAL and SCRIPT LOAD: digest, flags of the first line, and the cache that EVALSHA
//! looks into.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use quartet_wire_resp::{Limits, Parsed, Parser};
use rustc_hash::FxHashMap;
use sha1::{Digest as _, Sha1};

pub type Digest = [u8; 20];

pub const NO_WRITES: u32 = 1;
pub const ALLOW_OOM: u32 = 1 << 1;
pub const ALLOW_STALE: u32 = 1 << 2;
pub const NO_CLUSTER: u32 = 1 << 3;
pub const ALLOW_CROSS_SLOT_KEYS: u32 = 1 << 4;
/// Upstash's own: it locks the keys that a script names. Here the whole partition is locked anyway.
const ALLOW_KEY_LOCKING: &str = "allow-key-locking";
/// A script without a first line of its own: checked command by command, as before Redis 7.
pub const COMPATIBLE: u32 = 1 << 31;

/// The flags by name, in the order in which FUNCTION LIST shows them.
pub const FLAGS: &[(u32, &str)] = &[
    (NO_WRITES, "no-writes"),
    (ALLOW_OOM, "allow-oom"),
    (ALLOW_STALE, "allow-stale"),
    (NO_CLUSTER, "no-cluster"),
    (ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
];

/// Scripts of EVAL that are kept for EVALSHA. Scripts of SCRIPT LOAD stay until SCRIPT FLUSH.
const EVALUATED_MAX: usize = 500;

pub struct Script {
    pub digest: Digest,
    /// The whole source; its first line is not Lua if it starts with `#!`.
    pub body: Vec<u8>,
    pub flags: u32,
    /// Length of the first line, without its end, if it is not Lua.
    header_bytes: usize,
}

impl Script {
    /// Reads the first line. The error is the reply's text without its code.
    pub fn new(digest: Digest, body: &[u8]) -> Result<Script, String> {
        let (flags, header_bytes) = read_header(body)?;
        Ok(Script {
            digest,
            body: body.to_vec(),
            flags,
            header_bytes,
        })
    }

    /// Returns the Lua part of it, the lines counted as in the whole.
    pub fn source(&self) -> &[u8] {
        &self.body[self.header_bytes..]
    }
}

fn read_header(body: &[u8]) -> Result<(u32, usize), String> {
    if !body.starts_with(b"#!") {
        return Ok((COMPATIBLE, 0));
    }
    let end = body.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or("Invalid script shebang")?;
    let words = words(&body[..end]).ok_or("Invalid engine in script shebang")?;
    let mut words = words.iter();
    let engine = words.next().map(String::as_str).unwrap_or_default();
    if engine != "#!lua" {
        return Err(format!("Unexpected engine in script shebang: {engine}"));
    }
    let mut flags = 0;
    for word in words {
        let Some(names) = word.strip_prefix("flags=") else {
            return Err(format!("Unknown lua shebang option: {word}"));
        };
        let names = names
            .split(',')
            .filter(|name| !names.is_empty() && *name != ALLOW_KEY_LOCKING);
        for name in names {
            flags |= flag(name).ok_or_else(|| format!("Unexpected flag in script shebang: {name}"))?;
        }
    }
    Ok((flags, end))
}

/// The words of a first line, which may be quoted as in an inline command. Nothing if its quotes
/// are not closed.
pub fn words(line: &[u8]) -> Option<Vec<String>> {
    let line = [line, b"\n"].concat();
    let mut parser = Parser::new();
    match parser.parse(&line, &Limits::unlimited()) {
        Ok(Parsed::Request { .. }) => {}
        _ => return None,
    }
    let words = parser
        .arguments(&line)
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned());
    Some(words.collect())
}

/// The flag of this name.
pub fn flag(name: &str) -> Option<u32> {
    FLAGS
        .iter()
        .find(|(_, flag_name)| *flag_name == name)
        .map(|(flag, _)| *flag)
}

/// The cache of scripts, of one logical database. It does not outlive the process, as in Redis.
#[derive(Default)]
pub struct Scripts(RwLock<Cached>);

#[derive(Default)]
struct Cached {
    by_digest: FxHashMap<Digest, Arc<Script>>,
    /// The scripts that EVAL brought, by their bodies, so that the digest of a script seen before
    /// is not computed again.
    by_body: FxHashMap<Vec<u8>, Arc<Script>>,
    /// Digests of the scripts that may go, oldest first.
    evaluated: VecDeque<Digest>,
    bytes: usize,
    /// The bytes of those that stay until the flush.
    loaded_bytes: usize,
}

impl Scripts {
    pub fn find(&self, digest: &Digest) -> Option<Arc<Script>> {
        self.0.read().by_digest.get(digest).cloned()
    }

    /// A script that EVAL has run before.
    pub fn find_body(&self, body: &[u8]) -> Option<Arc<Script>> {
        self.0.read().by_body.get(body).cloned()
    }

    /// Keeps a script that compiles, within `bytes_max` of all. One that was loaded is kept until
    /// the flush.
    pub fn add(&self, script: Script, loaded: bool, bytes_max: usize) -> Result<Arc<Script>, String> {
        let mut cached = self.0.write();
        let digest = script.digest;
        while cached.bytes + script.body.len() > bytes_max && !cached.evaluated.is_empty() {
            cached.forget_oldest();
        }
        if cached.bytes + script.body.len() > bytes_max {
            return Err("too many scripts are cached: use SCRIPT FLUSH".into());
        }
        let script = Arc::new(script);
        if cached.by_digest.insert(digest, script.clone()).is_none() {
            cached.bytes += script.body.len();
            match loaded {
                true => cached.loaded_bytes += script.body.len(),
                false => cached.evaluated.push_back(digest),
            }
        }
        if loaded {
            let before = cached.evaluated.len();
            cached.evaluated.retain(|other| *other != digest);
            if cached.evaluated.len() < before {
                cached.loaded_bytes += script.body.len();
            }
        } else if script.body.len() <= BODY_BYTES_MAX {
            cached.by_body.insert(script.body.clone(), script.clone());
        }
        if cached.evaluated.len() > EVALUATED_MAX {
            cached.forget_oldest();
        }
        Ok(script)
    }

    pub fn flush(&self) {
        *self.0.write() = Cached::default();
    }

    /// Bytes of the scripts that stay until the flush.
    pub fn loaded_bytes(&self) -> usize {
        self.0.read().loaded_bytes
    }

    /// Number and bytes of the scripts that are kept.
    pub fn size(&self) -> (usize, usize) {
        let cached = self.0.read();
        (cached.by_digest.len(), cached.bytes)
    }
}

/// Longer scripts are looked up by their digest: a comparison costs as much as its computation.
const BODY_BYTES_MAX: usize = 16 << 10;

impl Cached {
    fn forget_oldest(&mut self) {
        let Some(digest) = self.evaluated.pop_front() else {
            return;
        };
        if let Some(script) = self.by_digest.remove(&digest) {
            self.bytes -= script.body.len();
            self.by_body.remove(&script.body);
        }
    }
}

/// The mark by which interpreters, which serve all layers of a process, keep the libraries of one
/// layer separate: the local variables of a library belong to its database, also if another
/// database has loaded the same code.
pub struct LibraryMark(u64);

impl Default for LibraryMark {
    fn default() -> LibraryMark {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        LibraryMark(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl LibraryMark {
    /// Returns the digest by which interpreters know the layer's library of this digest. No other
    /// layer has it without code that has a digest of its choice.
    pub fn on(&self, digest: &Digest) -> Digest {
        let mut marked = *digest;
        for (byte, mark) in marked.iter_mut().zip(self.0.to_be_bytes()) {
            *byte ^= mark;
        }
        marked
    }
}

pub fn sha1(bytes: &[u8]) -> Digest {
    Sha1::digest(bytes).into()
}

/// Forty hexadecimal digits, letters in any case.
pub fn parse_digest(text: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    if text.len() != 2 * digest.len() {
        return None;
    }
    let mut is_sound = true;
    for (index, byte) in digest.iter_mut().enumerate() {
        let high = DIGIT_VALUES[usize::from(text[2 * index])];
        let low = DIGIT_VALUES[usize::from(text[2 * index + 1])];
        is_sound &= high | low != NO_DIGIT;
        *byte = high << 4 | low;
    }
    is_sound.then_some(digest)
}

const NO_DIGIT: u8 = 0xff;

/// By their bytes: each EVALSHA reads forty.
const DIGIT_VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use quartet_model::hexadecimal;

    use super::*;

    #[test]
    fn first_lines_give_flags() {
        let read = |body: &str| read_header(body.as_bytes());
        assert_eq!(read("return 1"), Ok((COMPATIBLE, 0)));
        assert_eq!(read("#!lua\nreturn 1"), Ok((0, 5)));
        assert_eq!(
            read("#!lua flags=no-writes,allow-oom\nx"),
            Ok((NO_WRITES | ALLOW_OOM, 31))
        );
        assert_eq!(read("#!lua"), Err("Invalid script shebang".into()));
        assert_eq!(read("#!lua name=f\n"), Err("Unknown lua shebang option: name=f".into()));
        assert_eq!(read("#!js\n"), Err("Unexpected engine in script shebang: #!js".into()));
        assert_eq!(
            read("#!lua flags=x\n"),
            Err("Unexpected flag in script shebang: x".into())
        );
    }

    #[test]
    fn digests_are_read_as_written() {
        let digest = sha1(b"return 1");
        assert_eq!(hexadecimal(&digest), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(
            parse_digest(hexadecimal(&digest).to_uppercase().as_bytes()),
            Some(digest)
        );
        assert_eq!(parse_digest(b"e0"), None);
        assert_eq!(parse_digest(&[b'z'; 40]), None);
    }
}
