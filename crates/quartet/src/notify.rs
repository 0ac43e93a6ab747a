//! Notifications to systemd (sd_notify): datagrams of lines to the socket that it names, and
//! nothing anywhere else.
//!
//! Source: <https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>. A datagram
//! that cannot be sent is lost: the server does not depend on its supervisor.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// Sends one message, lines such as `READY=1`, if there is a listener.
pub fn notify(message: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = send(&socket, message);
    }
}

/// A sentence for people who look at the service.
pub fn status(sentence: &str) {
    notify(&format!("STATUS={sentence}"));
}

/// The settings are read again, since now; the next `READY=1` ends it.
pub fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// Returns the interval of watchdog notifications, if there is one for this process: half of the
/// watchdog's limit.
pub fn watchdog_interval() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let micros = number("WATCHDOG_USEC").filter(|micros| is_for_us && *micros > 0)?;
    Some(Duration::from_micros(micros / 2).max(Duration::from_millis(1)))
}

fn send(socket: &OsString, message: &str) -> std::io::Result<usize> {
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => send_to_name(&sender, name, message),
        None => sender.send_to(message.as_bytes(), OsStr::new(socket)),
    }
}

/// An abstract socket has a name and no file.
#[cfg(target_os = "linux")]
fn send_to_name(sender: &UnixDatagram, name: &[u8], message: &str) -> std::io::Result<usize> {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
    sender.send_to_addr(message.as_bytes(), &address)
}

#[cfg(not(target_os = "linux"))]
fn send_to_name(_: &UnixDatagram, _: &[u8], _: &str) -> std::io::Result<usize> {
    Err(std::io::ErrorKind::Unsupported.into())
}
