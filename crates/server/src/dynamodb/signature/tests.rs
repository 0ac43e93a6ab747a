//! Signatures that hold, and everything that must break one.

use hmac::Hmac;
use httparse::Header;

use super::*;

const NOW: i64 = 1_700_000_000;
const BODY: &[u8] = b"{}";

fn keyed_hash(key: &[u8], text: &str) -> Vec<u8> {
    let hash = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    hash.chain_update(text).finalize().into_bytes().to_vec()
}

/// A request as a client makes it.
#[derive(Clone)]
struct Client {
    access_key: String,
    secret: String,
    method: String,
    uri: String,
    /// Headers in the order of sending; the first three are signed unless `signed` says otherwise.
    headers: Vec<(String, String)>,
    signed: String,
    region: String,
    service: String,
    terminator: String,
    scope_date: String,
    date: String,
    body: Vec<u8>,
}

impl Client {
    fn new() -> Client {
        let date = format_time(NOW);
        Client {
            access_key: "key".into(),
            secret: "secret".into(),
            method: "POST".into(),
            uri: "/".into(),
            headers: vec![
                ("host".into(), "localhost:8000".into()),
                ("x-amz-date".into(), date.clone()),
                ("x-amz-target".into(), "DynamoDB_20120810.ListTables".into()),
            ],
            signed: "host;x-amz-date;x-amz-target".into(),
            region: "us-east-1".into(),
            service: "dynamodb".into(),
            terminator: "aws4_request".into(),
            scope_date: date[..8].into(),
            date,
            body: BODY.to_vec(),
        }
    }

    fn head(&self, extra: &[(&str, &str)]) -> Sent {
        let extra = extra.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Sent {
            method: self.method.clone(),
            target: self.uri.clone(),
            headers: self.headers.iter().cloned().chain(extra).collect(),
        }
    }

    fn scope(&self) -> String {
        format!(
            "{}/{}/{}/{}",
            self.scope_date, self.region, self.service, self.terminator
        )
    }

    /// Signs by its own small implementation of the specification.
    fn signature(&self) -> String {
        let (path, query) = self.uri.split_once('?').unwrap_or((&self.uri, ""));
        let query = QueryParameters::parse(query);
        let mut names: Vec<&str> = self.signed.split(';').collect();
        names.sort_unstable();
        let lines: String = names
            .iter()
            .map(|name| {
                let values: Vec<String> = self
                    .headers
                    .iter()
                    .filter(|(key, _)| key.eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.split_whitespace().collect::<Vec<_>>().join(" "))
                    .collect();
                format!("{}:{}\n", name.to_lowercase(), values.join(","))
            })
            .collect();
        let body_hash = hexadecimal(&Sha256::digest(&self.body));
        let canonical = format!(
            "{}\n{}\n{}\n{lines}\n{}\n{body_hash}",
            self.method,
            path,
            query.canonical(),
            names.join(";").to_lowercase()
        );
        let hash = hexadecimal(&Sha256::digest(canonical));
        let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{}\n{hash}", self.date, self.scope());
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [&self.scope_date, &self.region, &self.service, &self.terminator] {
            key = keyed_hash(&key, part);
        }
        hexadecimal(&keyed_hash(&key, &to_sign))
    }

    fn authorization(&self) -> String {
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
            self.access_key,
            self.scope(),
            self.signed,
            self.signature()
        )
    }

    /// The same request, signed in its query for `expires` seconds.
    fn presigned(mut self, expires: &str) -> Client {
        let date = self.date.clone();
        self.headers.retain(|(name, _)| name != "x-amz-date");
        self.signed = "host;x-amz-target".into();
        let credential = percent_encoded(&format!("{}/{}", self.access_key, self.scope()));
        self.uri = format!(
            "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={date}&X-Amz-Expires={expires}\
             &X-Amz-SignedHeaders=host%3Bx-amz-target"
        );
        let signature = self.signature();
        self.uri.push_str(&format!("&X-Amz-Signature={signature}"));
        self
    }
}

/// A request's head as it arrives.
struct Sent {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
}

