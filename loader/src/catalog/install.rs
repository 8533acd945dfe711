//! Installation of a stream's index in its folder: it is fetched or made, or read from the cache and compared.

use super::cache_folder::{check_home, cost_of_no_cache};
use super::index_origin::IndexOrigin;
use super::session::Session;
use super::stream::{IndexedStream, StreamOrigin};
use super::stream_folders::resolve;
use crate::cache::{
    CachedIndex, FetchedVersions, IndexSource, ShardSet, StreamCacheConfig, WaitPolicy, record_remote, show_progress,
    stale, with_advice_on_remote,
};
use crate::config::StreamConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::format::index::describe_folder;
use crate::format::{HashAlgo, INDEX_BASENAME, Index, Shard};
use crate::store::{Remote, local_folder, redact};
use crate::sync::Arc;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Folders and remotes of a stream's index and shards.
pub(super) struct IndexFolders<'a> {
    /// Name of the remote, with secrets.
    pub(super) name: &'a str,
    /// Folder of the index, and of the shards if they are not read where they are.
    pub(super) folder: PathBuf,
    /// Folder of the shards that are read where they are.
    pub(super) files: Option<PathBuf>,
    /// Remote of the index, and of shards that are not read where they are.
    pub(super) remote: Option<Remote>,
}

impl Session<'_> {
    /// Reads the index of a stream, fetched from `origin` if necessary.
    pub(super) fn install(
        &self,
        stream: &StreamConfig,
        folders: IndexFolders<'_>,
        origin: &dyn IndexOrigin,
    ) -> Result<IndexedStream> {
        let IndexFolders { name, folder, files, remote } = folders;
        if files.is_none() {
            check_home(&folder)?;
        }
        let options = self.config.fetch_of(stream);
        let validate_hash = options.validate_hash.as_ref().map(|name| HashAlgo::parse(name)).transpose()?;
        let mut fetch = || match &remote {
            Some(remote) => fetched(origin, remote, name, &folder),
            None => Err(Error::internal("an index was fetched without a remote")),
        };
        let shown = redact(name);
        // The same folder may have many names.
        let resolved = local_folder(name)
            .map_or_else(|| shown.clone().into_owned(), |folder| resolve(&folder).display().to_string());
        let source = IndexSource {
            dir: &folder,
            remote: &resolved,
            cached: origin.cached(),
            parse: &|bytes| {
                let index = origin.parse(bytes, &shown)?;
                let digest = digest_of(&origin.identity(&index, bytes));
                Ok((index, digest))
            },
            read: &|file| origin.read(file, &shown),
            // The fetch of the whole has the error.
            is_current: &|file| remote.as_ref().is_some_and(|remote| origin.is_current(remote, file).unwrap_or(false)),
            fetch: if remote.is_some() { Some(&mut fetch) } else { None },
            is_optional: files.is_some(),
        };
        let stall_timeout = Duration::from_secs_f64(self.config.engine.stall_timeout);
        let installed = source.install(&self.network.clock, WaitPolicy::new(&|| false, stall_timeout))?;
        let (index, digest) = installed.index;
        let files = folder_of_uncopied(files, &index, &folder)?;
        match &installed.unkept {
            Some(why) if files.is_some() => self.warn_once(cost_of_no_cache(&folder, why)),
            Some(why) => log::warn!("the index is not kept: {why}"),
            None => {}
        }
        let address = remote.as_ref().map(|_| name.to_owned());
        let versions = remote.as_ref().filter(|_| files.is_some()).and_then(Remote::versions).cloned();
        let (remote, has_hashes) = (remote.filter(|_| files.is_none()), index.shards.iter().all(is_hashed));
        if let (Some(_), Some(remote)) = (&installed.previous_remote, &remote) {
            if !has_hashes && !has_same_shard(&index, &folder, remote)? {
                return Err(stale(&folder.join(INDEX_BASENAME), &resolved));
            }
            record_remote(&folder, &resolved);
        }
        let unchecked = |why: &Error| self.stats.note(format!("the cached index of {shown} is used unchecked: {why}"));
        installed.unchecked.iter().for_each(unchecked);
        Ok(IndexedStream {
            name: shown.into_owned(),
            cache: StreamCacheConfig {
                dir: folder,
                files,
                versions,
                fetched: fetched_versions(remote.as_ref(), &resolved),
                shards: Arc::new(ShardSet::new(Arc::new(index))),
                has_remote: remote.is_some(),
                remote: remote.as_ref().filter(|_| !has_hashes).map(|_| resolved),
                keep_zip: options.keep_zip,
                clock: self.network.clock.clone(),
                ..StreamCacheConfig::default()
            },
            address,
            remote,
            index_bytes: installed.bytes,
            origin: StreamOrigin { kind: None, was_kept: installed.was_kept },
            digest,
            version: origin.version(),
            validate_hash,
            download_retry: options.retry,
            selection: None,
        })
    }
}

