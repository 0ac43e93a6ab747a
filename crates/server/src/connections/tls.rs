//! TLS on a port that also accepts clear text: the first byte decides.
//!
//! The first byte of a TLS connection is that of a handshake record, 0x16. No request of HTTP, RESP
//! or the key-value protocol starts with it. HTTP/1.1 and HTTP/2 are agreed upon in the handshake
//! (ALPN). Without a certificate each connection is in clear text.
//!
//! All listeners share one certificate. It is read again when a file has changed, on SIGHUP and by
//! CONFIG SET; open connections keep the certificate of their handshake. An unusable certificate
//! changes nothing: the old one stays and the log says why. Where TLS is required, a peer that
//! sends clear text is closed at its first byte.
//!
//! A handshake is bounded in time and in bytes, and its bytes count among those of unauthenticated
//! peers.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use parking_lot::{Mutex, RwLock};
use quartet_layer_redis::config::Config;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::limits::unauthenticated_input::{StrangerBytes, StrangerInput};

/// The first byte of a handshake.
const HANDSHAKE: u8 = 0x16;
/// Longest time until the first byte, and then for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes that a peer may send during its handshake. A chain of certificates is a few thousand.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// A longer file is none of certificates or keys.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    #[default]
    No,
    /// A certificate is optional, but must be valid.
    Optional,
    Required,
}

impl ClientCertificates {
    /// The word of `tls-auth-clients`.
    pub fn parse(word: &str) -> Option<ClientCertificates> {
        match word {
            "no" => Some(ClientCertificates::No),
            "optional" => Some(ClientCertificates::Optional),
            "yes" => Some(ClientCertificates::Required),
            _ => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            ClientCertificates::No => "no",
            ClientCertificates::Optional => "optional",
            ClientCertificates::Required => "yes",
        }
    }
}

/// The paths of a certificate with its chain, of its key, and of the roots of clients'
/// certificates; all PEM. Empty paths: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub client_roots: PathBuf,
    pub clients: ClientCertificates,
}

impl TlsFiles {
    fn paths(&self) -> [&Path; 3] {
        [&self.certificate, &self.key, &self.client_roots]
    }

    /// How the files look from outside, so that a change is noticed without reading them.
    fn stamps(&self) -> [Stamp; 3] {
        self.paths().map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        })
    }

    /// Makes CONFIG GET say so.
    pub fn tell(&self, config: &Config) {
        let path = |path: &Path| path.display().to_string();
        config.start_with("tls-cert-file", path(&self.certificate));
        config.start_with("tls-key-file", path(&self.key));
        config.start_with("tls-ca-cert-file", path(&self.client_roots));
        config.start_with("tls-auth-clients", self.clients.word().into());
    }

    fn is_complete(&self) -> bool {
        !self.certificate.as_os_str().is_empty() && !self.key.as_os_str().is_empty()
    }

    /// Returns the scheme under which clients reach an HTTP listener.
    pub fn http_scheme(&self) -> &'static str {
        if self.is_complete() { "https" } else { "http" }
    }
}

type Stamp = Option<(SystemTime, u64, u64)>;

/// The certificate of all listeners, if there is one.
pub struct Tls {
    stranger_bytes: Arc<StrangerBytes>,
    /// Clear text is refused.
    is_required: bool,
    current: RwLock<Option<Acceptors>>,
    source: Mutex<Source>,
}

/// The source of the certificate. Locked during a read, so that two changes are applied in order.
#[derive(Default)]
struct Source {
    files: TlsFiles,
    /// The time of their last read, successful or not.
    read: [Stamp; 3],
    /// The time of their last check.
    seen: [Stamp; 3],
}

/// The acceptors of handshakes: with the protocols of HTTP, and without any.
#[derive(Clone)]
struct Acceptors {
    http: TlsAcceptor,
    other: TlsAcceptor,
}

/// The protocols that a listener's handshakes can negotiate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    Http,
    Other,
}

impl Tls {
    /// No certificate yet: clear text only. `is_required`: clear text is refused once there is one.
    pub fn absent(stranger_bytes: Arc<StrangerBytes>, is_required: bool) -> Arc<Tls> {
        Arc::new(Tls {
            stranger_bytes,
            is_required,
            current: RwLock::default(),
            source: Mutex::default(),
        })
    }

    pub fn stranger_bytes(&self) -> &Arc<StrangerBytes> {
        &self.stranger_bytes
    }

    /// The files in force; `None` without a certificate.
    pub fn files(&self) -> Option<TlsFiles> {
        let source = self.source.lock();
        self.is_on().then(|| source.files.clone())
    }

    pub fn is_on(&self) -> bool {
        self.current.read().is_some()
    }

