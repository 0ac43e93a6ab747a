//! Verification of Signature Version 4, in the header and in the query ("Signing AWS API
//! requests").
//!
//! Keys derived from a secret are kept for their day, so a request costs two hashes and one HMAC.
//! Comparisons take constant time. Only the parts of a request that the signature covers are used.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use hmac::Mac;
use parking_lot::RwLock;
use quartet_layer_dynamodb::{Exception, Failure, storage::region};
use quartet_model::hexadecimal;
use quartet_sigv4::{ALGORITHM, SERVICE, SigningKey, signing_key};
use quartet_tenancy::Database;
use sha2::{Digest, Sha256};
use time::macros::format_description;
use time::{Date, Month, UtcDateTime};

use crate::http::{Head, Header};
use crate::tenants::Tenants;

/// Names the operation.
const TARGET: &str = "x-amz-target";
const SKEW_SECONDS: i64 = 15 * 60;
const PRESIGNED_SECONDS_MAX: i64 = 7 * 24 * 3600;
/// Derived keys kept: one for each access key, day and region in use.
const DERIVED_MAX: usize = 1000;

/// Verifies signatures of requests. Public only for its fuzz target.
pub struct Verifier {
    /// Access keys and their secrets; none: any, but requests must look signed.
    secrets: HashMap<String, String>,
    /// Under credentials whose scope was checked: access key, date, region, service and terminator,
    /// joined by slashes.
    derived: RwLock<HashMap<String, SigningKey>>,
    /// Databases have access keys of their own.
    tenants: Option<Arc<Tenants>>,
}

/// The signer of a request.
pub struct Caller {
    /// Whose the access key is; `None`: the default database's.
    pub database: Option<Arc<Database>>,
    /// The region of the signature; `None`: the default region.
    pub region: Option<Box<str>>,
}

/// A known access key.
struct Known<'v> {
    secret: Cow<'v, str>,
    /// Whose it is; `None`: the default database's.
    database: Option<Arc<Database>>,
}

/// A request's claim about its own signature.
struct Claim<'r> {
    credential: &'r str,
    signed_headers: &'r str,
    signature: &'r str,
    date: &'r str,
    /// For a presigned request, how long it lasts.
    expires_seconds: Option<i64>,
}

/// The parts of a credential.
struct Scope<'r> {
    date: &'r str,
    region: &'r str,
    service: &'r str,
}

impl Verifier {
    pub fn new(access_keys: &[(String, String)]) -> Verifier {
        Verifier {
            secrets: access_keys.iter().cloned().collect(),
            derived: RwLock::default(),
            tenants: None,
        }
    }

    /// The same, that knows the keys of databases too.
    pub(crate) fn of_databases(access_keys: &[(String, String)], tenants: Arc<Tenants>) -> Verifier {
        Verifier {
            tenants: Some(tenants),
            ..Verifier::new(access_keys)
        }
    }

    /// Refuses a request without a valid signature; returns the signer. `body` is the original
    /// body.
    pub fn check(&self, head: &Head<'_>, body: &[u8], now_seconds: i64) -> Result<Caller, Failure> {
        let query = QueryParameters::parse(head.query().unwrap_or_default());
        let claim = Claim::of(head, &query)?;
        let database = self.check_claim(&claim, &query, head, body, now_seconds)?;
        let region = region::named(claim.credential.split('/').nth(2).unwrap_or_default());
        Ok(Caller {
            database,
            region: (region != region::HOME).then(|| region.into()),
        })
    }

    /// Refuses requests that are invalid by their heads: an unknown access key, a skewed time, an
    /// invalid scope. Returns true if any request is accepted that looks signed; otherwise the
    /// signature must be checked together with the body.
    pub(crate) fn check_head(&self, head: &Head<'_>, now_seconds: i64) -> Result<bool, Failure> {
        let query = QueryParameters::parse(head.query().unwrap_or_default());
        let claim = Claim::of(head, &query)?;
        Ok(self.named_by(&claim, head, now_seconds)?.is_none())
    }

