//! The answers of a node at its HTTP listener before it has joined its cluster: that it is alive,
//! and why it waits. The other listeners are not open yet.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{Semaphore, watch};

use super::forward;
use crate::connections::sockets::Sockets;
use crate::connections::tls::{Speaks, Tls, Transport};
use crate::http::framing::{self, HeaderRoom};
use crate::limits::unauthenticated_input::StrangerBytes;
use crate::settings::Settings;

/// Connections that are answered at a time.
const CONNECTIONS_MAX: usize = 64;
/// Time limit of an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
const TEXT: &str = "text/plain; charset=utf-8";

/// A node that waits, until it is dropped.
pub struct Waiting {
    what: Arc<Mutex<String>>,
    status: fn(&str),
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Starts to answer. The sockets remain open afterwards.
    pub fn begin(settings: &Settings, sockets: &Sockets) -> Result<Waiting> {
        let mut waiting = Waiting {
            what: Arc::new(Mutex::new("joining the cluster".to_owned())),
            status: settings.status,
            stop: watch::Sender::new(false),
            thread: None,
        };
        let Some((socket, _)) = sockets.bind(settings.http.listen.address(), "http")? else {
            return Ok(waiting);
        };
        let tls = Tls::absent(StrangerBytes::new(), settings.connections.tls_only);
        tls.change(settings.connections.tls.clone())?;
        let (what, stop) = (waiting.what.clone(), waiting.stop.subscribe());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = move || {
            let served = runtime.block_on(serve(socket.socket, tls, what, stop));
            if let Err(error) = served {
                tracing::warn!(%error, "health cannot be asked for while the node joins");
            }
        };
        waiting.thread = Some(std::thread::Builder::new().name("waiting".into()).spawn(serve)?);
        Ok(waiting)
    }

    /// Makes known what is waited for, if that is news.
    pub fn say(&self, what: &str) {
        let mut said = self.what.lock();
        if *said != what {
            what.clone_into(&mut said);
            (self.status)(what);
            tracing::info!("{what}");
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that answers while the node joins panicked");
        }
    }
}

async fn serve(
    socket: TcpListener,
    tls: Arc<Tls>,
    what: Arc<Mutex<String>>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(socket)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stops| *stops) => return Ok(()),
        };
        let (Ok((socket, peer)), Ok(place)) = (accepted, places.clone().acquire_owned().await) else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let (tls, what) = (tls.clone(), what.clone());
        let answering = async move {
            match Transport::open(socket, tls.entrance(Speaks::Other, peer.ip())).await? {
                Transport::Clear(socket) => answer(socket, &what).await,
                Transport::Encrypted(stream) => answer(*stream, &what).await,
            }
        };
        tokio::spawn(async move {
            // A client without an answer retries.
            let _ = tokio::time::timeout(TIMEOUT, answering).await;
            drop(place);
        });
    }
}

/// Answers one request, and ends the connection.
async fn answer(mut socket: impl AsyncRead + AsyncWrite + Unpin, what: &Mutex<String>) -> io::Result<()> {
    let mut input = Vec::new();
    let (status, body) = loop {
        let mut room = [const { std::mem::MaybeUninit::uninit() }; framing::HEADERS_MAX];
        let room: &mut HeaderRoom<'_> = &mut room;
        match framing::parse(&input, room) {
            Ok(Some(request)) => break page(request.head.path(), &what.lock()),
            Ok(None) => {}
            Err(refusal) => break (refusal.status(), String::new()),
        }
        if socket.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    };
    forward::answer(&mut socket, status, TEXT, &body, false).await
}

/// The process must not be restarted: it continues by itself.
fn page(path: &str, what: &str) -> (u16, String) {
    match path {
        "/healthz" | "/health" => (200, format!("ok: {what}\n")),
        _ => (503, format!("{what}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_waits_is_alive_and_not_ready() {
        let what = "waiting for etcd";
        assert_eq!(page("/healthz", what), (200, "ok: waiting for etcd\n".to_owned()));
        for path in ["/readyz", "/healthz/home", "/metrics", "/get/key"] {
            assert_eq!(page(path, what), (503, "waiting for etcd\n".to_owned()), "{path}");
        }
    }
}
