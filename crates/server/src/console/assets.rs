//! The files of the page, which are part of the binary, and the headers that keep them to
//! themselves.

use std::borrow::Cow;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use quartet_model::hexadecimal;
use sha2::{Digest, Sha256};

use super::answers::{METHOD_NOT_ALLOWED, NOT_FOUND, OK};
use crate::http::compression;
use crate::http::{Answer, Head, Headers};

const NOT_MODIFIED: u16 = 304;

struct Asset {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset { name: $name, bytes: include_bytes!(concat!("../../../../console/", $name)) }),*]
    };
}

const ASSETS: &[Asset] = assets![
    "api.js",
    "app.js",
    "backups.js",
    "bytes.js",
    "code.js",
    "completion.js",
    "connect.js",
    "databases.js",
    "dynamodb.js",
    "exact.js",
    "fauna.js",
    "fql.js",
    "grid.js",
    "history.js",
    "html.js",
    "icon.svg",
    "index.html",
    "keyvalue.js",
    "neighbours.js",
    "operations.js",
    "pad.js",
    "pad_dynamodb.js",
    "pad_fauna.js",
    "pad_keyvalue.js",
    "pad_redis.js",
    "redis.js",
    "redis_key.js",
    "search.js",
    "search_key.js",
    "search_pad.js",
    "style.css",
    "tail.js",
    "tree.js",
    "tuples.js",
    "ui.js",
    "vectors.js",
    "vendor/LICENSES",
    "vendor/hooks.js",
    "vendor/htm.js",
    "vendor/preact.js",
];

/// The page's content security policy: it may load these files and talk to this server, and nothing
/// else. Text never becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Built at the first request for the page.
struct Ready {
    tag: String,
    compressed: Vec<u8>,
}

static READY: LazyLock<Vec<Ready>> = LazyLock::new(|| ASSETS.iter().map(Ready::new).collect());

impl Ready {
    fn new(asset: &Asset) -> Ready {
        use std::io::Write;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(&loaded(asset)).and_then(|()| encoder.finish());
        let digest = Sha256::digest(asset.bytes);
        Ready {
            tag: format!("\"{}\"", hexadecimal(&digest[..12])),
            compressed: written.expect("memory takes what is written"),
        }
    }
}

/// The file without the lines of its scripts that are comments, an eighth of them. Others' scripts
/// keep theirs, with whom they are by.
fn loaded(asset: &Asset) -> Cow<'static, [u8]> {
    if !asset.name.ends_with(".js") || asset.name.starts_with("vendor/") {
        return Cow::Borrowed(asset.bytes);
    }
    let mut is_inside = false;
    let mut is_code = |line: &&[u8]| {
        let line = line.trim_ascii();
        is_inside |= line.starts_with(b"/**");
        let is_comment = is_inside || line.starts_with(b"//");
        is_inside &= !line.ends_with(b"*/");
        !is_comment
    };
    let lines = asset.bytes.split_inclusive(|byte| *byte == b'\n');
    Cow::Owned(lines.filter(|line| is_code(line)).flatten().copied().collect())
}

/// A browser lists the types that it displays; a REST client never requests this type.
pub fn is_wanted_by_browser(head: &Head<'_>) -> bool {
    let is_wanted = |accept: &str| accept.contains("text/html");
    matches!(head.method, "GET" | "HEAD") && head.header("accept").is_some_and(is_wanted)
}

pub fn answer(head: &Head<'_>) -> Answer {
    if !matches!(head.method, "GET" | "HEAD") {
        return plain(METHOD_NOT_ALLOWED);
    }
    let path = head.path();
    let name = match path.strip_prefix("/console/") {
        None | Some("") => "index.html",
        Some(name) => name,
    };
    let Some(position) = ASSETS.iter().position(|asset| asset.name == name) else {
        return plain(NOT_FOUND);
    };
    let (asset, ready) = (&ASSETS[position], &READY[position]);
    if head.header("if-none-match") == Some(&*ready.tag) {
        let mut answer = plain(NOT_MODIFIED);
        answer.headers.push(("etag", ready.tag.clone().into()));
        return answer;
    }
    let mut answer = plain(OK);
    answer.headers.push(("content-type", kind_of(name).into()));
    answer.headers.push(("etag", ready.tag.clone().into()));
    if compression::preferred(head) == Some("gzip") {
        answer.headers.push(("content-encoding", "gzip".into()));
        answer.body = ready.compressed.clone();
    } else {
        answer.body = asset.bytes.to_vec();
    }
    answer
}

