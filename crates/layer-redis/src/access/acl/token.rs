//! Tokens: a user and his password in one word, which a request over REST carries.
//!
//! Tokens are not stored. A token is equivalent to the password in it, and becomes invalid with it.
//! ACL GENTOKEN and ACL RESTTOKEN are Upstash's: <https://upstash.com/docs/redis/features/restapi>,
//! "REST Token for ACL Users".

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::access::acl::{User, Users};

/// The token of a user with this password. No name holds a colon or a blank.
pub fn token(name: &[u8], password: &[u8]) -> String {
    STANDARD.encode([name, b":", password].concat())
}

/// The name and the password that a token is made of.
pub fn parts(token: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let decoded = STANDARD.decode(token).ok()?;
    let colon = decoded.iter().position(|&byte| byte == b':')?;
    Some((decoded[..colon].to_vec(), decoded[colon + 1..].to_vec()))
}

impl Users {
    /// Whose the token is. One of ACL GENTOKEN may itself have been made the password.
    pub fn of_token(&self, token: &[u8]) -> Option<Arc<User>> {
        let (name, password) = parts(token)?;
        self.authenticate(&name, &password)
            .or_else(|| self.authenticate(&name, token))
    }

    /// Returns the user's token, if the password is the user's, or is already a token of it.
    /// Outside of the database, `realm` precedes the user's name.
    pub fn token_of(&self, realm: &[u8], name: &[u8], password: &[u8]) -> Option<String> {
        let wrapped = token(&[realm, name].concat(), password);
        if self.authenticate(name, password).is_some() {
            return Some(wrapped);
        }
        self.authenticate(name, wrapped.as_bytes()).map(|_| wrapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::acl::rules::Rules;

    fn users_with(name: &[u8], password: &str) -> Users {
        let users = Users::new(crate::commands::table());
        let modifiers: [&[u8]; 2] = [b"on", &[b">", password.as_bytes()].concat()];
        users.set(
            name,
            Rules::new(crate::commands::table(), false)
                .changed(&modifiers, false)
                .unwrap(),
        );
        users
    }

    #[test]
    fn a_token_is_equivalent_to_its_password() {
        let users = users_with(b"app", "secret");
        let issued = users.token_of(b"", b"app", b"secret").unwrap();
        assert_eq!(users.of_token(issued.as_bytes()).unwrap().name, b"app");
        assert_eq!(users.token_of(b"", b"app", b"wrong"), None);
        for wrong in [
            "",
            "secret",
            "!",
            &token(b"app", b"wrong"),
            &token(b"nobody", b"secret"),
        ] {
            assert!(users.of_token(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_token_may_be_the_password() {
        let made = token(b"app", b"random");
        let users = users_with(b"app", &made);
        assert_eq!(users.of_token(made.as_bytes()).unwrap().name, b"app");
        assert_eq!(users.token_of(b"", b"app", b"random").unwrap(), made);
        assert!(
            users
                .of_token(users.token_of(b"", b"app", made.as_bytes()).unwrap().as_bytes())
                .is_some()
        );
    }
}
