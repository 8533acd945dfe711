//! Opening of a loader's streams: the rules choose how, and the kinds of files and data sets do it.

use super::data_set::{self, Opened};
use super::facts::{NAMES_SEEN, StreamFacts};
use super::files::first_names;
use super::openers::opener_of;
use super::opening::{FileListing, Files, Opening};
use super::parallel::in_threads;
use super::rules::{FOLDER, Facts, Known, LISTING, NAMING, Source, resolve};
use super::session::Session;
use super::stream::IndexedStream;
use super::stream_folders::{absolute, check_folders, name_of};
use super::windows::check_windows;
use crate::config::{LoaderConfig, StreamConfig};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::sources::Names;
use crate::sources::advice::{advice_for, advice_for_files};
use crate::sources::dialects::advice_on_wildcards;
use crate::sources::tables::ARROW;
use crate::stats::Stats;
use crate::store::{LibraryStores, Simulation, local_folder, redact};
use crate::sync::Arc;
use crate::topology::Topology;

/// Streams that are opened at the same time: enough to hide a store's latency with hundreds of streams.
const STREAMS_AT_ONCE: usize = 16;

/// Opens the streams of `session` in their order, whatever their source: reads their indexes, and fetches or makes
/// those that are not there.
///
/// # Errors
///
/// Errors of the index, the folder on local disk or the store, with the stream's name.
pub(crate) fn open_streams(session: &Session<'_>) -> Result<Vec<IndexedStream>> {
    check_folders(&session.config.streams)?;
    let open = |stream: &StreamConfig| open(session, stream)?.selected(&stream.select);
    let all = in_threads(STREAMS_AT_ONCE, &session.config.streams, open)?;
    check_windows(session.config, &all)?;
    Ok(all)
}

fn open(session: &Session<'_>, stream: &StreamConfig) -> Result<IndexedStream> {
    let named = || {
        let facts = StreamFacts::new(session, stream);
        let source = resolve(NAMING, &Known { stream, has_no_index: false, facts: &facts })?;
        source.map(|source| open_source(session, &absolute(stream), source)).transpose()
    };
    let text = stream.remote.as_deref().unwrap_or("local");
    if let Some(opened) = named().map_err(|e| advised_on_list(e, text)).context("stream", || redact(text))? {
        return Ok(opened);
    }
    let stream = &absolute(stream);
    let name = name_of(stream);
    let facts = StreamFacts::new(session, stream);
    let opened = open_folder(session, stream, &name, &facts);
    opened.map_err(|e| advised(e, &name, &facts)).context("stream", || redact(&name))
}

/// Opens the folder `name`, which `stream` names.
fn open_folder(
    session: &Session<'_>,
    stream: &StreamConfig,
    name: &str,
    facts: &StreamFacts<'_>,
) -> Result<IndexedStream> {
    let resolved = |has_no_index: bool| resolve(FOLDER, &Known { stream, has_no_index, facts });
    let source = resolved(false)?.unwrap_or(Source::DataSet);
    let may_be_other = source == Source::DataSet && stream.remote.is_some() && local_folder(name).is_none();
    match open_source(session, stream, source) {
        // Some stores answer a request for an absent object with an error of permission.
        Err(e) if may_be_other && matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) => {
            let found =
                resolved(true).and_then(|source| source.map(|source| open_source(session, stream, source)).transpose());
            match found {
                Ok(Some(found)) => Ok(found),
                Err(other) if other.kind() != ErrorKind::NotFound => Err(other),
                Ok(None) | Err(_) => Err(e),
            }
        }
        opened => opened,
    }
}

fn open_source(session: &Session<'_>, stream: &StreamConfig, source: Source) -> Result<IndexedStream> {
    match source {
        Source::DataSet => {
            let root = name_of(stream);
            match data_set::open(session, stream, &root)? {
                Opened::Stream(opened) => Ok(*opened),
                Opened::Rows(files) => {
                    let files = Files::Named(Names::Listed(files));
                    opener_of(&ARROW)?.open(&Opening { session, stream, root: &root }, files)
                }
            }
        }
        Source::Files { kind, root, files } => {
            let mut opened = opener_of(kind)?.open(&Opening { session, stream, root: &root }, files)?;
            opened.origin.kind = Some(kind.name);
            Ok(opened)
        }
    }
}

/// Adds the change that is needed to the error of the address `name`, at which no data set was found, unless the store
/// has a more precise one.
fn advised(e: Error, name: &str, facts: &StreamFacts<'_>) -> Error {
    if e.has_hint_of_store() || !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) {
        return e;
    }
    let of_files = || {
        let mut names = facts.first_names(name).ok()??;
        names.sort();
        advice_for_files(&names, |file| facts.front(name, file))
    };
    e.hinting_if(advice_for(name).or_else(|| advice_on_wildcards(name, &[])).or_else(of_files))
}

/// Adds the change that is needed to the error of a list of files, if it has foreign wildcards.
fn advised_on_list(e: Error, list: &str) -> Error {
    if e.has_hint_of_store() || !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Permission) {
        return e;
    }
    let folder = list.rsplit_once('/').map_or(".", |(folder, _)| folder);
    let near = local_folder(folder).and_then(|folder| first_names(&folder, NAMES_SEEN).ok());
    e.hinting_if(advice_on_wildcards(list, &near.unwrap_or_default()))
}

impl FileListing {
    /// Lists the files of the only stream of `config`, with an empty folder of this machine as its `local`. A list that
    /// the files have already is not used. `library` serves the remotes of schemes that the engine does not have.
    ///
    /// # Errors
    ///
    /// `NotFound` for a folder without files of a known kind; `Unsupported` for files with a different kind of index;
    /// errors of the store.
    pub fn of(config: &LoaderConfig, library: Option<LibraryStores>) -> Result<Self> {
        config.validate()?;
        let (stats, topology, network) = (Arc::new(Stats::new(false)), Topology::detect()?, Simulation::default());
        let session = &Session::new(config, &stats, &topology, &network, library);
        let stream = config.streams.first().map(absolute);
        let stream = &stream.ok_or_else(|| Error::config("a list is made of the files of one stream"))?;
        let facts = StreamFacts::new(session, stream);
        let source = resolve(LISTING, &Known { stream, has_no_index: false, facts: &facts })?;
        let Some(Source::Files { kind, root, files }) = source else {
            return Err(Error::new(ErrorKind::NotFound, "the folder has no files that are samples"));
        };
        let listing = opener_of(kind)?.listing(&Opening { session, stream, root: &root }, files)?;
        listing.ok_or_else(|| {
            let message = "a list is made of files that are samples, such as pictures: tokens and records have their \
                           index in the files, and an index of tars is made by their names";
            Error::new(ErrorKind::Unsupported, message).with("remote", redact(&root))
        })
    }
}
