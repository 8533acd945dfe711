//! Samples in a DataLoader's worker: shards behind the object server, read on the calling thread.

use forebay_loader::config::{LoaderConfig, StreamConfig};
use forebay_loader::format::writer::Options;
use forebay_loader::format::{Compression, HashAlgo, Index, Scratch};
use forebay_loader::order::{EpochPlan, OrderConfig, Rank, Resume, SampleId, ShardId, World, shares_of};
use forebay_loader::store::{FetchStatus, Fetcher};
use forebay_loader::sync::Arc;
use forebay_loader::worker::{ATTEMPTS, DataConfig, DataSet, Epoch, SampleReader, StreamLocation};
use forebay_loader::{Error, ErrorKind, Loader};
use forebay_tests::data::token_sample;
use forebay_tests::disk::{room, used};
use forebay_tests::server::{Fault, ObjectServer, Options as ServerOptions, Root, Rule};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Tokens in a sample.
const LENGTH: usize = 8;

/// Makes a data set in shards of a few dozen samples.
fn tokens(directory: &Path, samples: u64, compression: Option<&str>) -> usize {
    let compression = compression.map(|c| Compression::parse(c).expect("a compression"));
    let options = Options { size_limit: Some(1 << 10), compression, ..Options::default() };
    forebay_tests::data::tokens(directory, samples, LENGTH, 7, options).expect("a data set").shards.len()
}

fn serve(directory: &Path) -> ObjectServer {
    ObjectServer::start(Root::folder(directory), ServerOptions::default()).expect("a server")
}

fn place(remote: Option<&str>, dir: &Path) -> StreamLocation {
    StreamLocation {
        remote: remote.map(Into::into),
        dir: dir.into(),
        keep_zip: false,
        download_retry: 1,
        download_timeout: 20.0,
        validate_hash: None,
    }
}

fn open(place: StreamLocation, cache_limit: Option<u64>) -> Arc<SampleReader> {
    open_with(place, cache_limit, None).expect("a reader")
}

fn open_with(
    place: StreamLocation,
    cache_limit: Option<u64>,
    fetcher: Option<Arc<dyn Fetcher>>,
) -> Result<Arc<SampleReader>, Error> {
    place.install_index(fetcher.as_deref())?;
    let index = std::fs::read(place.dir.join("index.json")).expect("the index");
    let index = Arc::new(Index::parse(&index, "index.json").expect("a valid index"));
    let data = DataSet::new(DataConfig { streams: vec![place], cache_limit }, vec![index]).expect("a data set");
    Ok(Arc::new(SampleReader::open(Arc::new(data), vec![fetcher])?))
}

/// Files of a folder, fetched by a downloader of the program.
#[derive(Debug)]
struct FolderFetcher(PathBuf);

impl Fetcher for FolderFetcher {
    fn fetch(&self, key: &str, watch: &dyn Fn(FetchStatus) -> Result<(), Error>) -> Result<File, Error> {
        watch(FetchStatus::Running { bytes: 0 })?;
        File::open(self.0.join(key)).map_err(|e| Error::from_io(e, "not there"))
    }
}

fn start(sample_in_epoch: u64, num_canonical_nodes: u64) -> Resume {
    Resume { epoch: 0, sample_in_epoch, num_canonical_nodes, shuffle_seed: 9176, initial_physical_nodes: None }
}

fn plan(reader: &SampleReader, workers: u32, start: &Resume) -> Result<EpochPlan, Error> {
    let order = OrderConfig { shuffle: true, batch_size: 4, ..OrderConfig::default() };
    let shares = shares_of(reader.data().shape(), &order).expect("shares");
    let world = World { nodes: 1, ranks_per_node: 1, workers_per_rank: workers };
    Ok(EpochPlan::of_shares(reader.data().shape(), &order, shares, world, start.epoch, Some(start))?)
}

fn epoch(reader: &Arc<SampleReader>, predownload: usize) -> Epoch {
    let plan = plan(reader, 1, &start(0, 1)).expect("a plan");
    Epoch::new(reader.clone(), plan.worker(Rank(0), 0), predownload)
}

/// The tokens of a sample, fetched if need be.
fn tokens_of(reader: &SampleReader, sample: SampleId) -> Result<Vec<u16>, Error> {
    let mut buffer = Vec::new();
    let found = match reader.read(sample, &mut buffer)? {
        Some(found) => found,
        None => reader.fetch_and_read(sample, &mut buffer, ATTEMPTS)?,
    };
    let mut scratch = Scratch::default();
    let columns = reader.layouts()[found.layout].split(&buffer[..found.bytes], &mut scratch)?;
    Ok(columns.get(0).chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect())
}

