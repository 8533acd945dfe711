//! File of a run, which `Loader.save_run` writes: the arguments of its loader, its position, and hashes of its data.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forebay_loader::delivery::HostDelivery;
use forebay_loader::format::Compression;
use forebay_loader::state::LoaderState;
use forebay_loader::store::LibraryStores;
use forebay_loader::sync::{Arc, OnceLock};
use forebay_loader::{Error, Loader, LoaderConfig, Result};
use serde_json::{Value as Json, json};
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Options that need a device, without which the pixels are the same or nearly so.
const ON_DEVICES: [&str; 3] = ["device_decode", "share_decode", "gpu_direct_storage"];

/// Start of a packed tokenizer in the file.
const PACKED: &str = "zlib,base64:";

/// Largest tokenizer that is unpacked.
const TOKENIZER_BYTES_MAX: u64 = 1 << 30;

/// Argument that names the file of a run, which is read once.
#[derive(Clone, Debug)]
pub(crate) struct RunArg {
    pub(crate) path: PathBuf,
    read: OnceLock<RunFile>,
}

impl From<OsString> for RunArg {
    fn from(path: OsString) -> Self {
        Self { path: path.into(), read: OnceLock::new() }
    }
}

impl RunArg {
    /// Returns the run, with the same `remotes` in each call.
    ///
    /// # Errors
    ///
    /// As [`RunFile::read`].
    pub(crate) fn run(&self, remotes: &[String]) -> Result<&RunFile> {
        if let Some(run) = self.read.get() {
            return Ok(run);
        }
        let run = RunFile::read(&self.path, remotes)?;
        Ok(self.read.get_or_init(|| run))
    }

    /// Addresses of the run's streams; empty for a file that is no run: then `run` has the error.
    pub(crate) fn addresses(&self, remotes: &[String]) -> Vec<String> {
        self.run(remotes).map(RunFile::addresses).unwrap_or_default()
    }
}

/// File of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunFile {
    name: String,
    document: Json,
}

impl RunFile {
    /// Reads a file. `remotes` are addresses of the streams, if they are not the ones in the file.
    ///
    /// # Errors
    ///
    /// `Config` for a file that is not of a run, and for a different number of addresses.
    pub(crate) fn read(file: &Path, remotes: &[String]) -> Result<Self> {
        let name = file.display().to_string();
        let wrong = |reason: &dyn Display| {
            Error::config(format!("{name} is not the file of a run, which Loader.save_run writes: {reason}"))
        };
        let text = std::fs::read(file).map_err(|e| wrong(&e))?;
        let mut document: Json = serde_json::from_slice(&text).map_err(|_| wrong(&"it is not JSON"))?;
        let config = &document["config"];
        let streams = config["streams"].as_array().filter(|streams| streams.iter().all(Json::is_object));
        let parts = [config, &config["world"], &config["engine"], &config["fetch"], &document["state"]];
        if streams.is_none() || !parts.iter().all(|part| part.is_object()) {
            let keys =
                document.as_object().map(|members| members.keys().take(5).cloned().collect::<Vec<_>>().join(", "));
            let kind = keys.map_or_else(|| "of a different kind".to_owned(), |keys| format!("with the keys {keys}"));
            return Err(wrong(&format!("it is a document {kind}")));
        }
        let streams = document["config"]["streams"].as_array_mut().map_or(&mut [][..], Vec::as_mut_slice);
        if !remotes.is_empty() && remotes.len() != streams.len() {
            let (count, given) = (streams.len(), remotes.len());
            return Err(Error::config(format!(
                "the run has {count} streams, and there are {given} addresses: write --remote once for each stream, in \
                 their order"
            )));
        }
        for (stream, remote) in streams.iter_mut().zip(remotes) {
            if let Some(stream) = stream.as_object_mut() {
                stream.insert("remote".to_owned(), json!(remote));
            }
        }
        Ok(Self { name, document })
    }

    /// Path of the file, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Contents of the file.
    pub(crate) fn document(&self) -> &Json {
        &self.document
    }

