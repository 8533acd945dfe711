//! Files that are samples, by folders, lists and manifests, and data sets with an index.

use super::{Folders, Session, check, list, open, samples, write};
use crate::catalog::data_set::Document;
use crate::catalog::index_origin::IndexOrigin;
use crate::config::{FilesAre, LoaderConfig, StreamConfig};
use crate::error::{ErrorKind, Result};
use crate::format::recipe::FileColumns;
use crate::stats::Stats;
use crate::store::Simulation;
use crate::sync::Arc;
use crate::topology::Topology;

/// Folder with files of these names, each with its name as its content.
fn folder(names: &[&str]) -> Folders {
    Folders::new(|data| names.iter().for_each(|name| write(&data.join(name), name.as_bytes())))
}

/// Returns the paths of the first files of all samples, sorted.
fn paths(opened: Result<super::IndexedStream>) -> Vec<String> {
    let opened = opened.unwrap();
    let shards = &opened.cache.shards.index().shards;
    let of_shard = |shard: &crate::format::Shard| {
        let recipe = shard.recipe.clone().unwrap();
        (0..shard.samples as u32).map(|sample| recipe.path_of(sample).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut paths: Vec<String> = shards.iter().flat_map(of_shard).collect();
    paths.sort();
    paths
}

fn with(folders: &Folders, change: impl FnOnce(&mut StreamConfig)) -> Result<super::IndexedStream> {
    let mut stream = folders.stream("");
    change(&mut stream);
    open(stream)
}

#[test]
fn pictures_of_a_folder_have_their_folders_as_classes() {
    let folders = folder(&["cat/0.jpg", "dog/1.png", "dog/notes.txt", "readme.md"]);
    let opened = folders.open("").unwrap();
    let classes = opened.cache.shards.index().shards[0].recipe.as_ref().unwrap().classes().unwrap();
    assert_eq!(classes.iter().collect::<Vec<_>>(), ["cat", "dog"]);
    let columns = &opened.cache.shards.index().shards[0].layout.columns;
    assert!(columns.iter().any(|column| column.name == FileColumns::LABEL));
    assert_eq!(paths(Ok(opened)), ["cat/0.jpg", "dog/1.png"]);
}

#[test]
fn folders_of_pictures_that_would_give_wrong_labels_are_refused() {
    for (names, kind, parts) in [
        (&["cat/0.jpg", ".ipynb_checkpoints/0.jpg"][..], ErrorKind::Config, &[".ipynb_checkpoints"][..]),
        (&["train/a/0.jpg", "val/a/0.jpg"], ErrorKind::Config, &["more than one split (train, val)"]),
        (&["train/a/0.jpg", "train/b/0.jpg"], ErrorKind::Config, &["split=\"train\""]),
        (&["0.jpg", "cat/1.jpg"], ErrorKind::Config, &["in the folder itself", "0.jpg", "cat/1.jpg"]),
        (&["cat/0.jpg", "dog/notes.txt"], ErrorKind::NotFound, &["fill it or remove it", "dog"]),
        (&["notes.txt"], ErrorKind::NotFound, &["index.json"]),
    ] {
        check(&folder(names).error(""), kind, parts);
    }
}

#[test]
fn files_are_samples_on_request_each_or_by_their_stems() {
    let names = ["a.txt", "a.json", "b.txt", "b.json", ".hidden"];
    let each = with(&folder(&names), |stream| stream.files = Some(FilesAre::EACH));
    assert_eq!(paths(each), ["a.json", "a.txt", "b.json", "b.txt"]);
    let folders = folder(&names);
    let stems = with(&folders, |stream| stream.files = Some(FilesAre::STEM)).unwrap();
    assert_eq!(samples(&stems), 2);
    std::fs::remove_file(folders.path("b.json")).unwrap();
    folders.set_times(1);
    let e = with(&folders, |stream| stream.files = Some(FilesAre::STEM)).expect_err("a file is missing");
    assert!(e.to_string().contains('b'), "{e}");
}

#[test]
fn files_in_folders_of_columns_are_samples_by_their_stems() {
    let names = ["images/0.jpg", "images/1.jpg", "masks/1_m.png", "masks/0_m.png", "splits.txt"];
    let folders = folder(&names);
    let columns = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter().map(|(name, files)| ((*name).to_owned(), (*files).to_owned())).collect();
        move |stream: &mut StreamConfig| stream.files = Some(FilesAre::Columns(pairs))
    };
    for _ in 0..2 {
        let opened = with(&folders, columns(&[("image", "images"), ("mask", "masks/*_m.png")])).unwrap();
        let layout = &opened.cache.shards.index().shards[0].layout;
        let columns: Vec<_> = layout.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(columns, ["class", "image", "label", "mask", "path"]);
        assert_eq!(samples(&opened), 2);
    }
    let e = with(&folders, columns(&[("image", "images"), ("mask", "masks")])).expect_err("no stem is in both");
    check(&e, ErrorKind::Config, &["0_m, 1_m", "no stem is in every column"]);
    let e = with(&folders, |stream| {
        columns(&[("image", "images")])(stream);
        stream.manifest = Some("m.csv".to_owned());
    });
    check(&e.expect_err("both"), ErrorKind::Config, &["leave `files` out"]);
    let mut stream = folders.stream("images/*.jpg");
    columns(&[("image", "images")])(&mut stream);
    check(&open(stream).expect_err("files"), ErrorKind::Config, &["`remote` is the folder"]);
}

#[test]
fn a_list_has_the_files_that_it_names_and_each_once() {
    let folders = folder(&["0.jpg", "1.jpg", "2.png"]);
    assert_eq!(paths(folders.open("*.jpg")), ["0.jpg", "1.jpg"]);
    for (list, kind, part) in [
        ("{0,3}.jpg", ErrorKind::NotFound, "3.jpg"),
        ("x*.jpg", ErrorKind::NotFound, "no file matches the pattern"),
        ("{*,0}.jpg", ErrorKind::Config, "in the list twice"),
    ] {
        let cache = Folders { data: tempfile::tempdir().unwrap(), cache: tempfile::tempdir().unwrap() };
        let mut stream = folders.stream(list);
        stream.local = Some(cache.cache.path().to_owned());
        check(&open(stream).expect_err(list), kind, &[part]);
    }
}

#[test]
fn a_second_selection_in_the_same_folder_is_a_second_list() {
    let folders = folder(&["cat/0.jpg", "dog/1.jpg", "dog/2.txt"]);
    write(&folders.path("m.csv"), b"file_name,text\ndog/1.jpg,a dog\n");
    folders.set_times(0);
    let manifest = |stream: &mut StreamConfig| stream.manifest = Some("m.csv".to_owned());
    for _ in 0..2 {
        assert_eq!(paths(with(&folders, manifest)), ["dog/1.jpg"]);
        assert_eq!(paths(folders.open("")), ["cat/0.jpg", "dog/1.jpg"]);
        let each = with(&folders, |stream| stream.files = Some(FilesAre::EACH));
        assert_eq!(paths(each), ["cat/0.jpg", "dog/1.jpg", "dog/2.txt", "m.csv"]);
    }
}

#[test]
fn copies_of_different_samples_under_the_same_name_are_removed() {
    let folders = folder(&["0.jpg", "1.jpg"]);
    folders.open("").unwrap();
    let copy = folders.cache.path().join("files.00000.mds");
    write(&copy, b"copy");
    folders.open("").unwrap();
    assert!(copy.exists());
    // A folder with a change, but the same files, has the same samples.
    folders.set_times(1);
    folders.open("").unwrap();
    assert!(copy.exists());
    std::fs::rename(folders.path("1.jpg"), folders.path("2.jpg")).unwrap();
    folders.set_times(2);
    folders.open("").unwrap();
    assert!(!copy.exists());
}

#[test]
fn a_manifest_names_files_that_exist() {
    let folders = folder(&["0.jpg"]);
    let opened = |manifest: &str, files: Option<FilesAre>| {
        write(&folders.path("m.csv"), manifest.as_bytes());
        with(&folders, |stream| {
            stream.manifest = Some("m.csv".to_owned());
            stream.files = files;
        })
    };
    let e = |manifest: &str, files| opened(manifest, files).expect_err(manifest);
    check(&e("file_name,text\n1.jpg,x\n", None), ErrorKind::NotFound, &["1.jpg"]);
    check(&e("file_name,text\n0.jpg,\"x\n", None), ErrorKind::Format, &["m.csv"]);
    check(&e("file_name\n0.jpg\n", Some(FilesAre::STEM)), ErrorKind::Config, &["leave files=\"stem\" out"]);
    assert_eq!(paths(opened("file_name,text\n0.jpg,x\n", None)), ["0.jpg"]);
}

#[test]
fn a_list_next_to_the_files_has_the_digest_of_their_folder() {
    let folders = folder(&["cat/0.jpg", "dog/1.jpg"]);
    let listed = folders.open("").unwrap();
    let listing = list(&folders, "");
    assert_eq!((listing.basename, listing.samples), ("index.json", 2));
    write(&folders.path("index.json"), &listing.document);
    std::fs::remove_dir_all(folders.cache.path()).unwrap();
    assert_eq!(folders.open("").unwrap().digest, listed.digest);
    write(&folders.path("index.json"), &listing.document[..listing.document.len() / 2]);
    std::fs::remove_dir_all(folders.cache.path()).unwrap();
    check(&folders.error(""), ErrorKind::Format, &["list of files"]);
}

const EMPTY: &str = r#"{"version": 2, "shards": []}"#;

#[test]
fn the_index_of_a_data_set_is_compared_with_the_one_of_its_remote() {
    let folders = Folders::new(|data| write(&data.join("index.json"), EMPTY.as_bytes()));
    let first = folders.open("").unwrap();
    assert_eq!(folders.open("").unwrap().digest, first.digest);
    // One that is no index is no reason to reject the cached one.
    write(&folders.path("index.json"), b"{");
    assert_eq!(folders.open("").unwrap().digest, first.digest);
    write(&folders.path("index.json"), EMPTY.replace(": 2", ":  2").as_bytes());
    check(&folders.error(""), ErrorKind::Stale, &["the remote index changed"]);
}

#[test]
fn a_long_index_is_compared_in_pieces() {
    let folders = Folders::new(|data| write(&data.join("index.json"), EMPTY.as_bytes()));
    // Two windows of the remote file and a part of a piece.
    let text = |last: &str| format!("{}{}{last}", &EMPTY[..EMPTY.len() - 1], " ".repeat(9 << 20));
    let kept = folders.cache.path().join("kept");
    write(&kept, text("}").as_bytes());
    let config = LoaderConfig { streams: vec![folders.stream("")], ..LoaderConfig::default() };
    let (stats, topology) = (Arc::new(Stats::new(false)), Topology::synthetic(&["0-3"]));
    let network = Simulation::default();
    let is_current = || {
        // A session compares the versions of files that it has seen.
        let session = Session::new(&config, &stats, &topology, &network, None);
        let remote = session.remote(&config.streams[0], &folders.data.path().display().to_string()).unwrap();
        Document::default().is_current(&remote, &std::fs::File::open(&kept).unwrap())
    };
    for (last, expected) in [("}", true), (" ", false), ("", false), ("}\n", false)] {
        write(&folders.path("index.json"), text(last).as_bytes());
        assert_eq!(is_current().unwrap(), expected, "{last:?}");
    }
    std::fs::remove_file(folders.path("index.json")).unwrap();
    check(&is_current().unwrap_err(), ErrorKind::NotFound, &[]);
}

#[test]
fn a_folder_without_an_index_or_with_a_damaged_one_is_an_error() {
    check(&Folders::of_names(&["0.mds"]).error(""), ErrorKind::NotFound, &["index.json", "MDSWriter"]);
    check(&Folders::of_names(&[]).error("absent"), ErrorKind::NotFound, &["there is no such folder"]);
    for wrong in ["{", "[]", r#"{"version": 3, "shards": []}"#, r#"{"version": 2, "shards": [{}]}"#] {
        let folders = Folders::new(|data| write(&data.join("index.json"), wrong.as_bytes()));
        let e = folders.error("");
        assert!(matches!(e.kind(), ErrorKind::Format | ErrorKind::Unsupported), "{wrong}: {e}");
    }
}
