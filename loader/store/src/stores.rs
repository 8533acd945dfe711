//! Entry point: opens remotes over one set of fetch threads.

use super::address::redact;
use super::azure::{AzureProtocol, AzureSettings, AzureTarget};
use super::config::StoreConfig;
use super::dbfs::{DbfsProtocol, DbfsSettings, DbfsTarget};
use super::destination::{Destination, FileTarget, ListedEntry, Target};
use super::file::FileSource;
use super::gcs::{EmulatorTarget, GcsProtocol, GcsSettings};
use super::hf::{HfProtocol, HfSettings, HfTarget};
use super::http::{HttpSource, PlainProtocol, Protocol};
use super::key::KeyForm;
use super::library::LibraryFolder;
use super::oci::{OciProtocol, OciSettings, OciTarget};
use super::remote::Remote;
use super::s3::{S3Protocol, S3Settings, S3Target};
use super::source::Source;
use super::threads::FetchThreads;
use super::url::{LibraryRemote, RemoteLocation, no_transport};
use crate::{Error, ErrorKind, Result};
use forebay_core::clock::Clock;
use forebay_core::error::Context as _;
use forebay_core::stats::Stats;
use forebay_core::sync::Arc;

/// Fetch threads and everything they share. Cheap to clone; the threads end when the last clone and the last [`Remote`]
/// are dropped.
#[derive(Clone)]
pub struct Stores {
    threads: Arc<FetchThreads>,
}

impl Stores {
    /// Starts the fetch threads.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a setting out of its bounds,
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when the system rejects a thread,
    /// [`ErrorKind::Full`](crate::ErrorKind::Full) when the process has too many open files.
    pub fn new(config: StoreConfig, stats: &Arc<Stats>, clock: Clock) -> Result<Self> {
        config.validate()?;
        Ok(Self { threads: Arc::new(FetchThreads::start(config, stats, clock)?) })
    }

    /// Opens a remote folder: a path, `file://`, `http(s)://`, a bucket of `s3://`, `gs://`, `azure://`, `azure-dl://`,
    /// `wasbs://` or `oci://`, a data set of `hf://`, a volume of `dbfs:/Volumes`, or a folder of
    /// [`StoreConfig::library`]. Sends no request yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)
    /// for names that cannot work.
    pub fn open(&self, remote: &str) -> Result<Remote> {
        self.open_location(RemoteLocation::parse(remote)?, remote, KeyForm::Path)
    }

    /// Opens `location`, which is called `name` in messages, for keys of a form.
    pub(crate) fn open_location(&self, location: RemoteLocation, name: &str, keys: KeyForm) -> Result<Remote> {
        let source = self.source(location).context("remote", || redact(name))?;
        Ok(Remote::new(self.threads.clone(), source, name, keys))
    }

    /// Lists all objects below the folder `remote`.
    ///
    /// # Errors
    ///
    /// As [`open_destination`](Self::open_destination) and [`Destination::list_all`].
    pub fn files_below(&self, remote: &str) -> Result<Vec<ListedEntry>> {
        self.open_destination(remote)?.list_all("")
    }