impl Sent {
    fn check(&self, verifier: &Verifier, body: &[u8], now: i64) -> Result<(), Failure> {
        let headers = self.headers.iter().map(|(name, value)| Header {
            name,
            value: value.as_bytes(),
        });
        let head = Head {
            method: &self.method,
            target: &self.target,
            headers: &headers.collect::<Vec<_>>(),
        };
        verifier
            .check(&head, body, now)
            .map(|caller| assert!(caller.database.is_none()))
    }
}

fn verifier() -> Verifier {
    Verifier::new(&[("key".into(), "secret".into())])
}

fn check(client: &Client, authorization: &str) -> Result<(), Failure> {
    let head = client.head(&[("authorization", authorization)]);
    head.check(&verifier(), &client.body, NOW)
}

fn outcome(result: Result<(), Failure>) -> &'static str {
    result.map_or_else(|failure| failure.exception.name(), |()| "accepted")
}

const INVALID: &str = "InvalidSignatureException";
const INCOMPLETE: &str = "IncompleteSignatureException";
const MISSING: &str = "MissingAuthenticationTokenException";
const UNKNOWN: &str = "UnrecognizedClientException";

#[test]
fn a_signed_request_is_accepted() {
    let client = Client::new();
    assert_eq!(check(&client, &client.authorization()), Ok(()));
    let compact = client.authorization().replace(", ", ",");
    assert_eq!(check(&client, &compact), Ok(()));
    let blanks = client.authorization().replace(", ", " ");
    assert_eq!(check(&client, &blanks), Ok(()));
    let mut padded = Client::new();
    padded.headers.push(("x-extra".into(), "  two   words ".into()));
    padded.signed = "host;x-amz-date;x-amz-target;x-extra".into();
    assert_eq!(check(&padded, &padded.authorization()), Ok(()));
    let mut repeated = Client::new();
    repeated.headers.push(("x-extra".into(), "one".into()));
    repeated.headers.push(("x-extra".into(), "two".into()));
    repeated.signed = "host;x-amz-date;x-amz-target;x-extra".into();
    assert_eq!(check(&repeated, &repeated.authorization()), Ok(()));
    // A second request finds the derived key.
    let shared = verifier();
    for _ in 0..2 {
        let head = client.head(&[("authorization", &client.authorization())]);
        assert_eq!(head.check(&shared, BODY, NOW), Ok(()));
    }
    let presigned = Client::new().presigned("300");
    assert_eq!(presigned.head(&[]).check(&verifier(), BODY, NOW + 299), Ok(()));
}

#[test]
fn a_request_signed_here_is_accepted() {
    let mut client = Client::new();
    client.headers.retain(|(name, _)| name != "x-amz-date");
    let unsigned = client.head(&[]);
    let headers: Vec<Header<'_>> = unsigned
        .headers
        .iter()
        .map(|(name, value)| Header {
            name,
            value: value.as_bytes(),
        })
        .collect();
    let head = Head {
        method: "POST",
        target: "/",
        headers: &headers,
    };
    for (secret, expected) in [("secret", "accepted"), ("another", INVALID)] {
        let signed = sign("key", secret, &head, BODY, NOW);
        let extra: Vec<(&str, &str)> = signed.iter().map(|(name, value)| (*name, &**value)).collect();
        let sent = client.head(&extra);
        assert_eq!(outcome(sent.check(&verifier(), BODY, NOW)), expected, "{secret}");
    }
}

/// A change made after signing.
type Tamper = fn(&mut Client);

