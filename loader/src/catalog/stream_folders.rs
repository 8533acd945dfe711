//! Names of streams, and the folders of their indexes and shards on local disk.

use super::cache_folder::default_local;
use crate::config::StreamConfig;
use crate::error::{Error, Result};
use crate::store::{is_url, local_folder, redact};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// Returns `stream` with absolute paths: the working directory may change while the loader lives, and the default cache
/// folder follows from the name of the remote.
pub(super) fn absolute(stream: &StreamConfig) -> StreamConfig {
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let mut stream = stream.clone();
    stream.local = stream.local.map(absolute);
    stream.remote = stream.remote.map(absolute_address);
    stream
}

/// Returns `address` with its absolute path, if it is a path.
pub(super) fn absolute_address(address: String) -> String {
    let path = if is_url(&address) { None } else { local_folder(&address) };
    let absolute = path.and_then(|path| std::path::absolute(&path).unwrap_or(path).into_os_string().into_string().ok());
    absolute.unwrap_or(address)
}

/// Rejects streams if one would take a second one's shards for its own: both in one folder, at least one of them
/// with a remote. Folders that follow from the remotes differ if the remotes do.
pub(super) fn check_folders(streams: &[StreamConfig]) -> Result<()> {
    let mut known: HashMap<PathBuf, usize> = HashMap::new();
    for (number, stream) in streams.iter().enumerate().filter(|(_, stream)| stream.local.is_some()) {
        let folder = resolve(&cache_folder(stream, ""));
        let Some(other) = known.insert(folder.clone(), number) else { continue };
        if stream.remote.is_none() && streams[other].remote.is_none() {
            continue;
        }
        let name =
            |number: usize| format!("{number} ({})", redact(streams[number].remote.as_deref().unwrap_or("local")));
        let message = "two streams have one `local` folder, so the shards of one would be taken for shards of the \
                       second one: give each stream its own";
        return Err(Error::config(message)
            .with("folder", folder.display())
            .with("stream", name(other))
            .with("stream", name(number)));
    }
    Ok(())
}

/// Returns `path` without symbolic links and `..`. The part that does not exist has no links.
pub(super) fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = path.ancestors().find_map(|folder| Some((folder, std::fs::canonicalize(folder).ok()?)));
    let Some((folder, mut resolved)) = found else { return path };
    for part in path.strip_prefix(folder).unwrap_or(&path).components() {
        match part {
            Component::ParentDir => drop(resolved.pop()),
            part => resolved.push(part),
        }
    }
    resolved
}

/// Returns the name of the folder that `stream` names, with its split.
pub(super) fn name_of(stream: &StreamConfig) -> String {
    let split = stream.split.as_deref().unwrap_or("");
    match &stream.remote {
        Some(remote) => join(remote, split),
        None => join(&stream.local.as_deref().unwrap_or(Path::new("")).display().to_string(), split),
    }
}

/// Returns the folder for the index and shards of `stream`, which has a remote that is called `name` with its split.
pub(super) fn cache_folder(stream: &StreamConfig, name: &str) -> PathBuf {
    let root = stream.local.clone().unwrap_or_else(|| default_local(name));
    root.join(stream.split.as_deref().unwrap_or("").trim_matches('/'))
}

/// Joins `root` and `split` to one URL or path, without trailing or repeated slashes.
fn join(root: &str, split: &str) -> String {
    let (folder, split) = (root.trim_end_matches('/'), split.trim_matches('/'));
    match (split.is_empty(), folder.is_empty() || folder.ends_with(':')) {
        // The root of a file system, or an empty path.
        (true, true) => root.to_owned(),
        (true, false) => folder.to_owned(),
        (false, _) if root.is_empty() => split.to_owned(),
        (false, _) => format!("{folder}/{split}"),
    }
}
