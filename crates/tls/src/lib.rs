//! Certificates for the listeners and the clients of this project: PEM read with one kind of error,
//! roots, and the two verifiers that trust more than the public rules do.
//!
//! The error of a file names it. Nothing here opens a connection; each user builds its own
//! configuration of rustls on these parts.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod pem;
mod verifiers;

pub use pem::{certificates, certificates_in, private_key, private_key_in};
pub use verifiers::{AcceptAnyCertificate, AcceptAnyName};

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;

/// Returns the cryptography of all connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the roots that browsers trust, as of the build.
pub fn public_roots() -> RootCertStore {
    RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    }
}

/// Returns the certificates as roots. Errors: a certificate cannot be a root.
pub fn roots(certificates: Vec<CertificateDer<'static>>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    Ok(roots)
}

/// Returns the certificates of a PEM file as roots.
pub fn roots_in(path: &Path) -> io::Result<RootCertStore> {
    roots(certificates_in(path)?).map_err(|error| pem::in_file(path, error))
}
