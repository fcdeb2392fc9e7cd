//! What a running process takes, memory and processor time, and what memory is left, from `/proc`.

use std::fs::File;
use std::io::Write;

/// Memory that `pid` allocated and has touched, in bytes: pages of its program and of files are nobody's, and differ by
/// machine.
pub fn allocated_bytes(pid: u32) -> u64 {
    let status = format!("/proc/{pid}/status");
    ["RssAnon:", "RssShmem:", "VmSwap:"].iter().filter_map(|name| bytes_of(&status, name)).sum()
}

/// Processor time of all threads of `pid` so far, in ticks of a hundredth of a second.
pub fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the name in brackets, which may hold blanks; user and system time are fields 14 and 15.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Memory of `pid`, in bytes: its own and its program's.
pub fn resident_bytes(pid: u32) -> u64 {
    bytes_of(&format!("/proc/{pid}/status"), "VmRSS:").unwrap_or(0)
}

/// The most memory that `pid` ever had.
pub fn most_resident_bytes(pid: u32) -> u64 {
    bytes_of(&format!("/proc/{pid}/status"), "VmHWM:").unwrap_or(0)
}

/// Memory of the machine that nothing uses, in bytes.
pub fn free_bytes() -> Option<u64> {
    bytes_of("/proc/meminfo", "MemFree:")
}

/// The line of a file that begins with `name` and goes on with a size in KiB.
fn bytes_of(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let size = text.lines().find_map(|line| line.strip_prefix(name))?;
    size.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// As long as the file is open, no processor sleeps: that would cost whoever waits more than what is measured.
///
/// # Errors
/// If the kernel cannot be asked, or this is not root.
pub fn keep_awake() -> std::io::Result<File> {
    let mut file = File::options().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&0_i32.to_ne_bytes())?;
    Ok(file)
}