fn plain(status: u16) -> Answer {
    let mut answer = Answer::settled(status, "");
    answer.headers = Headers::from([
        ("content-security-policy", POLICY.into()),
        ("x-content-type-options", "nosniff".into()),
        ("x-frame-options", "DENY".into()),
        ("referrer-policy", "no-referrer".into()),
        ("cross-origin-opener-policy", "same-origin".into()),
        ("cross-origin-resource-policy", "same-origin".into()),
        // The browser revalidates a page, and usually it is unchanged: then only its tag is sent.
        ("cache-control", "no-cache".into()),
        ("vary", "accept, accept-encoding".into()),
    ]);
    answer
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, kind)| kind) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Header;

    /// The page loads on a slow line, too. A client that takes nothing compressed loads some three
    /// times as much.
    const PAGE_BYTES_MAX: usize = 100_000;

    #[test]
    fn the_page_is_small() {
        // Licences are there to be read, and no page loads them.
        let loaded = ASSETS
            .iter()
            .zip(&*READY)
            .filter(|(asset, _)| asset.name != "vendor/LICENSES");
        let bytes: usize = loaded.map(|(_, ready)| ready.compressed.len()).sum();
        assert!(bytes < PAGE_BYTES_MAX, "{bytes} bytes");
    }

    /// All other code remains, and nothing follows the end of a comment.
    #[test]
    fn comments_are_not_loaded_and_code_is() {
        let asset = Asset {
            name: "a.js",
            bytes: b"/** One. */\nlet a = 1; // one\n  /**\n   * Two,\n   // three.\n   */\n  // Four.\nlet b = a /* a */;\n",
        };
        let code = String::from_utf8(loaded(&asset).into_owned()).unwrap();
        assert_eq!(code, "let a = 1; // one\nlet b = a /* a */;\n");
        for asset in ASSETS.iter().filter(|asset| asset.name.ends_with(".js")) {
            let script = std::str::from_utf8(asset.bytes).unwrap();
            let comments = script.lines().map(str::trim).filter(|line| line.starts_with("/**"));
            for comment in comments {
                let end = comment.find("*/").map_or(comment.len(), |end| end + 2);
                assert_eq!(end, comment.len(), "{}: {comment}", asset.name);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../console");
        let mut files = Vec::new();
        for place in ["", "vendor/"] {
            for entry in std::fs::read_dir(format!("{folder}/{place}")).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_file() {
                    files.push(format!("{place}{}", entry.file_name().to_string_lossy()));
                }
            }
        }
        let mut served: Vec<String> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
        files.sort();
        served.sort();
        assert_eq!(files, served);
    }

    /// The browser would discover a script only from its importer, one after the other.
    #[test]
    fn the_page_names_every_script() {
        let page = std::str::from_utf8(ASSETS.iter().find(|asset| asset.name == "index.html").unwrap().bytes).unwrap();
        for asset in ASSETS.iter().filter(|asset| asset.name.ends_with(".js")) {
            assert!(page.contains(&format!("\"/console/{}\"", asset.name)), "{}", asset.name);
        }
    }

    #[test]
    fn a_file_is_sent_once_and_then_known_by_its_tag() {
        let ask = |tag: &str| {
            let headers = [Header {
                name: "If-None-Match",
                value: tag.as_bytes(),
            }];
            answer(&Head {
                method: "GET",
                target: "/console/app.js",
                headers: &headers,
            })
        };
        let first = ask("");
        let tag = first
            .headers
            .iter()
            .find(|(name, _)| *name == "etag")
            .unwrap()
            .1
            .clone();
        assert_eq!((first.status, first.body.is_empty()), (200, false));
        assert_eq!(ask(&tag).status, 304);
    }
}
