//! Connections between the nodes of a cluster.
//!
//! ```text
//!   caller                                    node
//!     | -- TLS, each shows a certificate ----> |     of the cluster's own authority
//!     | -- "quartet 1 CLUSTER REQUEST\n" ----> |     the agreed format; 32 hexadecimal digits
//!     | <- "ok\n", or "no REASON\n" ---------- |
//!     |    what the request says               |
//! ```
//!
//! Without certificates a node connects and listens only on loopback (`settings`). A peer without a
//! certificate and the name of the cluster gets no information: a wrong word closes the connection
//! without an answer.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quartet_log_replicated::ClusterId;
use quartet_model::format;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::cluster::protocol::{NodeRequest, UnknownRequest};
use crate::connections::stream::Stream;
use crate::settings::NodeCertificates;

/// Time limit of a node's answer to a call.
const CALL_TIMEOUT: Duration = Duration::from_millis(700);
/// Time limit of a caller's request.
const GREETING_TIMEOUT: Duration = Duration::from_secs(3);
/// Most callers that have not said yet what they want.
const CALLERS_MAX: usize = 256;
/// Longest line of a greeting or of its answer, in bytes.
const LINE_BYTES_MAX: usize = 256;

/// One node's side of all its connections to others.
#[derive(Clone)]
pub struct Link {
    cluster: ClusterId,
    tls: Option<(TlsConnector, TlsAcceptor)>,
}

impl Link {
    /// Reads the certificates; `None`: clear text.
    pub fn new(cluster: ClusterId, certificates: Option<&NodeCertificates>) -> Result<Link> {
        let tls = certificates
            .map(load)
            .transpose()
            .context("certificates of the cluster")?;
        Ok(Link { cluster, tls })
    }

    /// Calls the node at `address` (host:port). Errors: it is not there, is no node of this
    /// cluster, or refuses (`ErrorKind::PermissionDenied`). In each case it has done nothing.
    pub async fn call(&self, address: &str, request: &NodeRequest) -> io::Result<Box<dyn Stream>> {
        within(CALL_TIMEOUT, self.call_now(address, request)).await
    }

    async fn call_now(&self, address: &str, request: &NodeRequest) -> io::Result<Box<dyn Stream>> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut stream: Box<dyn Stream> = match &self.tls {
            Some((connector, _)) => Box::new(connector.connect(server_name(address)?, socket).await?),
            None => Box::new(socket),
        };
        let greeting = format!("{} {request}\n", self.greeting(format::written()));
        stream.write_all(greeting.as_bytes()).await?;
        stream.flush().await?;
        let answer = read_line(&mut stream).await?;
        match answer.as_str() {
            "ok" => Ok(stream),
            answer => Err(io::Error::new(ErrorKind::PermissionDenied, answer.to_owned())),
        }
    }

    /// Reads the request of the caller at the other end of `socket`, and returns it with the
    /// connection for the answer. Errors: the caller is outside of this cluster.
    pub async fn hear(&self, socket: TcpStream) -> io::Result<(Result<NodeRequest, UnknownRequest>, Box<dyn Stream>)> {
        within(GREETING_TIMEOUT, self.hear_now(socket)).await
    }

    async fn hear_now(&self, socket: TcpStream) -> io::Result<(Result<NodeRequest, UnknownRequest>, Box<dyn Stream>)> {
        socket.set_nodelay(true)?;
        let mut stream: Box<dyn Stream> = match &self.tls {
            Some((_, acceptor)) => Box::new(acceptor.accept(socket).await?),
            None => Box::new(socket),
        };
        let line = read_line(&mut stream).await?;
        let request = (format::oldest()..=format::newest()).find_map(|format| {
            line.strip_prefix(&self.greeting(format))
                .and_then(|rest| rest.strip_prefix(' '))
        });
        match request {
            Some(request) => Ok((request.parse(), stream)),
            None => Err(io::Error::new(ErrorKind::InvalidData, "no node of this cluster")),
        }
    }

    fn greeting(&self, format: u32) -> String {
        format!("quartet {format} {:032x}", self.cluster.0)
    }
}

