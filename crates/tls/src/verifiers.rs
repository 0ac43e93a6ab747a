//! Verifiers of servers' certificates for peers with certificates of the operator's own.

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Trusts a certificate signed by the roots, for any name.
#[derive(Debug)]
pub struct AcceptAnyName(Arc<WebPkiServerVerifier>);

impl AcceptAnyName {
    /// Returns the verifier of these roots. Errors: there are none.
    pub fn new(roots: RootCertStore, provider: Arc<CryptoProvider>) -> io::Result<AcceptAnyName> {
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        verifier.map(AcceptAnyName).map_err(io::Error::other)
    }
}

impl ServerCertVerifier for AcceptAnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self
            .0
            .verify_server_cert(certificate, intermediates, name, stapled, now);
        match verified {
            // The name is compared last: the roots have signed the certificate.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Trusts any peer that holds the key of its certificate: for operators who request it.
#[derive(Debug)]
pub struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl AcceptAnyCertificate {
    /// Returns the verifier.
    pub fn new(provider: Arc<CryptoProvider>) -> AcceptAnyCertificate {
        AcceptAnyCertificate(provider)
    }
}

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::string::Ia5String;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
    use rustls::client::WebPkiServerVerifier;

    use super::*;
    use crate::provider;

    /// A name that is cut at a NUL lets the owner of `localhost\0.example.com` stand for
    /// `localhost` (Redis cut the names of clients' certificates so until 2026).
    #[test]
    fn a_name_is_not_cut_at_a_nul() {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(issuer.der().clone()).unwrap();
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build().unwrap();
        let accepts = |name: &str| {
            let mut own = CertificateParams::default();
            own.subject_alt_names = vec![SanType::DnsName(Ia5String::try_from(name).unwrap())];
            let certificate = own.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
            let server = ServerName::try_from("localhost").unwrap();
            let now = UnixTime::since_unix_epoch(Duration::from_secs(1_750_000_000));
            let verified = verifier.verify_server_cert(certificate.der(), &[], &server, &[], now);
            verified.is_ok()
        };
        assert!(accepts("localhost"));
        assert!(!accepts("localhost\0.example.com"));
        assert!(!accepts("localhost\0"));
    }
}
