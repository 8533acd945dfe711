//! The loaders of this process that `forebay top` shows.

use crate::stats::{Labelled, Snapshot, Stats};
use crate::sync::{Arc, Mutex, Weak};
use serde_json::{Value, json};

/// A loader that is watched.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Its figures.
    pub(crate) stats: Arc<Stats>,
    /// Rank of its process, and the number of ranks.
    pub(crate) rank: (u32, u32),
    /// Rows of a batch.
    pub(crate) batch_size: u32,
    /// The first stream, without secrets.
    pub(crate) source: String,
}

/// Loaders of this process, in the order of their creation.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Vec<Weak<Watched>>>);

impl Registry {
    pub(super) fn add(&self, watched: &Arc<Watched>) {
        let mut loaders = self.0.lock();
        loaders.retain(|loader| loader.strong_count() > 0);
        loaders.push(Arc::downgrade(watched));
    }

    fn loaders(&self) -> Vec<Arc<Watched>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Rank, number in the process and figures of each loader.
    pub(super) fn ranked_figures(&self) -> Vec<(u32, usize, Snapshot)> {
        let loaders = self.loaders();
        loaders.iter().enumerate().map(|(number, loader)| (loader.rank.0, number, loader.stats.snapshot())).collect()
    }

    /// Figures of each loader, with its labels. A process has one loader for training, and may have more.
    pub(super) fn figures(&self) -> Vec<Labelled> {
        let labelled = |(rank, number, figures)| (format!("rank=\"{rank}\",loader=\"{number}\""), figures);
        self.ranked_figures().into_iter().map(labelled).collect()
    }

    /// Figures of each loader as JSON.
    pub(super) fn json(&self) -> Value {
        let loader = |loader: &Arc<Watched>| {
            let mut figures = loader.stats.snapshot().observed(loader.batch_size);
            figures["rank"] = loader.rank.0.into();
            figures["world_size"] = loader.rank.1.into();
            figures["source"] = loader.source.as_str().into();
            figures
        };
        let loaders: Vec<_> = self.loaders().iter().map(loader).collect();
        json!({"version": env!("CARGO_PKG_VERSION"), "pid": std::process::id(), "loaders": loaders})
    }
}
