//! CPU time that a process has used, user and system together, from `/proc/<pid>/stat`.
//!
//! CPU per operation is the figure that survives a noisy machine: throughput and latency depend on
//! other load, this hardly. The kernel counts in ticks (10 ms as a rule), so a run of a second is
//! accurate to about one percent of a core. On other systems than Linux, and for servers on other
//! machines, it is unavailable.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// CPU time of all threads, past and present, of the process `pid`. `None` if it cannot be seen.
pub fn process_cpu(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(Duration::from_secs_f64(
        ticks(&stat)? as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

/// Returns whether `pid` is visible here and, as far as can be seen, runs `executable`.
///
/// A server reached through a forwarded port may run in a container and report process 1, which is
/// another process here.
pub fn is_server(pid: u32, executable: Option<&str>) -> bool {
    let Ok(name) = fs::read_to_string(format!("/proc/{pid}/comm")) else {
        return false;
    };
    let running = fs::read_link(format!("/proc/{pid}/exe"));
    match (running, executable.map(fs::canonicalize)) {
        (Ok(running), Some(Ok(claimed))) => running == claimed,
        // Another user's process hides its executable; its name, cut to 15 bytes, is public.
        (_, Some(_)) => {
            let claimed = executable
                .and_then(|path| Path::new(path).file_name()?.to_str())
                .unwrap_or_default();
            !name.trim().is_empty() && claimed.starts_with(name.trim())
        }
        (_, None) => pid != 1,
    }
}

/// `utime` plus `stime`: fields 14 and 15 of proc(5), counted from the end of the name, which may
/// contain any character.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// CPU time between two readings, if both could be taken.
pub fn difference(before: Option<Duration>, after: Option<Duration>) -> Option<Duration> {
    after?.checked_sub(before?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_after_any_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 3 0 250 17 5 6 20 0 4 0 1000 0 0";
        assert_eq!(ticks(stat), Some(267));
        assert_eq!(ticks("42 (short) S 1"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn this_process_is_seen() {
        assert!(process_cpu(std::process::id()).is_some());
        assert!(is_server(std::process::id(), std::env::current_exe().unwrap().to_str()));
        assert!(!is_server(std::process::id(), Some("/bin/sh")));
        assert!(process_cpu(u32::MAX).is_none());
    }
}
