//! Requests that a browser sends for a page of another site.
//!
//! A server started with `--dev` requires no credential, or a public one, and listens on loopback
//! only. A browser on the same machine reaches it, and executes requests of any page; its headers
//! have the origin of that page.

use crate::http::Head;

/// The answer to such a request.
pub const REFUSAL: &str = "a web page of another site may not use a server without credentials";

/// The request comes for a page that is not of this machine.
pub fn comes_from_elsewhere(head: &Head<'_>) -> bool {
    let text = |name: &str| head.header(name);
    let origin_is_far = text("origin").is_some_and(|origin| {
        let host = origin.split_once("://").map_or(origin, |(_, host)| host);
        !is_loopback(host)
    });
    let host_is_far = text("host").is_some_and(|host| !is_loopback(host));
    origin_is_far || host_is_far || text("sec-fetch-site") == Some("cross-site")
}

fn is_loopback(host: &str) -> bool {
    let name = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    let address = name
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Header;

    #[test]
    fn pages_of_other_sites_are_known_by_their_headers() {
        let check = |name: &'static str, value: &'static str, expected: bool| {
            let head = Head {
                method: "GET",
                target: "/",
                headers: &[Header {
                    name,
                    value: value.as_bytes(),
                }],
            };
            assert_eq!(comes_from_elsewhere(&head), expected, "{name}: {value}");
        };
        check("origin", "https://example.com", true);
        check("origin", "null", true);
        check("origin", "http://localhost:3000", false);
        check("origin", "http://[::1]:3000", false);
        check("host", "127.0.0.1:8080", false);
        check("host", "rebound.example.com:8080", true);
        check("sec-fetch-site", "cross-site", true);
        check("sec-fetch-site", "same-origin", false);
        check("accept", "*/*", false);
    }
}