    /// The access key that a claim names, and its scope, as far as the head shows them to be right;
    /// `None` if any will do.
    fn named_by<'s, 'r>(
        &'s self,
        claim: &Claim<'r>,
        head: &Head<'_>,
        now_seconds: i64,
    ) -> Result<Option<(Known<'s>, Scope<'r>)>, Failure> {
        claim.check_time(now_seconds)?;
        let access_key = self.known(claim.credential.split('/').next().unwrap_or_default());
        if self.secrets.is_empty() && access_key.is_none() {
            return Ok(None);
        }
        claim.check_signed_headers(head)?;
        let scope = Scope::parse(claim, service_of(head))?;
        Ok(Some((access_key.ok_or_else(unknown_key)?, scope)))
    }

    fn check_claim(
        &self,
        claim: &Claim<'_>,
        query: &QueryParameters,
        head: &Head<'_>,
        body: &[u8],
        now_seconds: i64,
    ) -> Result<Option<Arc<Database>>, Failure> {
        let Some((access_key, scope)) = self.named_by(claim, head, now_seconds)? else {
            return Ok(None);
        };
        let signer = self.signer(claim.credential, &scope, &access_key.secret);
        let canonical = canonical_request(claim, query, head, body).ok_or_else(mismatch)?;
        let hash = hexadecimal(&Sha256::digest(&canonical));
        let (_, scope) = claim.credential.split_once('/').unwrap_or_default();
        let mut to_sign = canonical;
        to_sign.clear();
        for part in [ALGORITHM, "\n", claim.date, "\n", scope, "\n"] {
            to_sign.extend_from_slice(part.as_bytes());
        }
        to_sign.extend_from_slice(hash.as_bytes());
        let signature = decode_hexadecimal(claim.signature).ok_or_else(mismatch)?;
        let signed = signer.chain_update(&to_sign).verify_slice(&signature);
        signed.map_err(|_| mismatch())?;
        Ok(access_key.database)
    }

    /// The only access keys are those of databases.
    pub(crate) fn accepts_anybody(&self) -> bool {
        self.secrets.is_empty()
    }

    fn known(&self, access_key: &str) -> Option<Known<'_>> {
        if let Some(secret) = self.secrets.get(access_key) {
            return Some(Known {
                secret: Cow::Borrowed(secret),
                database: None,
            });
        }
        let (database, secret) = self.tenants.as_ref()?.catalogue.by_access_key(access_key)?;
        Some(Known {
            secret: Cow::Owned(secret),
            database: Some(database),
        })
    }

    /// Returns the key that the secret gives for the scope, and keeps it for the next request.
    fn signer(&self, credential: &str, scope: &Scope<'_>, secret: &str) -> SigningKey {
        if let Some(signer) = self.derived.read().get(credential) {
            return signer.clone();
        }
        let signer = signing_key(secret, scope.date, scope.region, scope.service);
        let mut derived = self.derived.write();
        if derived.len() >= DERIVED_MAX {
            derived.clear();
        }
        derived.insert(credential.to_owned(), signer.clone());
        signer
    }
}

/// The access key that a request names, whether or not the signature is right.
pub fn claimed_key(head: &Head<'_>) -> Option<String> {
    let credential = match head.header("authorization") {
        Some(header) => header.split_once("Credential=")?.1.to_owned(),
        None => {
            let query = QueryParameters::parse(head.query()?);
            query.get("X-Amz-Credential")?.to_owned()
        }
    };
    credential.split('/').next().map(str::to_owned)
}

/// The headers that sign a request for `region::HOME` as a client would, with what `head` has
/// already.
pub fn sign(
    access_key: &str,
    secret: &str,
    head: &Head<'_>,
    body: &[u8],
    now_seconds: i64,
) -> [(&'static str, String); 2] {
    let date = format_time(now_seconds);
    let scope = format!("{}/{}/{SERVICE}/aws4_request", &date[..8], region::HOME);
    let mut headers = head.headers.to_vec();
    headers.push(Header {
        name: "x-amz-date",
        value: date.as_bytes(),
    });
    let names = ["host", "x-amz-date", TARGET];
    let signed_headers: Vec<&str> = names
        .into_iter()
        .filter(|name| head.has(name) || *name == "x-amz-date")
        .collect();
    let signed_headers = signed_headers.join(";");
    let claim = Claim {
        credential: &format!("{access_key}/{scope}"),
        signed_headers: &signed_headers,
        signature: "",
        date: &date,
        expires_seconds: None,
    };
    let head = Head {
        headers: &headers,
        ..*head
    };
    let query = QueryParameters::parse(head.query().unwrap_or_default());
    let canonical = canonical_request(&claim, &query, &head, body).expect("only headers that are there are named");
    let hash = hexadecimal(&Sha256::digest(&canonical));
    let parts: [&[u8]; 6] = [
        ALGORITHM.as_bytes(),
        b"\n",
        date.as_bytes(),
        b"\n",
        scope.as_bytes(),
        b"\n",
    ];
    let signer = signing_key(secret, &date[..8], region::HOME, SERVICE);
    let signed = parts.iter().fold(signer, |signer, part| signer.chain_update(part));
    let signature = hexadecimal(&signed.chain_update(hash).finalize().into_bytes());
    let authorization = format!(
        "{ALGORITHM} Credential={}, SignedHeaders={signed_headers}, Signature={signature}",
        claim.credential
    );
    [("x-amz-date", date), ("authorization", authorization)]
}

/// The error for an unknown access key.
pub fn unknown_key() -> Failure {
    Failure::new(
        Exception::UnrecognizedClient,
        "The security token included in the request is invalid.",
    )
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Exception::InvalidSignature, message)
}

