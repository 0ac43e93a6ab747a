//! Credentials as a cluster file carries them: FoundationDB's clients read nothing but letters,
//! digits and `_` there, so a root key with other characters is written in hexadecimal digits.

use std::borrow::Cow;

use quartet_model::hexadecimal;

const PREFIX: &str = "hex_";

/// The credential as a cluster file carries it.
pub fn carried(credential: &str) -> Cow<'_, str> {
    let is_word = !credential.is_empty()
        && credential
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match is_word {
        true => credential.into(),
        false => format!("{PREFIX}{}", hexadecimal(credential.as_bytes())).into(),
    }
}

/// The credential that [`carried`] has written so, if it may have.
pub(super) fn decoded(token: &[u8]) -> Option<Vec<u8>> {
    let digits = token.strip_prefix(PREFIX.as_bytes())?;
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then_some(())?;
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_carried_and_read_again() {
        assert_eq!(carried("qk_1"), "qk_1");
        for key in ["", "a key: @home", "p-1", "\u{e9}"] {
            assert_eq!(decoded(carried(key).as_bytes()).unwrap(), key.as_bytes());
        }
        for given in ["qk_1", "hex_1", "hex_zz"] {
            assert_eq!(decoded(given.as_bytes()), None, "{given}");
        }
    }
}