/// Reads an epoch; the samples in order.
fn read_all(reader: &Arc<SampleReader>, predownload: usize) -> Result<Vec<u64>, Error> {
    let mut epoch = epoch(reader, predownload);
    let mut seen = Vec::new();
    while let Some(sample) = epoch.next_sample()? {
        assert_eq!(tokens_of(reader, sample)?, token_sample(LENGTH, 7, sample.0));
        seen.push(sample.0);
    }
    Ok(seen)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a folder");
    let mut names: Vec<_> = entries.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn an_epoch_has_every_sample_and_each_shard_is_fetched_once() {
    for compression in [None, Some("zstd")] {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let shards = tokens(data.path(), 1000, compression);
        let server = serve(data.path());
        let reader = open(place(Some(&server.url()), cache.path()), None);
        let seen = read_all(&reader, 64).unwrap();
        let planned: Vec<i64> =
            plan(&reader, 1, &start(0, 1)).unwrap().worker(Rank(0), 0).filter(|id| *id >= 0).collect();
        assert_eq!(seen, planned.iter().map(|id| *id as u64).collect::<Vec<_>>());
        assert_eq!(seen.len(), 1000);
        let cold = server.counters().requests;
        assert_eq!(cold, 1 + shards as u64, "the index and each shard");
        // For the cache, this is a second process on the same folder.
        let other = open(place(Some(&server.url()), cache.path()), None);
        assert_eq!(read_all(&other, 64).unwrap(), seen);
        assert_eq!(server.counters().requests, cold);
        assert_eq!(names(cache.path()).len(), 1 + shards, "nothing but shards and the index");
    }
}

#[test]
fn random_access_fetches_the_one_shard_that_it_needs() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tokens(data.path(), 1000, None);
    let server = serve(data.path());
    let reader = open(place(Some(&server.url()), cache.path()), None);
    assert_eq!(tokens_of(&reader, SampleId(999)).unwrap(), token_sample(LENGTH, 7, 999));
    assert_eq!(server.counters().requests, 2, "the index and the shard");
    let error = tokens_of(&reader, SampleId(1000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("samples 1000"), "{error}");
}

#[test]
fn a_stream_with_its_own_fetcher_is_checked_and_kept_like_the_rest() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shards = tokens(data.path(), 1000, Some("zstd"));
    // A scheme that the engine does not know.
    let place = place(Some("shelf://top/book"), cache.path());
    let fetcher: Arc<dyn Fetcher> = Arc::new(FolderFetcher(data.path().into()));
    let reader = open_with(place.clone(), None, Some(fetcher.clone())).expect("a reader");
    assert_eq!(read_all(&reader, 64).unwrap().len(), 1000);
    assert_eq!(names(cache.path()).len(), 1 + shards, "nothing but shards and the index");

    std::fs::write(data.path().join("shard.00001.mds.zstd"), b"short").unwrap();
    assert!(reader.evict(ShardId(1)).unwrap());
    let error = reader.fetch(ShardId(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checksum);
    assert!(error.to_string().contains("5 bytes") && error.to_string().contains("shard.00001.mds"), "{error}");
    std::fs::remove_file(data.path().join("index.json")).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let elsewhere = StreamLocation { dir: empty.path().into(), ..place };
    assert_eq!(open_with(elsewhere, None, Some(fetcher)).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Fetcher that never returns a file. A different process puts each requested file into the reader's folder.
#[derive(Debug)]
struct Overtaken {
    folder: PathBuf,
    cache: PathBuf,
}

impl Fetcher for Overtaken {
    fn fetch(&self, key: &str, watch: &dyn Fn(FetchStatus) -> Result<(), Error>) -> Result<File, Error> {
        let mut bytes = 0;
        if key != "index.json" {
            std::fs::copy(self.folder.join(key), self.cache.join(key)).expect("copied");
            loop {
                watch(FetchStatus::Running { bytes })?;
                bytes += 1;
                std::thread::yield_now();
            }
        }
        File::open(self.folder.join(key)).map_err(|e| Error::from_io(e, "not there"))
    }
}

#[test]
fn at_the_end_of_an_epoch_the_fetching_thread_releases_the_reader() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert_eq!(tokens(data.path(), 20, None), 1);
    let fetcher = Overtaken { folder: data.path().into(), cache: cache.path().into() };
    let shelf = place(Some("shelf://top/book"), cache.path());
    let reader = open_with(shelf, None, Some(Arc::new(fetcher))).expect("a reader");
    let mut epoch = epoch(&reader, 64);
    let mut buffer = Vec::new();
    while let Some(sample) = epoch.next_sample().unwrap() {
        // The shard is here as soon as the thread that fetches ahead has started with it; its fetcher never returns.
        while reader.read(sample, &mut buffer).unwrap().is_none() {
            std::thread::yield_now();
        }
    }
    assert_eq!(Arc::strong_count(&reader), 2, "the epoch's and ours");
}

#[test]
fn a_failed_download_ahead_is_the_next_samples_error_without_a_wait() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tokens(data.path(), 1000, None);
    let server = serve(data.path());
    server.script(Rule::once("shard.00007", Fault::Status(404, None)));
    let reader = open(place(Some(&server.url()), cache.path()), None);
    let error = read_all(&reader, 1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("shard.00007.mds"), "{error}");
    // The failure released the claim, and the object exists now.
    assert_eq!(read_all(&reader, 64).unwrap().len(), 1000);
}

#[test]
fn a_cache_limit_holds_for_readers_that_share_a_folder_and_all_get_every_sample() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shards = tokens(data.path(), 1000, None);
    let server = serve(data.path());
    let limit = 48 << 10;
    let readers: Vec<_> = (0..3).map(|_| open(place(Some(&server.url()), cache.path()), Some(limit))).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = readers.iter().map(|r| scope.spawn(|| read_all(r, 200).map(|seen| seen.len()))).collect();
        while threads.iter().any(|t| !t.is_finished()) {
            assert!(readers[0].bytes_here().unwrap() <= limit && used(cache.path()) <= limit);
        }
        for thread in threads {
            assert_eq!(thread.join().unwrap().unwrap(), 1000);
        }
    });
    assert!(server.counters().requests > 1 + shards as u64, "shards were evicted and fetched again");
}