fn missing() -> Failure {
    Failure::new(
        Exception::MissingAuthenticationToken,
        "Request is missing Authentication Token",
    )
}

fn mismatch() -> Failure {
    invalid(
        "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and \
         signing method. Consult the service documentation for details.",
    )
}

impl<'r> Claim<'r> {
    fn of(head: &Head<'r>, query: &'r QueryParameters) -> Result<Claim<'r>, Failure> {
        match (head.header("authorization"), query.get("X-Amz-Algorithm").is_some()) {
            (Some(_), true) => Err(invalid(
                "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
            )),
            (Some(header), false) => Claim::from_header(header, head),
            (None, true) => Claim::from_query(query),
            (None, false) => Err(missing()),
        }
    }

    fn from_header(authorization: &'r str, head: &Head<'r>) -> Result<Claim<'r>, Failure> {
        let (algorithm, assignments) = authorization.split_once([' ', '\t']).unwrap_or((authorization, ""));
        if !algorithm.starts_with("AWS4-") {
            return Err(missing());
        }
        let (parts, repeated) = parameters(assignments);
        let [credential, signed_headers, signature] = parts.map(|part| part.filter(|value| !value.is_empty()));
        let date = head.header("x-amz-date").or_else(|| head.header("date"));
        let several = head.values("authorization").count() > 1;
        if repeated || several {
            return Err(mismatch());
        }
        match (credential, signed_headers, signature, date) {
            (Some(_), Some(_), Some(_), Some(_)) if algorithm != ALGORITHM => Err(mismatch()),
            (Some(credential), Some(signed_headers), Some(signature), Some(date)) => Ok(Claim {
                credential,
                signed_headers,
                signature,
                date,
                expires_seconds: None,
            }),
            (credential, signed_headers, signature, date) => {
                let parameter = |name: &str, is_present: bool| match is_present {
                    true => String::new(),
                    false => format!("Authorization header requires '{name}' parameter. "),
                };
                let date = match date {
                    Some(_) => "",
                    None => "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ",
                };
                Err(Failure::new(
                    Exception::IncompleteSignature,
                    format!(
                        "{}{}{}{date}Authorization={authorization}",
                        parameter("Credential", credential.is_some()),
                        parameter("Signature", signature.is_some()),
                        parameter("SignedHeaders", signed_headers.is_some()),
                    ),
                ))
            }
        }
    }

    fn from_query(query: &'r QueryParameters) -> Result<Claim<'r>, Failure> {
        let mut absent = String::new();
        let mut part = |name: &str| {
            let found = query.get(name).filter(|value| !value.is_empty());
            if found.is_none() {
                let _ = write!(absent, "AWS query-string parameters must include '{name}'. ");
            }
            found.unwrap_or_default()
        };
        let algorithm = part("X-Amz-Algorithm");
        let credential = part("X-Amz-Credential");
        let signature = part("X-Amz-Signature");
        let signed_headers = part("X-Amz-SignedHeaders");
        let date = part("X-Amz-Date");
        if !absent.is_empty() {
            let text = format!("{absent}Re-examine the query-string parameters.");
            return Err(Failure::new(Exception::IncompleteSignature, text));
        }
        if algorithm != ALGORITHM {
            return Err(mismatch());
        }
        let expires = query.get("X-Amz-Expires").map_or(Ok(SKEW_SECONDS), str::parse);
        let expires = expires
            .ok()
            .filter(|seconds| (1..=PRESIGNED_SECONDS_MAX).contains(seconds));
        Ok(Claim {
            credential,
            signed_headers,
            signature,
            date,
            expires_seconds: Some(expires.ok_or_else(mismatch)?),
        })
    }

    fn check_time(&self, now_seconds: i64) -> Result<(), Failure> {
        let Some(seconds) = parse_time(self.date) else {
            return Err(Failure::new(
                Exception::IncompleteSignature,
                format!(
                    "Date must be in ISO-8601 'basic format'. Got '{}'. See http://en.wikipedia.org/wiki/ISO_8601",
                    self.date
                ),
            ));
        };
        let lasts = self.expires_seconds.unwrap_or(SKEW_SECONDS);
        let now = || format_time(now_seconds);
        if seconds < now_seconds - lasts {
            let limit = format_time(now_seconds - lasts);
            return Err(invalid(format!(
                "Signature expired: {} is now earlier than {limit} ({} - {} min.)",
                self.date,
                now(),
                lasts / 60
            )));
        }
        if seconds > now_seconds + SKEW_SECONDS {
            let limit = format_time(now_seconds + SKEW_SECONDS);
            return Err(invalid(format!(
                "Signature not yet current: {} is still later than {limit} ({} + {} min.)",
                self.date,
                now(),
                SKEW_SECONDS / 60
            )));
        }
        Ok(())
    }

    /// The headers for the host and for the operation must be signed.
    fn check_signed_headers(&self, head: &Head<'_>) -> Result<(), Failure> {
        let signs = |name: &str| {
            self.signed_headers
                .split(';')
                .any(|signed| signed.eq_ignore_ascii_case(name))
        };
        if !signs("host") && !signs(":authority") {
            return Err(invalid("'Host' must be a 'SignedHeader' in the AWS Authorization."));
        }
        // With an unsigned target, anyone could turn one operation into another.
        let is_target = |name: &str| {
            let prefix = name.as_bytes().get(..TARGET.len());
            prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(TARGET.as_bytes()))
        };
        let mut targets = head
            .headers
            .iter()
            .map(|header| header.name)
            .filter(|name| is_target(name));
        if targets.all(signs) { Ok(()) } else { Err(mismatch()) }
    }
}

