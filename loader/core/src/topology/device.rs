//! NUMA node of a PCI device.

use std::path::Path;

/// The NUMA node number of the device at `bus_id` ("0000:3b:00.0"), by sysfs under `root`; `None` if the machine
/// has one node or does not report it (the file then contains -1).
pub(super) fn node_number(root: &Path, bus_id: &str) -> Option<u32> {
    let id = bus_id.trim().to_ascii_lowercase();
    // The identifier becomes part of a path, so only its valid characters are accepted.
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.') || id.contains("..") {
        return None;
    }
    // CUDA writes the domain with eight digits ("00000000:3B:00.0"), sysfs with four.
    let id = match id.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 => format!("{}:{rest}", &domain[4..]),
        _ => id,
    };
    let text = std::fs::read_to_string(root.join("sys/bus/pci/devices").join(id).join("numa_node")).ok()?;
    text.trim().parse::<u32>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_every_form_of_its_address() {
        let root = tempfile::tempdir().unwrap();
        let device = root.path().join("sys/bus/pci/devices/0000:3b:00.0");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("numa_node"), "1\n").unwrap();
        assert_eq!(node_number(root.path(), "0000:3b:00.0"), Some(1));
        assert_eq!(node_number(root.path(), "00000000:3B:00.0"), Some(1));
        assert_eq!(node_number(root.path(), "0000:3c:00.0"), None);
        assert_eq!(node_number(root.path(), "../../../etc"), None);
        std::fs::write(device.join("numa_node"), "-1\n").unwrap();
        assert_eq!(node_number(root.path(), "0000:3b:00.0"), None);
    }
}