#[test]
fn an_idle_reader_occupies_no_space_that_a_second_one_needs() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tokens(data.path(), 1000, None);
    let server = serve(data.path());
    // Room for the index and a few shards.
    let place = || place(Some(&server.url()), cache.path());
    let index_bytes = {
        place().install_index(None).unwrap();
        std::fs::metadata(cache.path().join("index.json")).unwrap().len()
    };
    let limit = Some(room(cache.path(), [index_bytes, 4 * 4096]));
    let asleep: Vec<_> = (0..8).map(|_| open(place(), limit)).collect();
    let mut epochs: Vec<_> = asleep.iter().map(|reader| epoch(reader, 100)).collect();
    for (reader, epoch) in asleep.iter().zip(&mut epochs) {
        let sample = epoch.next_sample().unwrap().unwrap();
        tokens_of(reader, sample).unwrap();
    }
    assert_eq!(read_all(&open(place(), limit), 100).unwrap().len(), 1000);
}

#[test]
fn a_reader_without_a_limit_keeps_no_room_from_one_with_a_limit() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(tokens(data.path(), 100, None) > 1);
    let server = serve(data.path());
    let size = |name: &str| std::fs::metadata(data.path().join(name)).unwrap().len();
    let limit = room(cache.path(), [size("index.json"), size("shard.00000.mds").max(size("shard.00001.mds"))]);
    let strict = open(place(Some(&server.url()), cache.path()), Some(limit));
    let lax = open(place(Some(&server.url()), cache.path()), None);
    lax.fetch_and_read(SampleId(0), &mut Vec::new(), 1).unwrap();
    assert!(strict.try_fetch(ShardId(1)).unwrap(), "the first shard is evicted, and not open");
}

#[test]
fn a_deleted_shard_is_fetched_again() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tokens(data.path(), 100, None);
    let server = serve(data.path());
    let reader = open(place(Some(&server.url()), cache.path()), None);
    assert_eq!(read_all(&reader, 8).unwrap().len(), 100);
    let before = server.counters().requests;
    std::fs::remove_file(cache.path().join("shard.00000.mds")).unwrap();
    assert_eq!(tokens_of(&reader, SampleId(0)).unwrap(), token_sample(LENGTH, 7, 0));
    assert_eq!(server.counters().requests, before + 1);
    assert!(cache.path().join("shard.00000.mds").exists());
}

#[test]
fn only_shards_that_can_be_fetched_again_are_evicted() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    tokens(data.path(), 100, None);
    let server = serve(data.path());
    let filled = open(place(Some(&server.url()), cache.path()), None);
    read_all(&filled, 8).unwrap();
    assert!(filled.evict(ShardId(1)).unwrap());
    assert!(!cache.path().join("shard.00001.mds").exists());
    assert!(!filled.evict(ShardId(1)).unwrap(), "it is gone already");
    assert!(filled.evict_coldest().unwrap().is_some());
    assert_eq!(filled.evict(ShardId(99)).unwrap_err().kind(), ErrorKind::NotFound);
    // Without a remote, or with the local folder itself as the remote, the files are all there is.
    for remote in [None, data.path().to_str()] {
        let only_copy = open(place(remote, data.path()), None);
        assert_eq!(only_copy.evict(ShardId(0)).unwrap_err().kind(), ErrorKind::Config);
        assert_eq!(only_copy.evict_coldest().unwrap(), None);
        assert!(data.path().join("shard.00000.mds").exists());
    }
}