/// The service whose scope a request must have: the key management service for its one operation.
fn service_of(head: &Head<'_>) -> &'static str {
    let target = head.header("x-amz-target").unwrap_or_default();
    match target.starts_with("TrentService.") {
        true => "kms",
        false => SERVICE,
    }
}

/// Returns the parameters after the algorithm in the header Authorization: Credential,
/// SignedHeaders and Signature, and whether any of them is repeated.
fn parameters(text: &str) -> ([Option<&str>; 3], bool) {
    let (mut values, mut repeated) = ([None; 3], false);
    // One character at a time is much faster to look for than any of three.
    let parts = text.split(',').flat_map(|part| part.split(' '));
    for part in parts.flat_map(|part| part.split('\t')) {
        let Some((name, value)) = part.split_once('=') else {
            continue;
        };
        let names = ["Credential", "SignedHeaders", "Signature"];
        if let Some(position) = names.iter().position(|names| *names == name) {
            repeated |= values[position].replace(value).is_some();
        }
    }
    (values, repeated)
}

impl<'r> Scope<'r> {
    /// `expected`: the service that the request is for.
    fn parse(claim: &Claim<'r>, expected: &str) -> Result<Scope<'r>, Failure> {
        let mut parts = claim.credential.split('/');
        let mut next = || parts.next();
        let (Some(_), Some(date), Some(region), Some(service), Some(terminator), None) =
            (next(), next(), next(), next(), next(), next())
        else {
            return Err(Failure::new(
                Exception::IncompleteSignature,
                format!(
                    "Credential must have exactly 5 slash-delimited elements, e.g. \
                     keyid/date/region/service/term, got '{}'",
                    claim.credential
                ),
            ));
        };
        let mut faults = String::new();
        if region.is_empty()
            || !region
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        {
            let _ = write!(
                faults,
                "Credential should be scoped to a valid region, not '{region}'. "
            );
        }
        if service != expected {
            let _ = write!(faults, "Credential should be scoped to correct service: '{expected}'. ");
        }
        if terminator != "aws4_request" {
            let _ = write!(
                faults,
                "Credential should be scoped with a valid terminator: 'aws4_request', not '{terminator}'. "
            );
        }
        if Some(date) != claim.date.get(..8) {
            let _ = write!(
                faults,
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '{date}' != '{}'. ",
                claim.date.get(..8).unwrap_or_default()
            );
        }
        if faults.is_empty() {
            return Ok(Scope { date, region, service });
        }
        Err(invalid(faults))
    }
}

/// Returns the text that the signature covers, or `None` if it names a header that is missing.
fn canonical_request(claim: &Claim<'_>, query: &QueryParameters, head: &Head<'_>, body: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(1024);
    let mut line = |part: &[u8]| {
        text.extend_from_slice(part);
        text.push(b'\n');
    };
    line(head.method.as_bytes());
    line(head.path().as_bytes());
    line(query.canonical().as_bytes());
    let signed_headers = lower_case(claim.signed_headers);
    let mut names: Vec<&str> = signed_headers.split(';').collect();
    names.sort_unstable();
    for name in &names {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        canonical_header(head, name, &mut text)?;
        text.push(b'\n');
    }
    text.push(b'\n');
    for (position, name) in names.iter().enumerate() {
        if position > 0 {
            text.push(b';');
        }
        text.extend_from_slice(name.as_bytes());
    }
    text.push(b'\n');
    text.extend_from_slice(hexadecimal(&Sha256::digest(body)).as_bytes());
    Some(text)
}

fn lower_case(text: &str) -> Cow<'_, str> {
    match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => text.to_ascii_lowercase().into(),
        false => text.into(),
    }
}

