//! What the system says of a process.

/// The most memory it had, since it started or since [`forget_peak`].
pub fn peak_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Begins a new measurement of the peak; where that is not allowed, the old one goes on.
pub fn forget_peak(pid: u32) {
    let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// Processor time of a process and of its children that ended.
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().skip(11).take(4).filter_map(|field| field.parse().ok()).collect())
        .unwrap_or_default();
    // The kernel counts in hundredths for everybody who asks.
    fields.iter().sum::<f64>() / 100.0
}

/// A process at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub rss_kib: i64,
    pub descriptors: i64,
    pub threads: i64,
    /// How often its threads went to sleep or were put to sleep: each time something woke them.
    pub switches: i64,
}

/// What the system says of it now.
pub fn sample(pid: u32) -> Sample {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count) as i64;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let statuses = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    Sample {
        rss_kib: number(&status, "VmRSS:"),
        descriptors: count("fd"),
        threads: count("task"),
        switches: statuses.map(|status| number(&status, "voluntary_ctxt_switches:")).sum(),
    }
}

fn number(status: &str, name: &str) -> i64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// For people.
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