#[test]
fn a_request_changed_after_signing_is_refused() {
    let tampers: [(&str, Tamper, &str); 18] = [
        ("body", |client| client.body = b"{ }".to_vec(), INVALID),
        ("empty body", |client| client.body.clear(), INVALID),
        ("longer body", |client| client.body.push(b' '), INVALID),
        ("method", |client| client.method = "PUT".into(), INVALID),
        ("path", |client| client.uri = "/other".into(), INVALID),
        ("path with two slashes", |client| client.uri = "//".into(), INVALID),
        ("query", |client| client.uri = "/?a=b".into(), INVALID),
        ("host", |client| client.headers[0].1 = "example.com".into(), INVALID),
        (
            "host's port",
            |client| client.headers[0].1 = "localhost:8001".into(),
            INVALID,
        ),
        ("host missing", |client| drop(client.headers.remove(0)), INVALID),
        (
            "second host",
            |client| client.headers.push(("host".into(), "other".into())),
            INVALID,
        ),
        (
            "target",
            |client| client.headers[2].1 = "DynamoDB_20120810.DeleteTable".into(),
            INVALID,
        ),
        ("target missing", |client| drop(client.headers.remove(2)), INVALID),
        (
            "second target",
            |client| client.headers.push(("x-amz-target".into(), "x".into())),
            INVALID,
        ),
        (
            "date a second later",
            |client| client.headers[1].1 = format_time(NOW + 1),
            INVALID,
        ),
        ("date missing", |client| drop(client.headers.remove(1)), INCOMPLETE),
        (
            "second date",
            |client| client.headers.push(("x-amz-date".into(), format_time(NOW))),
            INVALID,
        ),
        (
            "case of a value",
            |client| client.headers[0].1 = "LOCALHOST:8000".into(),
            INVALID,
        ),
    ];
    for (case, tamper, expected) in tampers {
        let mut client = Client::new();
        let authorization = client.authorization();
        tamper(&mut client);
        assert_eq!(outcome(check(&client, &authorization)), expected, "{case}");
    }
}

#[test]
fn a_wrong_signature_is_refused() {
    let wrongs: [(&str, Tamper, &str); 20] = [
        ("secret", |client| client.secret = "Secret".into(), INVALID),
        ("empty secret", |client| client.secret = String::new(), INVALID),
        ("access key", |client| client.access_key = "other".into(), UNKNOWN),
        ("access key's case", |client| client.access_key = "KEY".into(), UNKNOWN),
        ("empty access key", |client| client.access_key = String::new(), UNKNOWN),
        (
            "region of another form",
            |client| client.region = "US_EAST".into(),
            INVALID,
        ),
        ("empty region", |client| client.region = String::new(), INVALID),
        ("service", |client| client.service = "s3".into(), INVALID),
        ("empty service", |client| client.service = String::new(), INVALID),
        (
            "terminator",
            |client| client.terminator = "aws5_request".into(),
            INVALID,
        ),
        (
            "scope of another day",
            |client| client.scope_date = "20200101".into(),
            INVALID,
        ),
        (
            "scope without a day",
            |client| client.scope_date = String::new(),
            INVALID,
        ),
        (
            "unsigned host",
            |client| client.signed = "x-amz-date;x-amz-target".into(),
            INVALID,
        ),
        (
            "unsigned target",
            |client| client.signed = "host;x-amz-date".into(),
            INVALID,
        ),
        (
            "header that is not sent",
            |client| client.signed = "host;x-amz-date;x-amz-target;x-none".into(),
            INVALID,
        ),
        (
            "extra scope part",
            |client| client.terminator = "aws4_request/more".into(),
            INCOMPLETE,
        ),
        (
            "date of another form",
            |client| set_date(client, "Tue, 14 Nov 2023 22:13:20 GMT"),
            INCOMPLETE,
        ),
        (
            "date too old",
            |client| set_date(client, &format_time(NOW - 901)),
            INVALID,
        ),
        (
            "date too new",
            |client| set_date(client, &format_time(NOW + 901)),
            INVALID,
        ),
        (
            "date of month 13",
            |client| set_date(client, "20231314T221320Z"),
            INCOMPLETE,
        ),
    ];
    for (case, change, expected) in wrongs {
        let mut client = Client::new();
        change(&mut client);
        let authorization = client.authorization();
        assert_eq!(outcome(check(&client, &authorization)), expected, "{case}");
    }
}

fn set_date(client: &mut Client, date: &str) {
    client.headers[1].1 = date.into();
    client.date = date.into();
    client.scope_date = date.get(..8).unwrap_or_default().into();
}

