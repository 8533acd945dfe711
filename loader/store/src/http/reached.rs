//! Servers that a request has reached before.

use super::pool::Origin;
use forebay_core::sync::Mutex;
use std::collections::HashSet;

/// Most servers that are remembered. Addresses of web servers may name any number of hosts.
const SERVERS_MAX: usize = 1024;

/// Servers that have accepted a connection since the stores were opened.
///
/// A failure to reach one of them is a fault that may pass. One that was never reached may not exist, or its address
/// may be wrong.
#[derive(Debug, Default)]
pub(crate) struct ReachedServers(Mutex<HashSet<Origin>>);

impl ReachedServers {
    pub(super) fn insert(&self, server: &Origin) {
        let mut servers = self.0.lock();
        if servers.contains(server) {
            return;
        }
        if servers.len() >= SERVERS_MAX {
            servers.clear();
        }
        servers.insert(server.clone());
    }

    pub(super) fn contains(&self, server: &Origin) -> bool {
        self.0.lock().contains(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_servers_has_a_bound_and_the_last_one_is_known() {
        let reached = ReachedServers::default();
        let server = |number: usize| Origin { tls: true, host: format!("host-{number}"), port: 443 };
        for number in 0..3 * SERVERS_MAX {
            assert!(!reached.contains(&server(number)));
            reached.insert(&server(number));
            assert!(reached.contains(&server(number)));
        }
        assert!(reached.0.lock().len() <= SERVERS_MAX);
    }
}
