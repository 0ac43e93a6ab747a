//! The certificates that a TLS server's certificate is verified against.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use crate::error::{Error, Result};

#[derive(Clone)]
pub enum TrustedRoots {
    /// The public certificate authorities that browsers trust, as of the build.
    Public,
    /// Those of a file, and no others.
    Own(Arc<Vec<Certificate<'static>>>),
}

impl TrustedRoots {
    /// Reads a PEM file. Errors: it cannot be read, or holds no certificate.
    pub fn in_file(path: &Path) -> Result<TrustedRoots> {
        let failed = |reason: &dyn std::fmt::Display| Error::Roots(format!("{}: {reason}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
        let mut roots = Vec::new();
        for item in ureq::tls::parse_pem(&bytes) {
            if let PemItem::Certificate(certificate) = item.map_err(|error| failed(&error))? {
                roots.push(certificate);
            }
        }
        match roots.is_empty() {
            true => Err(failed(&"it holds no certificate")),
            false => Ok(TrustedRoots::Own(Arc::new(roots))),
        }
    }

    /// An HTTP client that returns every response, of any status.
    pub fn agent(&self, timeout: Duration) -> ureq::Agent {
        let mut tls = TlsConfig::builder();
        if let TrustedRoots::Own(roots) = self {
            tls = tls.root_certs(RootCerts::new_with_certs(roots));
        }
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .proxy(None)
            .tls_config(tls.build())
            .build();
        config.into()
    }
}
