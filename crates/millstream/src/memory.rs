//! How much memory this machine gives a process.

/// Four fifths of the memory of this machine or of this process' container, bytes; 0, for no limit, where the system does not say.
pub fn default_limit() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_meminfo(&text));
    let container = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(container).min().map_or(0, |bytes: u64| bytes / 5 * 4)
}

fn of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_machine_is_found() {
        assert_eq!(of_meminfo("MemTotal:       24566128 kB\nMemFree: 1 kB\n"), Some(24_566_128 << 10));
        assert_eq!(of_meminfo("MemFree: 1 kB\n"), None);
    }
}
