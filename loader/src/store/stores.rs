//! The owner of the fetch threads.

use super::config::StoreConfig;
use super::file::FileSource;
use super::http::{HttpSource, Plain};
use super::remote::Remote;
use super::s3::{S3, S3Settings};
use super::source::Source;
use super::thread::{self, Shared};
use super::url::Place;
use crate::clock::Clock;
use crate::error::Context as _;
use crate::stats::Stats;
use crate::sync::{Arc, JoinHandle, Mutex, current, spawn};
use crate::{Error, ErrorKind, Result};

/// The fetch threads and everything they share. Cheap to clone; when the last clone and the last [`Remote`] are gone,
/// the threads end.
#[derive(Clone)]
pub struct Stores {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Stores {
    /// Starts the fetch threads.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for a setting out of its bounds, [`ErrorKind::Io`] when the system refuses a thread.
    pub fn new(config: StoreConfig, stats: &Arc<Stats>, clock: Clock) -> Result<Self> {
        config.validate()?;
        let threads = config.fetch_threads;
        let shared = Arc::new(Shared::new(config, clock, stats.clone()));
        let inner = Arc::new(Inner { shared: shared.clone(), threads: Mutex::default() });
        for index in 0..threads {
            let shared = shared.clone();
            let handle = spawn(format!("fb-fetch-{index}"), move || thread::run(shared, index))
                .map_err(|e| Error::new(ErrorKind::Io, "cannot start a fetch thread").caused_by(e))?;
            inner.threads.lock().push(handle);
        }
        Ok(Self { inner })
    }

    /// Opens a remote folder: a path, `file://`, `http(s)://` or `s3://`. Nothing is asked of it yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] and [`ErrorKind::Unsupported`] for names that cannot work.
    pub fn open(&self, remote: &str) -> Result<Remote> {
        let config = &self.inner.shared.config;
        let source: Arc<dyn Source> = match Place::parse(remote)? {
            Place::File(root) => Arc::new(FileSource::new(root)),
            Place::Http(base) => Arc::new(HttpSource::new(Arc::new(Plain::new(&base)), &config.user_agent)?),
            Place::S3 { bucket, prefix } => {
                let settings = config.s3.clone().map_or_else(S3Settings::from_env, Ok)?;
                let s3 = S3::new(&self.inner.shared, settings, bucket, &prefix).context("remote", || remote)?;
                Arc::new(HttpSource::new(Arc::new(s3), &config.user_agent)?)
            }
        };
        Ok(Remote::new(self.inner.clone(), source, remote))
    }

    /// Ends the fetch threads now; fetches that wait or run fail with [`ErrorKind::Closed`].
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
    fn close(&self) {
        self.shared.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // The last remote may go in a callback on a fetch thread, which cannot wait for itself.
            if thread.thread().id() != current().id() && thread.join().is_err() {
                log::error!("a fetch thread panicked");
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}