    /// Opens a remote folder that objects are written to, listed and removed in: the schemes of [`open`](Self::open)
    /// but for `http(s)://`. On the hub, data sets can only be listed. Sends no request yet.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_destination(&self, remote: &str) -> Result<Destination> {
        self.open_location_to_write(RemoteLocation::parse(remote)?, remote, KeyForm::Path)
    }

    /// Opens `location`, which is called `name` in messages, for keys of a form, like
    /// [`open_destination`](Self::open_destination).
    pub(crate) fn open_location_to_write(
        &self,
        location: RemoteLocation,
        name: &str,
        keys: KeyForm,
    ) -> Result<Destination> {
        let is_root = location.is_root();
        let target = self.target(location).context("destination", || redact(name))?;
        Ok(Destination::new(self.threads.clone(), target, name, (keys, is_root)))
    }

    fn target(&self, location: RemoteLocation) -> Result<Arc<dyn Target>> {
        let queues = &self.threads.queues;
        let config = &queues.context.config;
        let agent = &*config.user_agent;
        Ok(match location {
            RemoteLocation::File(root) => Arc::new(FileTarget::new(root)),
            RemoteLocation::Http(_) => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "web servers have no common way to write, list or remove files: use the store's own scheme, such \
                     as s3://, or a folder",
                ));
            }
            RemoteLocation::S3(bucket) => {
                let settings = config.s3.clone().map_or_else(S3Settings::from_env, Ok)?;
                Arc::new(S3Target::new(S3Protocol::new(queues, settings, bucket)?, agent)?)
            }
            RemoteLocation::Gcs(bucket) => {
                let settings = config.gcs.clone().map_or_else(GcsSettings::from_env, Ok)?;
                let is_emulator = settings.is_emulator();
                let protocol = GcsProtocol::new(settings, bucket)?.for_writing();
                if is_emulator {
                    Arc::new(EmulatorTarget::new(protocol, agent)?)
                } else {
                    Arc::new(S3Target::new(protocol, agent)?)
                }
            }
            RemoteLocation::Azure(container) => {
                let settings = config.azure.clone().map_or_else(AzureSettings::from_env, Ok)?;
                let protocol = AzureProtocol::new(queues, settings, container.of_blobs())?;
                Arc::new(AzureTarget::new(protocol, agent)?)
            }
            RemoteLocation::Hf(repository) => {
                let settings = config.hf.clone().map_or_else(HfSettings::from_env, Ok)?;
                Arc::new(HfTarget::new(HfProtocol::new(settings, repository)?, agent)?)
            }
            RemoteLocation::Oci(bucket) => {
                let settings = config.oci.clone().map_or_else(OciSettings::from_env, Ok)?;
                Arc::new(OciTarget::new(OciProtocol::new(settings, bucket)?, agent)?)
            }
            RemoteLocation::Dbfs(path) => {
                let settings = config.dbfs.clone().map_or_else(DbfsSettings::from_env, Ok)?;
                Arc::new(DbfsTarget::new(DbfsProtocol::new(settings, &path)?, agent)?)
            }
            RemoteLocation::Library(remote) => Arc::new(self.library(remote)?),
        })
    }

    fn source(&self, location: RemoteLocation) -> Result<Arc<dyn Source>> {
        let queues = &self.threads.queues;
        let config = &queues.context.config;
        let protocol: Arc<dyn Protocol> = match location {
            RemoteLocation::File(root) => return Ok(Arc::new(FileSource::new(root))),
            RemoteLocation::Http(base) => Arc::new(PlainProtocol::new(&base)),
            RemoteLocation::S3(bucket) => {
                let settings = config.s3.clone().map_or_else(S3Settings::from_env, Ok)?;
                Arc::new(S3Protocol::new(queues, settings, bucket)?)
            }
            RemoteLocation::Gcs(bucket) => {
                let settings = config.gcs.clone().map_or_else(GcsSettings::from_env, Ok)?;
                Arc::new(GcsProtocol::new(settings, bucket)?)
            }
            RemoteLocation::Azure(container) => {
                let settings = config.azure.clone().map_or_else(AzureSettings::from_env, Ok)?;
                Arc::new(AzureProtocol::new(queues, settings, container)?)
            }
            RemoteLocation::Hf(repository) => {
                let settings = config.hf.clone().map_or_else(HfSettings::from_env, Ok)?;
                Arc::new(HfProtocol::new(settings, repository)?)
            }
            RemoteLocation::Oci(bucket) => {
                let settings = config.oci.clone().map_or_else(OciSettings::from_env, Ok)?;
                Arc::new(OciProtocol::new(settings, bucket)?)
            }
            RemoteLocation::Dbfs(path) => {
                let settings = config.dbfs.clone().map_or_else(DbfsSettings::from_env, Ok)?;
                Arc::new(DbfsProtocol::new(settings, &path)?)
            }
            RemoteLocation::Library(remote) => return Ok(Arc::new(self.library(remote)?)),
        };
        Ok(Arc::new(HttpSource::new(protocol, &config.user_agent)?))
    }

    fn library(&self, LibraryRemote(remote): LibraryRemote) -> Result<LibraryFolder> {
        match &self.threads.queues.context.config.library {
            Some(library) => Ok(LibraryFolder::new(library.clone(), remote)),
            None => Err(no_transport(&remote)),
        }
    }

    /// Ends the fetch threads now; queued and running fetches fail with
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    pub fn close(&self) {
        self.threads.close();
    }
}
