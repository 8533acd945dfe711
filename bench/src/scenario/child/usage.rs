//! Memory of a process and its descendants, from `/proc`.

use std::collections::HashMap;
use std::fs;

/// Returns `root` and its live descendants.
pub(super) fn tree(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut tree = vec![root];
    let mut next = 0;
    while next < tree.len() {
        tree.extend(children.remove(&tree[next]).into_iter().flatten());
        next += 1;
    }
    tree
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain any character, so the fields start after the last closing parenthesis.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the proportional set size of the process tree of `root`: shared pages count once. Where the kernel does not
/// report it, the resident set size, in which shared pages count in every process.
pub(super) fn memory_bytes(root: u32) -> u64 {
    tree(root).into_iter().map(|pid| pss_bytes(pid).or_else(|| rss_bytes(pid)).unwrap_or(0)).sum()
}

fn pss_bytes(pid: u32) -> Option<u64> {
    kib_after(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss:")
}

fn rss_bytes(pid: u32) -> Option<u64> {
    kib_after(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

fn kib_after(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|l| l.strip_prefix(key))?;
    Some(value.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_memory_of_a_child_counts_for_its_parent() {
        let me = std::process::id();
        // `cat` runs until its input is closed.
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
        assert!(tree(me).contains(&child.id()));
        assert!(memory_bytes(me) > memory_bytes(child.id()));
        drop(child.stdin.take());
        child.wait().expect("cat ends");
        assert!(!tree(me).contains(&child.id()));
    }
}