#[test]
fn compressed_shards_without_a_remote_are_unpacked_into_their_folder() {
    let data = tempfile::tempdir().unwrap();
    let shards = tokens(data.path(), 100, Some("zstd"));
    assert_eq!(read_all(&open(place(None, data.path()), None), 8).unwrap().len(), 100);
    assert_eq!(names(data.path()).len(), 1 + 2 * shards, "the compressed files may be the only copy");
}

#[test]
fn a_damaged_compressed_shard_is_not_unpacked() {
    let data = tempfile::tempdir().unwrap();
    let (compression, hashes) = (Compression::parse("gz").ok(), vec![HashAlgo::parse("xxh64").unwrap()]);
    let options = Options { size_limit: Some(1 << 10), compression, hashes, ..Options::default() };
    forebay_tests::data::tokens(data.path(), 100, LENGTH, 7, options).unwrap();
    let first = data.path().join("shard.00000.mds.gz");
    let mut bytes = std::fs::read(&first).unwrap();
    // The time in gzip's header, which unpacking ignores.
    bytes[5] ^= 1;
    std::fs::write(&first, bytes).unwrap();
    let error = read_all(&open(place(None, data.path()), None), 8).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Checksum);
    assert!(error.to_string().contains("shard.00000.mds.gz"), "{error}");
    assert!(!data.path().join("shard.00000.mds").exists());
}

#[test]
fn a_checkpoint_at_the_end_of_a_padded_epoch_has_no_remaining_samples() {
    let data = tempfile::tempdir().unwrap();
    tokens(data.path(), 117, None);
    let reader = open(place(None, data.path()), None);
    // 117 samples on 64 canonical nodes are 128 positions.
    let end = plan(&reader, 3, &start(128, 64)).unwrap();
    assert_eq!((0..3).map(|worker| end.worker(Rank(0), worker).count()).sum::<usize>(), 0);
    let error = plan(&reader, 3, &start(1000, 64)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State);
    assert!(error.to_string().contains("Resuming further"), "{error}");
}

/// Checks that samples at the ends and in the middle of a loader's streams are the samples of [`tokens`].
fn check_samples_of(config: &LoaderConfig, samples: &[u64]) -> Result<(), Error> {
    let data = DataSet::of_loader(config, None)?;
    assert_eq!(data.shape().num_samples(), samples.iter().sum::<u64>());
    let reader = SampleReader::open(Arc::new(data), Vec::new())?;
    let mut start = 0;
    for count in samples {
        for index in [0, count / 2, count - 1] {
            let mut bytes = Vec::new();
            let found = reader.fetch_and_read(SampleId(start + index), &mut bytes, ATTEMPTS)?;
            let expected: Vec<u8> = token_sample(LENGTH, 7, index).into_iter().flat_map(u16::to_le_bytes).collect();
            assert_eq!(&bytes[..found.bytes], expected);
        }
        start += count;
    }
    Ok(())
}

#[test]
fn a_loader_s_streams_are_read_where_the_loader_reads_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    tokens(&path("plain/train"), 40, None);
    tokens(&path("packed"), 30, Some("zstd"));
    let server = serve(&path("packed"));
    let stream = |remote: Option<String>, local: Option<PathBuf>, split: Option<&str>| StreamConfig {
        remote,
        local,
        split: split.map(Into::into),
        ..StreamConfig::default()
    };
    let name = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
    let streams = vec![
        // Without a copy, by `local` and by `remote`; through a store into a folder.
        stream(None, Some(path("plain")), Some("train")),
        stream(Some(name(path("plain"))), None, Some("train")),
        stream(Some(server.url()), Some(path("cache")), None),
        stream(Some(name(path("packed"))), Some(path("unpacked")), None),
    ];
    let config = LoaderConfig { streams, batch_size: 4, ..LoaderConfig::default() };
    check_samples_of(&config, &[40, 40, 30, 30]).expect("samples");
    assert!(path("cache/index.json").exists() && path("unpacked/index.json").exists());
    assert!(!path("packed/shard.00000.mds").exists(), "the remote is left as it is");

    // The loader reads the same folders.
    let loader = Loader::new(config).expect("a loader");
    assert_eq!(loader.samples(), 140);
    let absent = vec![stream(Some(name(path("absent"))), None, None)];
    let error =
        DataSet::of_loader(&LoaderConfig { streams: absent, ..LoaderConfig::default() }, None).expect_err("no index");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("/absent"), "{error}");
}
