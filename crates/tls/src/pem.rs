//! Certificates and keys out of PEM, from bytes and from files.

use std::io;
use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Returns the certificates of a PEM text in their order, at least one. Errors: there is none, or
/// one is malformed.
pub fn certificates(pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(io::Error::other)?;
    match certificates.is_empty() {
        true => Err(io::Error::other("it holds no certificate")),
        false => Ok(certificates),
    }
}

/// Returns the certificates of a PEM file, as [`certificates`] does.
pub fn certificates_in(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = std::fs::read(path).and_then(|pem| certificates(&pem));
    read.map_err(|error| in_file(path, error))
}

/// Returns the first private key of a PEM text. Errors: there is none, or it is malformed.
pub fn private_key(pem: &[u8]) -> io::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem).map_err(io::Error::other)
}

/// Returns the first private key of a PEM file.
pub fn private_key_in(path: &Path) -> io::Result<PrivateKeyDer<'static>> {
    let read = std::fs::read(path).and_then(|pem| private_key(&pem));
    read.map_err(|error| in_file(path, error))
}

/// Returns the error with the file's name in front.
pub(crate) fn in_file(path: &Path, error: io::Error) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_a_certificate_or_a_key_is_refused() {
        assert!(certificates(b"").is_err() && private_key(b"").is_err());
        assert!(certificates(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").is_err());
    }

    #[test]
    fn the_error_of_a_file_names_it() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let errors = [
            certificates_in(&path).err(),
            private_key_in(&path).err(),
            crate::roots_in(&path).err(),
            certificates_in(Path::new("/nowhere/Cargo.toml")).err(),
        ];
        for error in errors {
            let error = error.expect("no certificate and no key").to_string();
            assert!(error.contains("Cargo.toml: "), "{error}");
        }
    }
}