impl Session<'_> {
    /// Logs `sentence` and keeps it for the reader of the statistics, once for all streams.
    fn warn_once(&self, sentence: String) {
        if self.stats.note_new(&sentence) {
            log::warn!("{sentence}");
        }
    }
}

/// Digest of an index for checkpoints, from the part that is the same for every copy of the data set.
pub(super) fn digest_of(identity: &[u8]) -> String {
    HashAlgo::Xxh3_64.hex(identity)
}

/// Fetches the index that `origin` has in `remote`, which is called `name`, for its path in `folder`.
fn fetched(origin: &dyn IndexOrigin, remote: &Remote, name: &str, folder: &Path) -> Result<Vec<u8>> {
    match origin.fetch(remote, &|| show_progress(folder)) {
        Ok(bytes) => {
            // `local` may be the folder of the files themselves.
            if !local_folder(name).is_some_and(|files| is_same_folder(&files, folder)) {
                origin.remove_outdated(folder, &bytes);
            }
            Ok(bytes)
        }
        Err(e) if e.kind() == ErrorKind::NotFound && origin.cached() == CachedIndex::Compared => {
            Err(local_folder(name).map_or_else(|| with_advice_on_remote(e), |folder| no_index(&folder)))
        }
        Err(e) => Err(e),
    }
}

fn is_same_folder(a: &Path, b: &Path) -> bool {
    matches!((std::fs::canonicalize(a), std::fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// Returns the versions of the objects of `remote`, which is called `name`, if they are compared.
fn fetched_versions(remote: Option<&Remote>, name: &str) -> Option<FetchedVersions> {
    remote?.versions().map(|versions| FetchedVersions::new(name, versions.clone()))
}

/// Returns true if the index has a hash of each file of `shard`.
fn is_hashed(shard: &Shard) -> bool {
    shard.files().all(|pair| pair.stored().hashes.algos().next().is_some())
}

/// Returns the error for a remote folder on this machine that has no index.
pub(super) fn no_index(folder: &Path) -> Error {
    let is_there = |end: &str| {
        let mut name = folder.as_os_str().to_owned();
        name.push(end);
        Path::new(&name).is_file()
    };
    let message = if folder.is_dir() {
        format!("there is no index.json: {}", describe_folder(folder))
    } else if folder.exists() {
        "`remote` names a file of a kind that is not read".to_owned()
    } else if is_there(".bin") != is_there(".idx") {
        let lacking = if is_there(".bin") { ".idx" } else { ".bin" };
        format!("tokens of Megatron are two files of one name, and the {lacking} file is missing")
    } else {
        describe_folder(folder)
    };
    Error::new(ErrorKind::NotFound, message).with("folder", folder.display())
}

/// Returns the folder `files`, if the shards of `index` are read there: shards that are made of its files are
/// not, and need the cache in `folder`.
fn folder_of_uncopied(files: Option<PathBuf>, index: &Index, folder: &Path) -> Result<Option<PathBuf>> {
    let is_there = |shard: &Shard| shard.recipe.as_ref().is_none_or(|recipe| recipe.as_files().is_some());
    if files.is_some() && !index.shards.iter().all(is_there) {
        check_home(folder)?;
        return Ok(None);
    }
    Ok(files)
}

/// Returns true if a shard in `folder`, which belongs to a second remote with the same index, equals the shard of
/// `remote`, or if there is none.
fn has_same_shard(index: &Index, folder: &Path, remote: &Remote) -> Result<bool> {
    let on_disk = index.shards.iter().find_map(|shard| {
        let bytes = std::fs::read(folder.join(&*shard.raw_data.basename)).ok()?;
        (bytes.len() as u64 == shard.raw_data.bytes).then_some((shard, bytes))
    });
    let Some((shard, cached)) = on_disk else { return Ok(true) };
    let stored = shard.zip_data.as_ref().unwrap_or(&shard.raw_data);
    let limit = usize::try_from(stored.bytes).unwrap_or(usize::MAX);
    let mut fetched = remote.get_small(&stored.basename, limit)?.0;
    if let (Some(compression), Some(_)) = (shard.compression, &shard.zip_data) {
        let packed = std::mem::take(&mut fetched);
        compression.decompress(&packed, shard.raw_data.bytes, &mut fetched)?;
    }
    Ok(fetched == cached)
}
