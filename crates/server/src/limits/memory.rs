//! The process' share of the machine's memory, and the measurement of its use.
//!
//! The kernel kills a process that takes more than its control group or the machine has. Before
//! that the layers refuse to grow, or evict (`quartet_engine::Memory`). Unless the operator sets a
//! budget it is four fifths of the available memory: as the figures are accurate to an eighth, nine
//! tenths are never exceeded.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quartet_engine::Engine;
use tokio::sync::watch;

use crate::process::system;

/// Interval of measurements of resident memory.
const MEASURED_EVERY: Duration = Duration::from_millis(50);
/// Shortest time between two purges after measurements.
const PURGED_EVERY: Duration = Duration::from_millis(500);
/// As much is purged at once.
const PURGED_FROM: u64 = 32 << 20;
/// Shortest time between two purges while the process exceeds its budget, for any amount above
/// [`PURGED_LATER_FROM`].
const PURGED_WHEN_OVER_EVERY: Duration = Duration::from_millis(100);
/// A smaller amount remains with the allocator.
const PURGED_LATER_FROM: u64 = 4 << 20;
/// A thread answers requests for a purge at most as often as this, from any caller.
const PURGED_BY_A_THREAD_EVERY: Duration = Duration::from_millis(500);
/// Less than [`PURGED_FROM`] is purged after this time, and more once again: connections give their
/// buffers back only after a silence of seconds. Each further purge waits twice as long.
const PURGED_LATER: Duration = Duration::from_secs(4);
/// The longest of these times: on a busy machine a thread or a connection may be late.
const PURGED_LATER_MAX: Duration = Duration::from_secs(32);

/// The process' memory budget, and the source of that figure.
#[derive(Clone, Copy)]
pub struct Budget {
    pub bytes: Option<u64>,
    pub source: &'static str,
}

/// The shares of the ssd engine's parts in the budget, in bytes. With the rest for the program, for
/// epochs on their way to the log (a 64th each) and for clients, all of it fits at any budget from
/// that of a control group of 128 MiB up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    pub cache_bytes: u64,
    pub unflushed_bytes: u64,
}

/// The program's own memory: code, stacks, interpreters.
const PROGRAM_BYTES: u64 = 56 << 20;
/// The system has the rest of a large machine's memory for pages of files, which serve nearly as
/// well.
const USUAL_CACHE_BYTES_MAX: u64 = 1 << 30;
const UNLIMITED_CACHE_BYTES: u64 = 256 << 20;
/// The part of the budget that is for bytes of peers whether or not the rows take all: reading
/// continues.
const GRANTED_SHARE: u64 = 32;
/// More does not make a flush cheaper by much, and takes long to be written.
const UNFLUSHED_BYTES_MAX: u64 = 1 << 30;

impl Budget {
    /// Returns the operator's figure, or else the figure derived from the system.
    pub fn new(configured: Option<u64>) -> Budget {
        let (bytes, source) = match configured {
            Some(0) => (None, "none"),
            Some(bytes) => (Some(bytes), "memory-bytes"),
            None => match available(Path::new("/")) {
                Some((bytes, source)) => (Some(bytes / 5 * 4), source),
                None => (None, "none"),
            },
        };
        tracing::info!(bytes = bytes.unwrap_or(0), source, "budget of memory");
        Budget { bytes, source }
    }

    /// How large an epoch may grow before it is closed, in each of this number of partitions:
    /// several wait in memory for the log.
    pub fn epoch_bytes_max(self, usual: usize, partitions: usize) -> usize {
        let share = self.bytes.map_or(usize::MAX, |bytes| (bytes / 64) as usize);
        usual.min(share / partitions)
    }