    /// Returns the acceptor for a connection that was accepted now; `None` if it can only be clear
    /// text.
    pub fn entrance(&self, speaks: Speaks, peer: IpAddr) -> Option<TlsEntrance> {
        let current = self.current.read();
        let acceptors = current.as_ref()?;
        let acceptor = match speaks {
            Speaks::Http => &acceptors.http,
            Speaks::Other => &acceptors.other,
        };
        Some(TlsEntrance {
            acceptor: acceptor.clone(),
            is_required: self.is_required,
            input: self.stranger_bytes.input(peer),
        })
    }

    /// Uses other files from now on. Errors: they cannot be used, and nothing has changed.
    pub fn change(&self, files: TlsFiles) -> Result<()> {
        let mut source = self.source.lock();
        let was_on = self.is_on();
        ensure!(
            files.is_complete() || !was_on,
            "a certificate without a key, or the other way round"
        );
        let read = files.stamps();
        let loaded = files.is_complete().then(|| load(&files)).transpose()?;
        *self.current.write() = loaded;
        *source = Source {
            files,
            read,
            seen: read,
        };
        Ok(())
    }

    /// Reloads the files, changed or not, and logs the result.
    pub fn reload(&self) {
        let mut source = self.source.lock();
        self.reload_from(&mut source);
    }

    /// The same if a file has changed since it was read, and not since the last time that this was
    /// called: a certificate and its key are replaced one after the other.
    pub fn reload_if_changed(&self) {
        let mut source = self.source.lock();
        let stamps = source.files.stamps();
        let is_at_rest = stamps == source.seen;
        source.seen = stamps;
        if is_at_rest && stamps != source.read {
            self.reload_from(&mut source);
        }
    }

    fn reload_from(&self, source: &mut Source) {
        if !source.files.is_complete() {
            return;
        }
        source.read = source.files.stamps();
        match load(&source.files) {
            Ok(acceptors) => {
                *self.current.write() = Some(acceptors);
                tracing::info!(certificate = %source.files.certificate.display(), "the certificate was read again");
            }
            Err(error) => {
                tracing::error!("the certificate is unchanged, the new certificate cannot be used: {error:#}")
            }
        }
    }
}

fn load(files: &TlsFiles) -> Result<Acceptors> {
    let provider = quartet_tls::provider();
    let config = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let config = match client_verifier(files, provider)? {
        Some(verifier) => config.with_client_cert_verifier(verifier),
        None => config.with_no_client_auth(),
    };
    let key = quartet_tls::private_key(&read(&files.key)?).with_context(|| in_file(&files.key))?;
    let other = config
        .with_single_cert(certificates(&files.certificate)?, key)
        .with_context(|| format!("{} and its key", files.certificate.display()))?;
    let mut http = other.clone();
    http.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Acceptors {
        http: TlsAcceptor::from(Arc::new(http)),
        other: TlsAcceptor::from(Arc::new(other)),
    })
}

fn client_verifier(
    files: &TlsFiles,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>> {
    if files.clients == ClientCertificates::No {
        return Ok(None);
    }
    ensure!(
        !files.client_roots.as_os_str().is_empty(),
        "clients must present certificates, and no file has their roots"
    );
    let roots = quartet_tls::roots(certificates(&files.client_roots)?).with_context(|| in_file(&files.client_roots))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match files.clients {
        ClientCertificates::Optional => verifier.allow_unauthenticated(),
        _ => verifier,
    };
    Ok(Some(verifier.build().with_context(|| in_file(&files.client_roots))?))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    quartet_tls::certificates(&read(path)?).with_context(|| in_file(path))
}

/// A file that is none, a pipe for example, is not waited for.
fn read(path: &Path) -> Result<Vec<u8>> {
    let metadata = std::fs::metadata(path).with_context(|| in_file(path))?;
    ensure!(metadata.is_file(), "{} is no file", path.display());
    ensure!(metadata.len() <= FILE_BYTES_MAX, "{} is too long", path.display());
    std::fs::read(path).with_context(|| in_file(path))
}

fn in_file(path: &Path) -> String {
    format!("reading {}", path.display())
}

/// Answers the handshake of one connection.
pub struct TlsEntrance {
    acceptor: TlsAcceptor,
    is_required: bool,
    input: StrangerInput,
}

impl TlsEntrance {
    /// Waits for the first byte and returns true if it starts a handshake. Errors: it is clear
    /// text, and clear text is refused.
    pub async fn is_asked_for(&self, socket: &TcpStream) -> io::Result<bool> {
        let mut first = [0];
        socket.peek(&mut first).await?;
        match first == [HANDSHAKE] {
            false if self.is_required => Err(io::ErrorKind::ConnectionRefused.into()),
            is_handshake => Ok(is_handshake),
        }
    }

    /// Shakes hands. Errors: the peer does not, or not in time, or with too many bytes.
    pub async fn shake_hands(self, socket: TcpStream) -> io::Result<Encrypted> {
        let socket = Handshaking {
            socket,
            counted: Some(Box::new(Counted {
                input: self.input,
                bytes: 0,
            })),
        };
        let mut stream = within(self.acceptor.accept(socket)).await?;
        stream.get_mut().0.counted = None;
        Ok(Box::new(stream))
    }
}

pub type Encrypted = Box<EncryptedStream>;
pub type EncryptedStream = TlsStream<Handshaking>;

/// A connection of either kind.
pub enum Transport {
    Clear(TcpStream),
    Encrypted(Encrypted),
}

impl Transport {
    /// Detects the transport, and performs the handshake if necessary.
    pub async fn open(socket: TcpStream, tls: Option<TlsEntrance>) -> io::Result<Transport> {
        let Some(tls) = tls else {
            return Ok(Transport::Clear(socket));
        };
        match within(tls.is_asked_for(&socket)).await? {
            true => Ok(Transport::Encrypted(tls.shake_hands(socket).await?)),
            false => Ok(Transport::Clear(socket)),
        }
    }
}

async fn within<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, step).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// The socket below TLS. During the handshake, received bytes are counted: the library buffers
/// incomplete messages.
pub struct Handshaking {
    socket: TcpStream,
    counted: Option<Box<Counted>>,
}

