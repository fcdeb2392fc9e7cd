//! What a running process takes: memory and processor time, from `/proc`.

/// Processor time of all threads of `pid` so far, in ticks of a hundredth of a second.
pub fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the name in brackets, which may hold blanks; user and system time are fields 14 and 15.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Memory of `pid` that is its own or of mapped files, in bytes.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) << 10
}