#[test]
fn malformed_authorizations_are_refused() {
    let client = Client::new();
    let good = client.authorization();
    let signature = client.signature();
    let other = if signature.starts_with('0') { '1' } else { '0' };
    for (authorization, expected) in [
        (String::new(), MISSING),
        ("Bearer token".into(), MISSING),
        ("AWS3-HMAC-SHA256 Credential=a".into(), MISSING),
        (good.replace("AWS4", "aws4"), MISSING),
        ("AWS4-".into(), INCOMPLETE),
        ("AWS4-HMAC-SHA256".into(), INCOMPLETE),
        ("AWS4-HMAC-SHA512 Credential=a".into(), INCOMPLETE),
        (good.replace("SHA256", "SHA512"), INVALID),
        ("AWS4-HMAC-SHA256 ".into(), INCOMPLETE),
        ("AWS4-HMAC-SHA256Credential=a".into(), INCOMPLETE),
        (good.replace("Credential=", "Credentials="), INCOMPLETE),
        (good.replace("SignedHeaders=", "Signed="), INCOMPLETE),
        (good.replace("Signature=", "signature="), INCOMPLETE),
        (
            good.replace(&format!("Signature={signature}"), "Signature="),
            INCOMPLETE,
        ),
        (good.replace(&signature, &signature[..63]), INVALID),
        (good.replace(&signature, &format!("{signature}0")), INVALID),
        (good.replace(&signature, &signature.to_uppercase()), INVALID),
        (
            good.replace(&signature, &format!("{other}{}", &signature[1..])),
            INVALID,
        ),
        (good.replace(&signature, &"0".repeat(64)), INVALID),
        (good.replace(&signature, &"z".repeat(64)), INVALID),
        (good.replace("key/", "key"), INCOMPLETE),
        (good.replace("host;", "host;host;"), INVALID),
        (good.replace("host;x-amz-date", "x-amz-date;host"), "accepted"),
        (format!("{good}, Signature={signature}"), INVALID),
        (
            format!("{good}, Credential=other/20231114/us-east-1/dynamodb/aws4_request"),
            INVALID,
        ),
    ] {
        let result = outcome(check(&client, &authorization));
        assert_eq!(result, expected, "{authorization}");
    }
    assert_eq!(outcome(client.head(&[]).check(&verifier(), BODY, NOW)), MISSING);
    let twice = client.head(&[("authorization", &good), ("authorization", &good)]);
    assert_eq!(outcome(twice.check(&verifier(), BODY, NOW)), INVALID);
}

#[test]
fn presigned_requests_are_checked_as_well() {
    let refuse = |client: &Client, now: i64| outcome(client.head(&[]).check(&verifier(), &client.body, now));
    let good = Client::new().presigned("300");
    assert_eq!(refuse(&good, NOW + 301), INVALID);
    assert_eq!(refuse(&good, NOW - 901), INVALID);
    for expires in ["0", "-1", "604801", "x", ""] {
        assert_eq!(refuse(&Client::new().presigned(expires), NOW), INVALID, "{expires}");
    }
    for (from, to, expected) in [
        ("X-Amz-Expires=300", "X-Amz-Expires=3000", INVALID),
        ("X-Amz-Credential=key", "X-Amz-Credential=who", UNKNOWN),
        ("us-east-1", "us-east-2", INVALID),
        ("X-Amz-Signature=", "X-Amz-Signature=0", INVALID),
        ("&X-Amz-Signature=", "&Signature=", INCOMPLETE),
        ("&X-Amz-Date=", "&Date=", INCOMPLETE),
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1", INVALID),
        ("=AWS4-HMAC-SHA256", "=", INCOMPLETE),
        ("X-Amz-Algorithm=", "X-Algorithm=", MISSING),
        ("SignedHeaders=host%3B", "SignedHeaders=", INVALID),
        ("/?", "/x?", INVALID),
    ] {
        let mut client = good.clone();
        client.uri = client.uri.replace(from, to);
        assert_eq!(refuse(&client, NOW), expected, "{from} {to}");
    }
    let mut longer = good.clone();
    longer.uri.push_str("&More=1");
    assert_eq!(refuse(&longer, NOW), INVALID);
    let mut altered = good.clone();
    altered.body = b"{ }".to_vec();
    assert_eq!(refuse(&altered, NOW), INVALID);
    let head = good.head(&[("authorization", &Client::new().authorization())]);
    assert_eq!(outcome(head.check(&verifier(), BODY, NOW)), INVALID);
}

#[test]
fn any_key_is_accepted_only_without_configured_keys() {
    let open = Verifier::new(&[]);
    let client = Client::new();
    let head = client.head(&[("authorization", &client.authorization().replace("key/", "anybody/"))]);
    assert_eq!(head.check(&open, b"anything", NOW), Ok(()));
    assert_eq!(outcome(client.head(&[]).check(&open, BODY, NOW)), MISSING);
}
