//! When and where a benchmark ran: a figure without them is worth nothing.

use time::OffsetDateTime;
use time::macros::format_description;

use crate::results::Machine;

pub fn machine() -> Machine {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Machine {
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        processor_model: model.map(|(_, name)| name.trim().to_owned()),
    }
}

/// UTC to the second, as in ISO 8601.
pub fn now() -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    OffsetDateTime::now_utc().format(format).expect("a format of digits")
}
