//! Certificates for members and clients.

use std::path::{Path, PathBuf};

use quartet_log_etcd::EtcdTls;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// A certificate authority and what it has signed.
pub struct Tls {
    authority: String,
    certificate: String,
    key: String,
}

impl Tls {
    pub fn new() -> Tls {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let own = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]);
        let certificate = params.expect("the names are names").signed_by(&own, &authority);
        Tls {
            authority: authority.pem(),
            certificate: certificate.expect("a certificate").pem(),
            key: own.serialize_pem(),
        }
    }

    pub fn client(&self) -> EtcdTls {
        EtcdTls {
            authorities: self.authority.clone(),
            identity: Some((self.certificate.clone(), self.key.clone())),
            server_name: None,
        }
    }

    /// Writes the files and names them.
    pub fn flags(&self, folder: &Path) -> Vec<String> {
        let write = |name: &str, text: &str| -> PathBuf {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("a file is written");
            path
        };
        vec![
            format!("--trusted-ca-file={}", write("ca.pem", &self.authority).display()),
            format!("--cert-file={}", write("cert.pem", &self.certificate).display()),
            format!("--key-file={}", write("key.pem", &self.key).display()),
            "--client-cert-auth".to_owned(),
        ]
    }
}
