//! Finds the process that listens on a port, if the system shows it: from `/proc`, on Linux.
//!
//! The table of sockets has a number for each, and the process has a descriptor that links to it.
//! Only root sees the processes of other users, so the search may find nothing.

use std::net::SocketAddr;
use std::path::Path;

/// `redis-server (process 4711)`, if it can be seen.
pub fn owner_of(address: SocketAddr) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let socket = tables
        .iter()
        .flat_map(|table| table.lines())
        .find_map(|line| listening_socket(line, address.port()))?;
    let processes = std::fs::read_dir("/proc").ok()?;
    let mut processes = processes.flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse::<u32>().ok()?;
        Some((number, entry.path()))
    });
    let (number, path) = processes.find(|(_, path)| has_socket(path, &socket))?;
    let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
    Some(format!("{} (process {number})", name.trim_end()))
}

/// The number of the socket that this line of the table describes, if it listens on the port.
fn listening_socket(line: &str, port: u16) -> Option<String> {
    const LISTENS: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, own_port) = fields.get(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(own_port, 16) == Ok(port) && *fields.get(3)? == LISTENS;
    is_it.then(|| fields.get(9).map(|number| (*number).to_owned()))?
}

fn has_socket(process: &Path, socket: &str) -> bool {
    let link = format!("socket:[{socket}]");
    let Ok(descriptors) = std::fs::read_dir(process.join("fd")) else {
        return false;
    };
    let mut targets = descriptors.flatten().map(|entry| std::fs::read_link(entry.path()));
    targets.any(|target| target.is_ok_and(|target| target == Path::new(&link)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_listens_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let owner = owner_of(listener.local_addr().unwrap());
        if cfg!(target_os = "linux") {
            let expected = format!("(process {})", std::process::id());
            assert!(
                owner.as_ref().is_some_and(|owner| owner.ends_with(&expected)),
                "{owner:?}"
            );
        }
        assert_eq!(listening_socket("sl local_address rem_address", 1), None);
    }
}