/// Callers before their request. If there are too many, the oldest is dropped: a node sends its
/// request at once, and unauthenticated callers must not take all descriptors of the process.
#[derive(Default)]
pub struct Callers(VecDeque<(AbortHandle, Arc<AtomicBool>)>);

/// A caller's way out of [`Callers`].
pub struct Heard(Arc<AtomicBool>);

impl Heard {
    /// The caller has sent its request, or has disconnected.
    pub fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Callers {
    /// Serves a caller on its own task, which must call `note` when it has received the request.
    /// For a runtime of one thread, where no task runs while another is dropped.
    pub fn hear<F: Future<Output = ()> + Send + 'static>(&mut self, caller: impl FnOnce(Heard) -> F) {
        self.0.retain(|(_, is_heard)| !is_heard.load(Ordering::Relaxed));
        if self.0.len() >= CALLERS_MAX
            && let Some((oldest, _)) = self.0.pop_front()
        {
            oldest.abort();
        }
        let is_heard = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(caller(Heard(is_heard.clone())));
        self.0.push_back((task.abort_handle(), is_heard));
    }
}

/// Accepts a caller's request; the stream continues with its answer.
pub async fn accept(stream: &mut dyn Stream) -> io::Result<()> {
    stream.write_all(b"ok\n").await?;
    stream.flush().await
}

/// Refuses a caller's request: nothing was done.
pub async fn refuse(stream: &mut dyn Stream, reason: &str) -> io::Result<()> {
    stream.write_all(format!("no {reason}\n").as_bytes()).await?;
    stream.shutdown().await
}

/// Sends the result of a request.
pub async fn say(stream: &mut dyn Stream, ended: Result<(), String>) -> io::Result<()> {
    match ended {
        Ok(()) => accept(stream).await?,
        Err(reason) => {
            // One line, and no longer than the other side reads.
            let reason = reason.replace('\n', " ");
            let reason: String = reason.chars().take(LINE_BYTES_MAX / 5).collect();
            refuse(stream, &reason).await?;
        }
    }
    stream.shutdown().await
}

/// Receives the result of a request.
pub async fn hear_said(stream: &mut dyn Stream) -> io::Result<()> {
    match read_line(stream).await?.as_str() {
        "ok" => Ok(()),
        reason => Err(io::Error::new(ErrorKind::PermissionDenied, reason.to_owned())),
    }
}

/// One byte at a time: any input after the line belongs to the request.
async fn read_line(stream: &mut dyn Stream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            byte if line.len() < LINE_BYTES_MAX => line.push(byte),
            _ => return Err(ErrorKind::InvalidData.into()),
        }
    }
    String::from_utf8(line).map_err(|_| ErrorKind::InvalidData.into())
}

async fn within<T>(limit: Duration, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = tokio::time::timeout(limit, step).await;
    done.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// The name or address that a node's certificate has to hold.
fn server_name(address: &str) -> io::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(|_| ErrorKind::InvalidInput.into())
}