/// Appends the values of a header, each trimmed and with single blanks.
fn canonical_header(head: &Head<'_>, name: &str, out: &mut Vec<u8>) -> Option<()> {
    let mut values = head.values(name).peekable();
    values.peek()?;
    for (position, value) in values.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        if !value.contains(&b' ') {
            out.extend_from_slice(value);
            continue;
        }
        let words = value.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        for (position, word) in words.enumerate() {
            if position > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(word);
        }
    }
    Some(())
}

/// The query, decoded.
struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    fn parse(query: &str) -> QueryParameters {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        QueryParameters(
            pairs
                .map(|(name, value)| (percent_decoded(name), percent_decoded(value)))
                .collect(),
        )
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Sorted and encoded again, without the signature itself.
    fn canonical(&self) -> String {
        let signed = self.0.iter().filter(|(name, _)| name != "X-Amz-Signature");
        let mut pairs: Vec<String> = signed
            .map(|(name, value)| format!("{}={}", percent_encoded(name), percent_encoded(value)))
            .collect();
        pairs.sort_unstable();
        pairs.join("&")
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut input = text.as_bytes();
    while let [first, tail @ ..] = input {
        let digit = |at: usize| tail.get(at).and_then(|byte| (*byte as char).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                input = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                input = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte as char),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// Seconds since 1970 of `yyyymmddThhmmssZ`.
fn parse_time(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = &bytes[from..to];
        let all_digits = digits.iter().all(u8::is_ascii_digit);
        all_digits.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
    let days = i64::from(date.to_julian_day() - UtcDateTime::UNIX_EPOCH.to_julian_day());
    (hour < 24 && minute < 60 && second < 61).then_some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

fn format_time(seconds: i64) -> String {
    let time = UtcDateTime::from_unix_timestamp(seconds).unwrap_or(UtcDateTime::UNIX_EPOCH);
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    time.format(format).expect("years of four digits")
}

/// The value of each digit in lower case; `NO_DIGIT` of every other byte.
const DIGIT_VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        value += 1;
    }
    values
};
const NO_DIGIT: u8 = 0xff;

fn decode_hexadecimal(text: &str) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let (mut bytes, mut seen) = ([0; 32], 0);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let (high, low) = (DIGIT_VALUES[usize::from(pair[0])], DIGIT_VALUES[usize::from(pair[1])]);
        seen |= high | low;
        *byte = high << 4 | low;
    }
    (seen < 16).then_some(bytes)
}

#[cfg(test)]
mod tests;