struct Counted {
    input: StrangerInput,
    bytes: usize,
}

impl Handshaking {
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

impl AsyncRead for Handshaking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        if let Some(counted) = &mut self.counted {
            counted.bytes += buffer.filled().len() - before;
            if counted.bytes > HANDSHAKE_BYTES_MAX || !counted.input.set(counted.bytes) {
                return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Handshaking {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::{Instant, sleep};

    fn entrance(stranger_bytes: &Arc<StrangerBytes>) -> TlsEntrance {
        let config = ServerConfig::builder_with_provider(quartet_tls::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
        TlsEntrance {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            is_required: false,
            input: stranger_bytes.input(IpAddr::from([127, 0, 0, 1])),
        }
    }

    /// Opens a connection whose peer sends `bytes` repeatedly, with a pause of a second after each,
    /// and returns the error of the attempt.
    async fn opened(bytes: Vec<u8>, stranger_bytes: &Arc<StrangerBytes>) -> io::ErrorKind {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sending = tokio::spawn(async move {
            let mut client = TcpStream::connect(address).await.unwrap();
            // A record of 512 bytes is announced, with a message of 60,000 bytes.
            let _ = client.write_all(&[HANDSHAKE, 3, 1, 2, 0, 1, 0, 0xea, 0x60]).await;
            while client.write_all(&bytes).await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let (socket, _) = listener.accept().await.unwrap();
        let opened = Transport::open(socket, Some(entrance(stranger_bytes))).await;
        sending.abort();
        opened.err().unwrap().kind()
    }

    /// The paused clock advances only for timers, so this takes no time.
    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_drips_is_given_up() {
        let started = Instant::now();
        assert_eq!(opened(vec![0], &StrangerBytes::new()).await, io::ErrorKind::TimedOut);
        assert!(started.elapsed() <= 2 * HANDSHAKE_TIMEOUT);
    }

    /// The system's clock: a paused clock would jump to the next deadline while the bytes are still
    /// in transit.
    #[tokio::test]
    async fn bytes_of_a_handshake_count_among_unauthenticated_bytes() {
        let stranger_bytes = StrangerBytes::with_limits(1000, 200);
        let ended = opened(vec![0; 256], &stranger_bytes).await;
        assert_eq!(ended, io::ErrorKind::QuotaExceeded);
        assert!(
            stranger_bytes.input(IpAddr::from([127, 0, 0, 1])).set(200),
            "all was given back"
        );
    }

    #[test]
    fn an_unusable_file_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nothing.pem");
        std::fs::write(&path, "nothing").unwrap();
        for (certificate, key) in [(&path, &path), (&folder.path().to_owned(), &path)] {
            let files = TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                ..TlsFiles::default()
            };
            let error = Tls::absent(StrangerBytes::new(), false).change(files).unwrap_err();
            assert!(
                format!("{error:#}").contains(folder.path().to_str().unwrap()),
                "{error:#}"
            );
        }
        let files = TlsFiles {
            certificate: path,
            ..TlsFiles::default()
        };
        let tls = Tls::absent(StrangerBytes::new(), false);
        tls.change(files).unwrap();
        assert!(!tls.is_on());
    }
}
