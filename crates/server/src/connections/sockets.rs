//! The listening sockets of a server, each bound once.
//!
//! They outlive the services that use them: between two services, connections wait in the backlog,
//! and no other process gets the port.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use parking_lot::Mutex;

use crate::connections::port_owner;

#[derive(Default)]
pub struct Sockets {
    bound: Mutex<HashMap<&'static str, TcpListener>>,
    are_closed: Arc<AtomicBool>,
}

/// A handle of a listening socket, for one service.
pub struct Listening {
    pub socket: TcpListener,
    are_closed: Arc<AtomicBool>,
}

impl Listening {
    /// Returns true once no other service will accept from this socket.
    pub fn is_last(&self) -> bool {
        self.are_closed.load(Ordering::SeqCst)
    }
}

impl Sockets {
    /// A handle of the listener of `--listen-NAME`, and its address; `None`: it is off.
    pub fn bind(&self, address: Option<SocketAddr>, name: &'static str) -> Result<Option<(Listening, SocketAddr)>> {
        let Some(address) = address else {
            return Ok(None);
        };
        let mut bound = self.bound.lock();
        if !bound.contains_key(name) {
            bound.insert(name, listen(address, name)?);
        }
        let socket = bound[name].try_clone()?;
        let address = socket.local_addr()?;
        let are_closed = self.are_closed.clone();
        Ok(Some((Listening { socket, are_closed }, address)))
    }

    /// The addresses of all listeners by name.
    pub fn addresses(&self) -> BTreeMap<String, String> {
        let bound = self.bound.lock();
        let address = |(name, socket): (&&'static str, &TcpListener)| {
            let address = socket.local_addr().ok()?;
            Some(((*name).to_owned(), address.to_string()))
        };
        bound.iter().filter_map(address).collect()
    }

    /// Refuses connections from the moment at which the last handle is dropped.
    pub fn close(&self) {
        self.are_closed.store(true, Ordering::SeqCst);
        self.bound.lock().clear();
    }
}

fn listen(address: SocketAddr, name: &str) -> Result<TcpListener> {
    let socket = if address.is_ipv6() {
        tokio::net::TcpSocket::new_v6()
    } else {
        tokio::net::TcpSocket::new_v4()
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address).with_context(|| cannot_listen(address, name))?;
    // A runtime is needed to register the socket; the listener is passed on without it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    let listener = socket.listen(LISTEN_BACKLOG);
    Ok(listener.with_context(|| cannot_listen(address, name))?.into_std()?)
}

/// The error for a listener that could not be opened: its address, its option, and the process that
/// already listens there.
fn cannot_listen(address: SocketAddr, name: &str) -> String {
    let owner = port_owner::owner_of(address).map(|owner| format!(", where {owner} listens"));
    format!(
        "cannot listen on {address} (--listen-{name}){}",
        owner.unwrap_or_default()
    )
}

/// Most connections that wait until they are accepted.
pub const LISTEN_BACKLOG: u32 = 1024;