    /// The ssd engine's division of the budget. `cache_given`: the operator's size for the read
    /// cache.
    pub fn shares(self, cache_given: Option<u64>) -> Shares {
        let Some(bytes) = self.bytes else {
            return Shares {
                cache_bytes: cache_given.unwrap_or(UNLIMITED_CACHE_BYTES),
                unflushed_bytes: UNFLUSHED_BYTES_MAX,
            };
        };
        let available = bytes.saturating_sub(PROGRAM_BYTES).max(bytes / 4);
        let unflushed_bytes = (bytes / 4).min(available / 5 * 2).min(UNFLUSHED_BYTES_MAX);
        let cache_bytes_max = (available - unflushed_bytes) / 3 * 2;
        let usual = (available / 4).min(USUAL_CACHE_BYTES_MAX);
        if let Some(configured) = cache_given
            && configured > cache_bytes_max
        {
            tracing::warn!(
                configured,
                kept = cache_bytes_max,
                "so large a cache leaves too little of the budget of memory"
            );
        }
        Shares {
            cache_bytes: cache_given.map_or(usual, |configured| configured.min(cache_bytes_max)),
            unflushed_bytes,
        }
    }

    pub fn apply(self, engine: &Engine) {
        let memory = engine.memory();
        memory.set_budget(self.bytes);
        let granted_share = if engine.is_all_in_memory() { GRANTED_SHARE } else { 8 };
        memory.grant_reserved(self.bytes.map_or(0, |bytes| bytes / granted_share));
        memory.measured(system::anonymous_bytes());
    }
}

/// Returns the memory available to the process: the least of its control groups' limits and the
/// machine's memory, and which that was.
fn available(root: &Path) -> Option<(u64, &'static str)> {
    let machine = system::machine_bytes_in(root).map(|bytes| (bytes, "machine"));
    let group = group_limit(root).map(|bytes| (bytes, "control-group"));
    machine.into_iter().chain(group).min_by_key(|(bytes, _)| *bytes)
}

/// The least limit of the process's control group and those above it, of either version.
fn group_limit(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let groups = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (mount, files): (&str, &[&str]) = match controllers {
            "" => ("sys/fs/cgroup", &["memory.max", "memory.high"]),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", &["memory.limit_in_bytes"])
            }
            _ => return None,
        };
        least_limit(&root.join(mount), path, files)
    });
    groups.min()
}

/// The least limit in `files` of the group at `path` and the groups above it, up to the mount. In a
/// container the path may be the host's and lead nowhere; then the mount is the group itself.
fn least_limit(mount: &Path, path: &str, files: &[&str]) -> Option<u64> {
    let group: PathBuf = mount.join(path.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|group| group.starts_with(mount));
    let limits = groups.flat_map(|group| files.iter().filter_map(|file| read_limit(&group.join(file))));
    limits.min()
}

/// Both "max" and numbers beyond any machine mean that there is no limit.
fn read_limit(path: &Path) -> Option<u64> {
    let bytes = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    (bytes < 1 << 60).then_some(bytes)
}

/// Measures until the server stops, and requests a purge when the allocator keeps much.
pub async fn watch(engine: Arc<Engine>, purge: fn(), purges: watch::Sender<()>, mut stop: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(MEASURED_EVERY);
    let mut kept = Kept::new(Instant::now());
    while !*stop.borrow() {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stop.changed() => continue,
        }
        let memory = engine.memory();
        let resident = system::anonymous_bytes();
        let is_over = memory.budget().is_some_and(|budget| resident > budget);
        let uncounted = resident.saturating_sub(memory.counted_bytes());
        if kept.is_purged(uncounted, is_over, Instant::now()) {
            // Each thread keeps its own, and gives it back itself.
            purge();
            purges.send_replace(());
        }
        memory.measured(system::anonymous_bytes());
    }
}

/// Estimates the allocator's unused memory by the resident bytes that nothing counts.
struct Kept {
    purged: Instant,
    /// Uncounted bytes that a purge has left: they are in use, or cannot be given back.
    retained: u64,
    /// The next measurement shows what a purge has left.
    is_asked: bool,
    /// The time of the next purge, and the wait before it.
    later: Option<Instant>,
    wait: Duration,
}

impl Kept {
    fn new(now: Instant) -> Kept {
        Kept {
            purged: now,
            retained: 0,
            is_asked: false,
            later: None,
            wait: PURGED_LATER,
        }
    }

