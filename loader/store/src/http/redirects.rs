//! Addresses that a store has redirected to, for stores that count the requests to their own server.

use crate::source::Version;
use forebay_core::sync::{Arc, Mutex};
use http::Uri;
use std::collections::{HashMap, VecDeque};

/// Most keys with a known address. The parts of an object are fetched together, so a few would do.
const KEYS_MAX: usize = 1024;

/// Address of an object on a different server, and its version there, if the redirect named it.
pub(crate) type Target = (Uri, Option<Version>);

/// Address of one object. Locked while it is requested, so that the remaining parts of the object wait for it.
pub(crate) type RedirectTarget = Arc<tokio::sync::Mutex<Option<Target>>>;

/// Addresses by key; the oldest are forgotten.
#[derive(Default)]
pub(crate) struct Redirects(Mutex<Known>);

#[derive(Default)]
struct Known {
    targets: HashMap<String, RedirectTarget>,
    /// Keys of `targets`, oldest first.
    order: VecDeque<String>,
}

impl Redirects {
    /// Returns the address of `key`, which is empty if it is not known.
    pub(super) fn target(&self, key: &str) -> RedirectTarget {
        let mut known = self.0.lock();
        if let Some(target) = known.targets.get(key) {
            return target.clone();
        }
        if known.order.len() == KEYS_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.targets.remove(&oldest);
        }
        known.order.push_back(key.to_owned());
        known.targets.entry(key.to_owned()).or_default().clone()
    }
}
