//! The operating system's figures about this process.

use std::io::Read;
use std::path::Path;

use quartet_layer_redis::Resources;
use quartet_model::hexadecimal;

/// Hexadecimal digits from the system's randomness.
pub fn random_hexadecimal(digits: usize) -> String {
    let mut bytes = vec![0; digits.div_ceil(2)];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .expect("the system's source of randomness");
    let mut text = hexadecimal(&bytes);
    text.truncate(digits);
    text
}

/// Fills a buffer from the system's randomness.
pub fn fill_random(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
            .expect("the system's source of randomness");
    }
}

/// A random number, which serves as an identifier.
pub fn random() -> u128 {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    u128::from_le_bytes(bytes)
}

/// The path of the running program; empty where the system does not say.
pub fn executable() -> String {
    std::env::current_exe().map_or(String::new(), |path| path.display().to_string())
}

/// Returns the resources that INFO shows of this process.
pub fn used() -> Resources {
    let (cpu_user_micros, cpu_system_micros) = cpu_micros();
    let rss_bytes = resident_bytes();
    Resources {
        rss_bytes,
        machine_bytes: machine_bytes_in(Path::new("/")).unwrap_or(0),
        budget_source: "none",
        cpu_system_micros,
        cpu_user_micros,
    }
}

/// The machine's memory, below `root`, which is `/` except in tests.
pub fn machine_bytes_in(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Resident memory in bytes; zero where the system does not say.
pub fn resident_bytes() -> u64 {
    let [resident, _] = resident_and_of_files();
    resident
}

/// The same without pages of files, which the kernel reclaims by itself.
pub fn anonymous_bytes() -> u64 {
    let [resident, file_bytes] = resident_and_of_files();
    resident.saturating_sub(file_bytes)
}

fn resident_and_of_files() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split(' ').skip(1).map(|pages| pages.parse::<u64>().unwrap_or(0));
    [(); 2].map(|()| pages.next().unwrap_or(0) * rustix::param::page_size() as u64)
}

/// User and system CPU time of this process, in microseconds.
pub fn cpu_micros() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold blanks; the figures follow it.
    let figures = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = |index: usize| {
        figures
            .split_whitespace()
            .nth(index)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0u64)
    };
    let micros = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    (ticks(11) * micros, ticks(12) * micros)
}