    /// Takes a measurement, and returns whether it is time for a purge. `is_over`: the process
    /// exceeds its budget.
    fn is_purged(&mut self, uncounted: u64, is_over: bool, now: Instant) -> bool {
        if std::mem::take(&mut self.is_asked) {
            self.retained = uncounted;
        }
        let more = uncounted.saturating_sub(self.retained);
        let (from, every) = match is_over {
            true => (PURGED_LATER_FROM, PURGED_WHEN_OVER_EVERY),
            false => (PURGED_FROM, PURGED_EVERY),
        };
        let is_much = more > from && now.duration_since(self.purged) >= every;
        let soon = now + PURGED_LATER;
        if is_much || more > PURGED_LATER_FROM && self.later.is_none_or(|later| later > soon) {
            (self.later, self.wait) = (Some(soon), PURGED_LATER);
        }
        let is_later = self.later.is_some_and(|later| later <= now);
        if is_later {
            self.wait *= 2;
            self.later = (self.wait <= PURGED_LATER_MAX).then(|| now + self.wait);
        }
        self.retained = self.retained.min(uncounted);
        let is_purged = is_much || is_later;
        if is_purged {
            (self.purged, self.is_asked) = (now, true);
        }
        is_purged
    }
}

/// Gives back what the allocator and the interpreter of scripts keep for this thread, at a
/// request (MEMORY PURGE, SCRIPT FLUSH, a measurement), though not repeatedly.
pub async fn purge_when_asked(purge: fn(), mut purges: watch::Receiver<()>) {
    while purges.changed().await.is_ok() {
        quartet_layer_redis::drop_interpreter();
        purge();
        tokio::time::sleep(PURGED_BY_A_THREAD_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[tokio::test(start_paused = true)]
    async fn a_request_for_memory_reaches_all_threads_and_ends() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static PURGES: AtomicUsize = AtomicUsize::new(0);
        let purges = watch::Sender::new(());
        for _ in 0..2 {
            let purge = || {
                PURGES.fetch_add(1, Ordering::Relaxed);
            };
            drop(tokio::spawn(purge_when_asked(purge, purges.subscribe())));
        }
        for _ in 0..5 {
            purges.send_replace(());
            tokio::time::sleep(PURGED_BY_A_THREAD_EVERY / 100).await;
        }
        assert_eq!(PURGES.load(Ordering::Relaxed), 2, "each thread at once");
        tokio::time::sleep(PURGED_BY_A_THREAD_EVERY * 5).await;
        assert_eq!(
            PURGES.load(Ordering::Relaxed),
            4,
            "and each once for all that was asked meanwhile"
        );
    }

    /// One client's requests, each on another thread, left 150 MB of freed blocks in pieces of less
    /// than 32 MB: a server of eight threads in a control group of 256 MiB had 259 MiB while 61 MB
    /// were counted.
    #[test]
    fn less_is_purged_while_the_process_exceeds_its_budget() {
        const MIB: u64 = 1 << 20;
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut kept = Kept::new(start);
        assert!(kept.is_purged(100 * MIB, false, at(1000)));
        assert!(!kept.is_purged(60 * MIB, false, at(1050)), "that much is in use");
        assert!(!kept.is_purged(80 * MIB, false, at(2000)));
        assert!(kept.is_purged(80 * MIB, true, at(2050)));
        assert!(!kept.is_purged(80 * MIB, true, at(2100)), "it could not be given back");
        assert!(!kept.is_purged(83 * MIB, true, at(2300)));
        assert!(kept.is_purged(85 * MIB, true, at(2350)));
        assert!(!kept.is_purged(62 * MIB, true, at(2400)));
        assert!(!kept.is_purged(90 * MIB, true, at(2449)), "not again and again");
        assert!(kept.is_purged(90 * MIB, true, at(2450)));
    }

    /// On a busy machine a connection gave its buffer back after the last purge, and the allocator
    /// had it for good.
    #[test]
    fn what_is_freed_after_a_purge_is_given_back_by_a_later_purge() {
        const MIB: u64 = 1 << 20;
        let start = Instant::now();
        let mut kept = Kept::new(start);
        let mut purged_at = Vec::new();
        for tick in 20..4_000 {
            let now = start + tick * MEASURED_EVERY;
            if kept.is_purged(12 * MIB, false, now) {
                purged_at.push((now - start).as_secs());
            }
        }
        assert_eq!(purged_at, [5, 13, 29, 61], "and it ends");
        let at = start + 4_000 * MEASURED_EVERY;
        assert!(!kept.is_purged(20 * MIB, false, at));
        assert!(kept.is_purged(20 * MIB, false, at + PURGED_LATER));
    }

    /// A file system with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn check(files: &[(&str, &str)], expected: Option<(u64, &'static str)>) {
        assert_eq!(available(root(files).path()), expected, "{files:?}");
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");

    #[test]
    fn the_least_limit_counts() {
        check(&[], None);
        check(&[MACHINE], Some((8 * GIB, "machine")));
        let v2 = ("proc/self/cgroup", "0::/system.slice/quartet.service\n");
        let max = |limit| ("sys/fs/cgroup/system.slice/quartet.service/memory.max", limit);
        check(&[MACHINE, v2, max("max\n")], Some((8 * GIB, "machine")));
        check(&[MACHINE, v2, max("2147483648\n")], Some((2 * GIB, "control-group")));
        check(&[MACHINE, v2, max("99999999999\n")], Some((8 * GIB, "machine")));
        let above = ("sys/fs/cgroup/system.slice/memory.high", "1073741824\n");
        check(&[MACHINE, v2, max("2147483648\n"), above], Some((GIB, "control-group")));
    }

    fn shares(bytes: Option<u64>, cache: Option<u64>) -> (u64, u64) {
        let budget = Budget { bytes, source: "none" };
        let Shares {
            cache_bytes,
            unflushed_bytes,
        } = budget.shares(cache);
        (cache_bytes >> 20, unflushed_bytes >> 20)
    }

    #[test]
    fn the_shares_of_the_ssd_engine_fit_the_budget() {
        const MIB: u64 = 1 << 20;
        assert_eq!(shares(None, None), (256, 1024));
        assert_eq!(shares(None, Some(7 * MIB)), (7, 1024));
        assert_eq!(shares(Some(102 * MIB), None), (11, 18));
        assert_eq!(shares(Some(410 * MIB), None), (88, 102));
        assert_eq!(shares(Some(410 * MIB), Some(256 * MIB)), (167, 102));
        assert_eq!(shares(Some(16 * GIB), None), (1024, 1024));
        assert_eq!(shares(Some(16 * GIB), Some(8 * GIB)), (8192, 1024));
        for mebibytes in 102..2000 {
            let (cache, unflushed) = shares(Some(mebibytes * MIB), None);
            let (epochs, clients) = (6 * mebibytes / 64, mebibytes / 8);
            assert!(
                cache + unflushed + epochs + clients + (PROGRAM_BYTES >> 20) <= mebibytes * 9 / 8,
                "{mebibytes}"
            );
        }
    }

    #[test]
    fn containers_and_the_first_version_are_understood() {
        let outside = ("proc/self/cgroup", "0::/docker/0123abcd\n");
        let inside = ("sys/fs/cgroup/memory.max", "1073741824\n");
        check(&[MACHINE, outside, inside], Some((GIB, "control-group")));
        let v1 = (
            "proc/self/cgroup",
            "12:cpu,cpuacct:/x\n4:memory:/docker/0123\n1:name=systemd:/x\n",
        );
        let limit = |limit| ("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", limit);
        check(&[MACHINE, v1, limit("1073741824\n")], Some((GIB, "control-group")));
        check(
            &[MACHINE, v1, limit("9223372036854771712\n")],
            Some((8 * GIB, "machine")),
        );
        let host = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
        check(&[MACHINE, v1, host], Some((GIB, "control-group")));
    }
}
