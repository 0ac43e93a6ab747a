//! TLS towards the server, with the settings that FoundationDB's clients have.
//!
//! The server's certificate must lead to a certificate of the authority file. Its name is not
//! compared: cluster files hold addresses, and the authority is the operator's own.

use std::path::Path;
use std::sync::Arc;

use quartet_tls::{AcceptAnyCertificate, AcceptAnyName};
use quartet_wire_keyvalue::ErrorCode;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::ServerName;

/// The parts a client needs to speak TLS. Certificates and keys are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificates that the server's must lead to. Without them no server is trusted.
    pub authorities: Option<Vec<u8>>,
    /// The client's own certificate, if the server requires one.
    pub certificate: Option<Vec<u8>>,
    /// The private key of `certificate`.
    pub key: Option<Vec<u8>>,
    /// `Check.Valid=1` verifies the server, as does nothing at all; `Check.Valid=0` trusts any.
    pub verify_peers: Option<String>,
}

const CERTIFICATE_FILE: &str = "FDB_TLS_CERTIFICATE_FILE";
const KEY_FILE: &str = "FDB_TLS_KEY_FILE";
const AUTHORITY_FILE: &str = "FDB_TLS_CA_FILE";
const VERIFY_PEERS: &str = "FDB_TLS_VERIFY_PEERS";

impl TlsSettings {
    /// These settings, and where nothing was set, what the environment says. Fails if a file cannot
    /// be read.
    pub fn or_environment(self) -> Result<TlsSettings, ErrorCode> {
        let file = |pem: Option<Vec<u8>>, variable: &str| match (pem, std::env::var_os(variable)) {
            (None, Some(path)) if !path.is_empty() => read(Path::new(&path)).map(Some),
            (pem, _) => Ok(pem),
        };
        Ok(TlsSettings {
            authorities: file(self.authorities, AUTHORITY_FILE)?,
            certificate: file(self.certificate, CERTIFICATE_FILE)?,
            key: file(self.key, KEY_FILE)?,
            verify_peers: self.verify_peers.or_else(|| std::env::var(VERIFY_PEERS).ok()),
        })
    }

    pub(crate) fn connector(&self) -> Result<TlsConnector, ErrorCode> {
        self.config().map(|config| TlsConnector::from(Arc::new(config)))
    }

    fn config(&self) -> Result<ClientConfig, ErrorCode> {
        let provider = quartet_tls::provider();
        let verifier: Arc<dyn ServerCertVerifier> = match self.verify_peers.as_deref() {
            None | Some("" | "Check.Valid=1") => Arc::new(self.verifier(provider.clone())?),
            Some("Check.Valid=0") => Arc::new(AcceptAnyCertificate::new(provider.clone())),
            Some(_) => return Err(ErrorCode::TLS_ERROR),
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| ErrorCode::TLS_ERROR)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let chain = quartet_tls::certificates(certificate).map_err(|_| ErrorCode::TLS_ERROR)?;
                let key = quartet_tls::private_key(key).map_err(|_| ErrorCode::TLS_ERROR)?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|_| ErrorCode::TLS_ERROR)
            }
            _ => Ok(builder.with_no_client_auth()),
        }
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<AcceptAnyName, ErrorCode> {
        let authorities = self.authorities.as_deref().ok_or(ErrorCode::TLS_ERROR)?;
        let roots = quartet_tls::certificates(authorities).and_then(quartet_tls::roots);
        let verifier = roots.and_then(|roots| AcceptAnyName::new(roots, provider));
        verifier.map_err(|_| ErrorCode::TLS_ERROR)
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ErrorCode> {
    std::fs::read(path).map_err(|_| ErrorCode::TLS_ERROR)
}

/// Returns the TLS name of the server at `host:port`.
pub(crate) fn server_name(address: &str) -> Option<ServerName<'static>> {
    let (host, _) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_authority_no_peer_is_trusted_unless_all_are() {
        let settings = |verify: Option<&str>| TlsSettings {
            verify_peers: verify.map(str::to_owned),
            ..TlsSettings::default()
        };
        for verify in [None, Some(""), Some("Check.Valid=1"), Some("S.CN=somebody")] {
            assert_eq!(
                settings(verify).config().err(),
                Some(ErrorCode::TLS_ERROR),
                "{verify:?}"
            );
        }
        assert!(settings(Some("Check.Valid=0")).config().is_ok());
    }

    #[test]
    fn names_of_servers() {
        for address in ["127.0.0.1:4500", "[::1]:4500", "db.example:4500"] {
            assert!(server_name(address).is_some(), "{address}");
        }
    }
}
