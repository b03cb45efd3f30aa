//! Available memory, and limits of the allocator.

use std::fs;
use std::path::{Path, PathBuf};

/// Memory of the machine in bytes, or the limit of the control group if that is lower. `None`: neither is readable.
pub fn available_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(|line| limit_of_group(line, Path::new("/sys/fs/cgroup")));
    limits.chain(machine_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default())).min()
}

/// Makes the allocator keep little of freed memory; to be called once at the start.
pub fn limit_free_heap() {
    crate::sys::limit_free_heap();
}

/// Returns freed memory to the system (malloc_trim(3)). The allocator is locked meanwhile.
pub fn release_unused() {
    crate::sys::trim_heap();
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Lowest limit from a control group up to the root, for a line of /proc/self/cgroup (cgroups(7)).
fn limit_of_group(line: &str, root: &Path) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (root, file) = match controllers {
        "" => (root.to_path_buf(), "memory.max"),
        names if names.split(',').any(|name| name == "memory") => {
            (root.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let group: PathBuf = root.join(path.trim_start_matches('/'));
    let folders = group.ancestors().take_while(|folder| folder.starts_with(&root));
    folders.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_up_to_the_root_applies() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("a/b");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(limit_of_group("0::/a/b", root.path()), None);
        fs::write(root.path().join("a/memory.max"), "1073741824\n").unwrap();
        assert_eq!(limit_of_group("0::/a/b", root.path()), Some(1 << 30));
        let old = root.path().join("memory/c");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("memory.limit_in_bytes"), "4096\n").unwrap();
        assert_eq!(limit_of_group("7:cpu,memory:/c", root.path()), Some(4096));
        assert_eq!(limit_of_group("7:cpu:/c", root.path()), None);
    }

    #[test]
    fn the_machine_has_memory() {
        assert_eq!(machine_bytes("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16_384));
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
