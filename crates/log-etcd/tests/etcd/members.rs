//! Members of etcd on loopback, in a folder of their own; killed when dropped.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use quartet_log_etcd::{Etcd, EtcdOptions, EtcdTls};

pub struct Members {
    folder: tempfile::TempDir,
    pub programs: Vec<Option<Child>>,
    commands: Vec<Vec<String>>,
    clients: Vec<u16>,
    tls: Option<EtcdTls>,
}

impl Members {
    /// Starts members in clear text and waits until they have a leader.
    pub fn start(count: usize) -> Members {
        Members::start_with(count, None, &[])
    }

    /// The same with the files that clients need for TLS, and further flags.
    pub fn start_with(count: usize, tls: Option<EtcdTls>, more: &[String]) -> Members {
        let folder = tempfile::tempdir().expect("a folder");
        let (clients, peers) = (ports(count), ports(count));
        let name = |member: usize| format!("member-{member}");
        let peer = |member: usize| format!("{}=http://127.0.0.1:{}", name(member), peers[member]);
        let cluster: Vec<String> = (0..count).map(peer).collect();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let command = |member: usize| {
            let client = format!("{scheme}://127.0.0.1:{}", clients[member]);
            let peer = format!("http://127.0.0.1:{}", peers[member]);
            let data = folder.path().join(name(member)).display().to_string();
            let mut flags = vec![
                format!("--name={}", name(member)),
                format!("--data-dir={data}"),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster={}", cluster.join(",")),
                "--log-level=error".to_owned(),
            ];
            flags.extend_from_slice(more);
            flags
        };
        let commands = (0..count).map(command).collect();
        let programs = (0..count).map(|_| None).collect();
        let mut members = Members {
            folder,
            programs,
            commands,
            clients,
            tls,
        };
        (0..count).for_each(|member| members.run(member));
        members.leader();
        members
    }

    pub fn options(&self) -> EtcdOptions {
        let endpoint = |port: &u16| format!("127.0.0.1:{port}");
        let mut options = EtcdOptions::new(self.clients.iter().map(endpoint).collect());
        options.tls = self.tls.clone();
        // Debian's is before 3.4.42.
        options.allow_stale_reads = true;
        options
    }

    /// The member that leads, once one does.
    pub fn leader(&self) -> usize {
        let began = Instant::now();
        loop {
            if let Some(leader) = self.leader_now() {
                return leader;
            }
            let log = self.folder.path().display();
            assert!(began.elapsed() < Duration::from_secs(60), "no leader; see {log}");
        }
    }

    fn leader_now(&self) -> Option<usize> {
        let mut options = self.options();
        options.allow_one_member = true;
        let etcd = Etcd::open(&options).ok()?;
        let leader = etcd.status().into_iter().find(|member| member.is_leader)?;
        options
            .endpoints
            .iter()
            .position(|endpoint| *endpoint == leader.endpoint)
    }

    pub fn run(&mut self, member: usize) {
        let program = std::env::var_os("QUARTET_ETCD").expect("QUARTET_ETCD is the path of an etcd");
        let log = self.folder.path().join(format!("log-{member}"));
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(log)
            .expect("a log");
        let child = Command::new(program)
            .args(&self.commands[member])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.programs[member] = Some(child.expect("etcd starts"));
    }

    pub fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.programs[member].take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        (0..self.programs.len()).for_each(|member| self.kill(member));
    }
}

/// Ports below those that the system assigns to clients: no connection takes one before its member
/// listens, nor while it is down.
fn ports(count: usize) -> Vec<u16> {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    // Each process starts at a different port.
    let first = std::process::id() as u16;
    (0..=u16::MAX)
        .map(|_| 20_000 + first.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % 10_000)
        .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .take(count)
        .collect()
}