    /// Addresses of the run's streams.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let streams = self.document["config"]["streams"].as_array().into_iter().flatten();
        streams.filter_map(|stream| stream["remote"].as_str().map(str::to_owned)).collect()
    }

    /// Returns the number of the process that wrote the file.
    ///
    /// # Errors
    ///
    /// `Config` for a file of a version that did not note its process, or of a different machine.
    pub(crate) fn process(&self) -> Result<u32> {
        let wrong = |message: &str| Error::config(message).with("file", &self.name);
        let process = &self.document["process"];
        let (Some(pid), Some(host)) = (process["pid"].as_u64(), process["host"].as_str()) else {
            return Err(wrong("the file of the run names no process: an earlier version wrote it"));
        };
        let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
        if host != here {
            let message =
                format!("the run is on {host}, and this is {here}: run `forebay top` there, or pass HOST:PORT");
            return Err(wrong(&message));
        }
        u32::try_from(pid).map_err(|_| wrong("the number of the run's process is none"))
    }

    /// Returns the configuration of `rank`, for a loader in host memory that makes one batch.
    ///
    /// # Errors
    ///
    /// `Config` for arguments that no loader has, and for a rank that the run does not have.
    pub(crate) fn config(&self, rank: u32) -> Result<LoaderConfig> {
        let mut document = self.document["config"].clone();
        if let Some(fields) = document.get_mut("fields") {
            unpack_tokenizers(fields)?;
        }
        for stream in document["streams"].as_array_mut().into_iter().flatten() {
            let is_here = stream["local"].as_str().is_none_or(|local| Path::new(local).exists());
            // The folder of a machine of the run may not be here.
            if let (false, true, Some(stream)) = (is_here, stream["remote"].is_string(), stream.as_object_mut()) {
                stream.remove("local");
            }
        }
        if let Some(engine) = document.get_mut("engine").and_then(Json::as_object_mut) {
            engine.extend(ON_DEVICES.map(|name| (name.to_owned(), json!(false))));
        }
        let mut config = LoaderConfig::from_json(&document.to_string()).map_err(|e| e.with("file", &self.name))?;
        let ranks = config.world.world_size;
        if rank >= ranks {
            return Err(Error::config("the run has no such rank").with("rank", rank).with("ranks", ranks));
        }
        (config.world.rank, config.world.local_rank) = (rank, rank % config.world.local_world_size.max(1));
        config.order.skip_steps = None;
        config.engine.prefetch = Some(1);
        Ok(config)
    }

    /// Opens the loader of `rank` at the position of the run.
    ///
    /// # Errors
    ///
    /// Those of [`config`](Self::config); `State` for data that has changed since; the errors of the loader.
    pub(crate) fn loader(&self, rank: u32, library: Option<LibraryStores>) -> Result<Loader> {
        let state = LoaderState::from_json(&self.document["state"].to_string())?;
        let loader = Loader::with_library(self.config(rank)?, Arc::new(HostDelivery), library)?;
        loader.load_state(&state, true)?;
        Ok(loader)
    }
}

/// Unpacks the tokenizers of fields, which a run keeps because their files may change.
fn unpack_tokenizers(fields: &mut Json) -> Result<()> {
    match fields {
        Json::Array(items) => items.iter_mut().try_for_each(unpack_tokenizers),
        Json::Object(members) => {
            let packed = members.get("tokenizer").and_then(Json::as_str).and_then(|text| text.strip_prefix(PACKED));
            if let Some(packed) = packed {
                let damaged = || Error::config("the tokenizer in the file of the run is damaged");
                let packed = STANDARD.decode(packed).map_err(|e| damaged().caused_by(e))?;
                let unpacked = Compression::parse("zlib")?.decompress_all(&packed, TOKENIZER_BYTES_MAX);
                let text = String::from_utf8(unpacked.map_err(|e| damaged().caused_by(e))?);
                members.insert("tokenizer".to_owned(), text.map_err(|e| damaged().caused_by(e))?.into());
            }
            members.values_mut().try_for_each(unpack_tokenizers)
        }
        _ => Ok(()),
    }
}