fn load(files: &NodeCertificates) -> Result<(TlsConnector, TlsAcceptor)> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.authority)? {
        roots.add(certificate)?;
    }
    let roots = Arc::new(roots);
    let chain = certificates(&files.certificate)?;
    let key = || {
        let key = PrivateKeyDer::from_pem_file(&files.key);
        key.with_context(|| format!("reading {}", files.key.display()))
    };
    let client = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots.clone())
        .with_client_auth_cert(chain.clone(), key()?)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build()?;
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key()?)?;
    Ok((
        TlsConnector::from(Arc::new(client)),
        TlsAcceptor::from(Arc::new(server)),
    ))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let reading = || format!("reading {}", path.display());
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).with_context(reading)?.collect();
    let found = found.with_context(reading)?;
    ensure!(!found.is_empty(), "{} holds no certificate", path.display());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use tokio::net::TcpListener;

    use super::*;

    const CLUSTER: ClusterId = ClusterId(7);

    /// Certificates of a new authority for 127.0.0.1.
    fn made(folder: &Path, name: &str) -> NodeCertificates {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let node = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let node = node.signed_by(&key, &authority).unwrap();
        let file = |kind: &str, text: String| {
            let path = folder.join(format!("{name}-{kind}.pem"));
            std::fs::write(&path, text).unwrap();
            path
        };
        NodeCertificates {
            authority: file("authority", authority.pem()),
            certificate: file("certificate", node.pem()),
            key: file("key", key.serialize_pem()),
        }
    }

    /// Returns the answer of a node that repeats each request of its cluster, or the bytes that
    /// reached a refused caller.
    async fn calls(caller: Link, node: Link) -> io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let (request, mut stream) = node.hear(socket).await?;
            accept(stream.as_mut()).await?;
            stream.write_all(request.unwrap().to_string().as_bytes()).await?;
            stream.shutdown().await
        });
        let called = async {
            let mut said = String::new();
            caller
                .call(&address, &NodeRequest::MayTakeOver)
                .await?
                .read_to_string(&mut said)
                .await?;
            Ok(said)
        };
        let said = called.await;
        let _ = serving.await.unwrap();
        said
    }

    #[tokio::test]
    async fn only_nodes_of_a_cluster_talk() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (made(folder.path(), "ours"), made(folder.path(), "theirs"));
        let link = |cluster, certificates| Link::new(cluster, certificates).unwrap();
        let said = calls(link(CLUSTER, Some(&ours)), link(CLUSTER, Some(&ours))).await;
        assert_eq!(said.unwrap(), "may-take-over");
        let said = calls(link(CLUSTER, None), link(CLUSTER, None)).await;
        assert_eq!(said.unwrap(), "may-take-over");
        let strangers = [
            (link(CLUSTER, Some(&theirs)), link(CLUSTER, Some(&ours))),
            (link(CLUSTER, None), link(CLUSTER, Some(&ours))),
            (link(CLUSTER, Some(&ours)), link(CLUSTER, None)),
            (link(ClusterId(8), Some(&ours)), link(CLUSTER, Some(&ours))),
            (link(ClusterId(8), None), link(CLUSTER, None)),
        ];
        for (index, (caller, node)) in strangers.into_iter().enumerate() {
            assert!(calls(caller, node).await.is_err(), "{index}");
        }
    }

    /// Without a certificate and without the cluster's name not one byte is returned.
    #[tokio::test]
    async fn an_unauthenticated_peer_learns_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let node = Link::new(CLUSTER, None).unwrap();
        for line in [
            "PING\r\n".to_owned(),
            format!("quartet 1 {:032x} watch\n", 8),
            "x".repeat(1000),
        ] {
            let (stranger, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
            let mut stranger = stranger.unwrap();
            stranger.write_all(line.as_bytes()).await.unwrap();
            assert!(node.hear(accepted.unwrap().0).await.is_err());
            let mut heard = Vec::new();
            let _ = stranger.read_to_end(&mut heard).await;
            assert!(heard.is_empty(), "{line}");
        }
    }

    #[tokio::test]
    async fn the_callers_that_are_silent_for_the_longest_are_dropped() {
        let mut callers = Callers::default();
        let (over, ended) = std::sync::mpsc::channel();
        struct Caller(usize, std::sync::mpsc::Sender<usize>);
        impl Drop for Caller {
            fn drop(&mut self) {
                let _ = self.1.send(self.0);
            }
        }
        for number in 0..CALLERS_MAX + 10 {
            let caller = Caller(number, over.clone());
            callers.hear(async move |heard| {
                // Some say at once what they want, and stay.
                if caller.0.is_multiple_of(4) {
                    heard.note();
                }
                std::future::pending::<()>().await;
                drop(caller);
            });
            tokio::task::yield_now().await;
        }
        assert!(ended.try_iter().next().is_none(), "there was room for all");
        for number in 1000..1000 + CALLERS_MAX {
            let caller = Caller(number, over.clone());
            callers.hear(async move |_| {
                std::future::pending::<()>().await;
                drop(caller);
            });
            tokio::task::yield_now().await;
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let dropped: Vec<usize> = ended.try_iter().collect();
        let silent: Vec<usize> = (0..CALLERS_MAX + 10)
            .filter(|number| !number.is_multiple_of(4))
            .collect();
        assert_eq!(dropped, silent);
    }
}
