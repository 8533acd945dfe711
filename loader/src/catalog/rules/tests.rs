//! The table of rules over folders in memory: for each stream and its files, the way to open it.

use super::*;
use crate::config::FilesAre;
use crate::error::ErrorKind;
use crate::sources::lines::{CELLS, JSON_LINES};
use crate::sources::tables::{ARROW, PARQUET};
use crate::sources::tfrecords::TF_RECORD;
use crate::sources::tokens::TOKENS;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Start of a list of files.
const FILE_LIST: &str = "{\"forebay_files\":1}";

/// Files by their whole addresses, and the requests to stores that were made.
#[derive(Default)]
struct Store {
    files: BTreeMap<String, String>,
    /// Folder that cannot be listed.
    unlisted: &'static str,
    /// Folder of pictures that were listed before.
    kept: &'static str,
    requests: RefCell<Vec<String>>,
}

impl Store {
    fn of(files: &[&str]) -> Self {
        let file = |name: &&str| {
            let (name, content) = name.split_once(" = ").unwrap_or((name, ""));
            (name.to_owned(), content.to_owned())
        };
        Self { files: files.iter().map(file).collect(), ..Self::default() }
    }

    fn below(&self, folder: &str) -> Vec<String> {
        let start = format!("{}/", folder.trim_end_matches('/'));
        self.files.keys().filter_map(|name| name.strip_prefix(&start)).map(str::to_owned).collect()
    }

    fn requested(&self, what: &str, at: &str) {
        self.requests.borrow_mut().push(format!("{what} {at}"));
    }
}

impl Facts for Store {
    fn index_in(&self, folder: &Path) -> Option<IndexForm> {
        let index = self.files.get(folder.join("index.json").to_str()?)?;
        Some(if index.starts_with(FILE_LIST) { IndexForm::FileList } else { IndexForm::DataSet })
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| !self.below(path).is_empty())
    }

    fn is_file(&self, path: &Path) -> bool {
        path.to_str().is_some_and(|path| self.files.contains_key(path))
    }

    fn has_kept_list(&self, name: &str) -> bool {
        name == self.kept
    }

    fn first_names(&self, folder: &str) -> Result<Option<Vec<String>>> {
        self.requested("first", folder);
        let names = self.below(folder);
        Ok((folder != self.unlisted && !names.is_empty()).then_some(names))
    }

    fn all(&self, folder: &str) -> Result<Vec<ListedEntry>> {
        self.requested("all", folder);
        Ok(entries(&self.below(folder)))
    }

    fn file(&self, folder: &str, name: &str, bytes_max: usize) -> Result<Vec<u8>> {
        self.requested("file", &format!("{folder}/{name}"));
        let found = self.files.get(&format!("{folder}/{name}"));
        if found.is_some_and(|content| content.len() > bytes_max) {
            return Err(Error::format("the object is too large"));
        }
        found.map(|content| content.clone().into_bytes()).ok_or_else(|| Error::new(ErrorKind::NotFound, "no such file"))
    }
}

fn entries(names: &[impl AsRef<str>]) -> Vec<ListedEntry> {
    let entry = |name: &str| ListedEntry { key: name.to_owned(), size: 1, etag: None, modified: None };
    names.iter().map(|name| entry(name.as_ref())).collect()
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn remote(remote: &str) -> StreamConfig {
    StreamConfig { remote: Some(remote.to_owned()), ..StreamConfig::default() }
}

fn with_split(folder: &str, split: &str) -> StreamConfig {
    StreamConfig { split: Some(split.to_owned()), ..remote(folder) }
}

fn local(local: &str) -> StreamConfig {
    StreamConfig { local: Some(PathBuf::from(local)), ..StreamConfig::default() }
}

/// Returns the way to open `stream`, and to open it without the index of a store.
fn resolved(store: &Store, stream: &StreamConfig) -> Result<(Option<Source>, Option<Source>)> {
    let known = |has_no_index| Known { stream, has_no_index, facts: store };
    if let Some(source) = resolve(NAMING, &known(false))? {
        return Ok((Some(source), None));
    }
    Ok((resolve(FOLDER, &known(false))?, resolve(FOLDER, &known(true))?))
}

fn files(kind: &'static FileKind, root: &str, files: Files) -> Option<Source> {
    Some(Source::Files { kind, root: root.to_owned(), files })
}

fn named_files(kind: &'static FileKind, root: &str, names: &[&str]) -> Option<Source> {
    files(kind, root, Files::Named(Names::Listed(texts(names))))
}

#[test]
fn a_list_names_files_of_a_kind() {
    let store = Store::of(&["/d/a.bin", "/d/a.idx", "/d/b.bin", "/d/b.idx", "/d/b/index.json", "/d/x.jpg/0.txt"]);
    let samples = |of: &str| StreamConfig { files: Some(FilesAre::EACH), ..remote(of) };
    for (stream, expected) in [
        (remote("s3://b/{0..1}.tar"), named_files(&TAR, "s3://b", &["0.tar", "1.tar"])),
        (remote("/d/a.parquet"), named_files(&PARQUET, "/d", &["a.parquet"])),
        (local("/d/a.tfrecord"), named_files(&TF_RECORD, "/d", &["a.tfrecord"])),
        (remote("s3://b/*.arrow"), files(&ARROW, "s3://b", Files::Named(Names::Patterns(texts(&["*.arrow"]))))),
        (remote("s3://b/{a,b}.jsonl.gz"), named_files(&JSON_LINES, "s3://b", &["a.jsonl.gz", "b.jsonl.gz"])),
        (local("/d/a.TSV"), named_files(&CELLS, "/d", &["a.TSV"])),
        (remote("/d/a"), named_files(&TOKENS, "/d", &["a.bin"])),
        (remote("/d/x.jpg"), named_files(&FILE, "/d", &["x.jpg"])),
        (samples("s3://b/a.tar"), named_files(&FILE, "s3://b", &["a.tar"])),
        (samples("/d/x.jpg"), files(&FILE, "/d/x.jpg", Files::All)),
        (samples("s3://b/a"), files(&FILE, "s3://b/a", Files::All)),
    ] {
        assert_eq!(resolved(&store, &stream).unwrap().0, expected, "{stream:?}");
    }
    assert_eq!(resolved(&store, &remote("/d/b")).unwrap().0, Some(Source::DataSet), "a data set comes first");
    assert!(store.requests.borrow().iter().all(|request| !request.contains("s3:")), "names alone decide");
}

#[test]
fn files_of_a_manifest_are_below_its_folder_and_split() {
    let with_manifest = |of: &str| StreamConfig { manifest: Some("labels.csv".to_owned()), ..with_split(of, "train") };
    let found = resolved(&Store::default(), &with_manifest("s3://b/a")).unwrap().0;
    assert_eq!(found, files(&FILE, "s3://b/a/train", Files::All));
}

#[test]
fn options_of_folders_are_rejected_with_a_list() {
    let with_manifest = StreamConfig { manifest: Some("labels.csv".to_owned()), ..remote("s3://b/0.jpg") };
    for (stream, message) in [
        (with_split("s3://b/0.tar", "train"), "`split` is a folder of a data set"),
        (with_manifest, "`manifest` names the files"),
        (remote("s3://b/0.tar::s3://b/0.parquet"), "but this entry has a different kind"),
        (remote("s3://b/0.tar.xz"), "cannot be unpacked"),
    ] {
        let e = resolved(&Store::default(), &stream).unwrap_err();
        assert!(e.to_string().contains(message), "{e}");
    }
}

#[test]
fn a_folder_of_this_machine_is_opened_by_its_contents() {
    let list = format!("/list/index.json = {FILE_LIST}");
    let store = Store::of(&[
        "/set/index.json",
        "/set/0.tar",
        &list,
        "/list/0.jpg",
        "/tars/a/0.tar",
        "/tars/a/0.json",
        "/pictures/cat/0.png",
        "/other/0.mds",
        "/tokens/a.bin",
        "/split/train/index.json",
    ]);
    for (stream, expected) in [
        (remote("/set"), Some(Source::DataSet)),
        (local("/set"), Some(Source::DataSet)),
        (with_split("/split", "train"), Some(Source::DataSet)),
        (remote("/list"), files(&FILE, "/list", Files::ByList)),
        (remote("/tars"), files(&TAR, "/tars", Files::OfKind)),
        (local("/pictures"), files(&FILE, "/pictures", Files::OfKind)),
        (with_split("/tars", "a"), files(&TAR, "/tars/a", Files::OfKind)),
        (remote("/other"), None),
        (remote("/tokens"), None),
        (remote("/absent"), None),
        (local("s3://b/tars"), Some(Source::DataSet)),
    ] {
        assert_eq!(resolved(&store, &stream).unwrap().0, expected, "{stream:?}");
    }
    assert!(store.requests.borrow().iter().all(|request| request.starts_with("first")), "{:?}", store.requests);
}

#[test]
fn a_folder_of_texts_has_their_splits_unless_further_files_are_there() {
    let store = Store::of(&[
        "/rows/train.csv",
        "/rows/test.csv",
        "/rows/README.md",
        "/pictures/0.png",
        "/pictures/labels.csv",
        "/tars/0.tar",
        "/tars/sizes.json",
        "s3://b/rows/0.jsonl",
    ]);
    let names = |stream: &StreamConfig| match resolved(&store, stream).unwrap() {
        (Some(Source::Files { kind, files: Files::Listed { names, .. }, .. }), _)
        | (Some(Source::DataSet), Some(Source::Files { kind, files: Files::Listed { names, .. }, .. })) => {
            (kind, names)
        }
        other => panic!("{stream:?}: {other:?}"),
    };
    assert_eq!(names(&with_split("/rows", "test")), (&CELLS, texts(&["test.csv"])));
    assert_eq!(names(&remote("s3://b/rows")), (&JSON_LINES, texts(&["0.jsonl"])));
    assert!(resolved(&store, &remote("/rows")).unwrap_err().to_string().contains("more than one split"));
    assert_eq!(resolved(&store, &remote("/pictures")).unwrap().0, files(&FILE, "/pictures", Files::OfKind));
    assert_eq!(resolved(&store, &remote("/tars")).unwrap().0, files(&TAR, "/tars", Files::OfKind));
}

#[test]
fn a_folder_of_a_store_is_a_data_set_before_it_is_listed() {
    let store = Store { kept: "s3://b/kept", ..Store::of(&["s3://b/tars/0.tar", "s3://b/empty/x"]) };
    for (folder, first, then) in [
        ("s3://b/tars", Some(Source::DataSet), files(&TAR, "s3://b/tars", Files::OfKind)),
        ("s3://b/empty", Some(Source::DataSet), None),
        ("s3://b/kept", files(&FILE, "s3://b/kept", Files::OfKind), None),
    ] {
        assert_eq!(resolved(&store, &remote(folder)).unwrap(), (first, then), "{folder}");
    }
    let before = |folder: &str| resolve(FOLDER, &Known { stream: &remote(folder), has_no_index: false, facts: &store });
    store.requests.borrow_mut().clear();
    before("s3://b/tars").unwrap();
    assert!(store.requests.borrow().is_empty(), "the request for the index shows it");
}

#[test]
fn the_splits_of_energon_come_before_tables_and_tars() {
    let splits = " = split_parts:\n  train: [a/0.tar]\n  val: [a/1.tar]\n";
    let yaml = format!("/d/.nv-meta/split.yaml{splits}");
    let in_store = format!("s3://b/.nv-meta/split.json{splits}");
    let unlisted = format!("s3://u/.nv-meta/split.yaml{splits}");
    let files = ["/d/a/0.tar", "/d/a/1.tar", "/d/0.parquet", &yaml, "s3://b/0.parquet", &in_store, &unlisted];
    let store = Store { unlisted: "s3://u", ..Store::of(&files) };
    for root in ["/d", "s3://b", "s3://u"] {
        let (first, then) = resolved(&store, &with_split(root, "train")).unwrap();
        let expected = named_files(&TAR, root, &["a/0.tar"]);
        assert_eq!(if root == "/d" { first } else { then }, expected, "{root}");
    }
    let e = resolved(&store, &with_split("/d", "test")).unwrap_err();
    assert!(e.to_string().contains("no split test; there are train, val"), "{e}");
    let endless = format!("/d/.nv-meta/split.yaml = {}", "#".repeat((64 << 20) + 1));
    let e = resolved(&Store::of(&["/d/a/0.tar", &endless]), &with_split("/d", "train")).unwrap_err();
    assert!(e.to_string().contains("too large") && e.to_string().contains("split.yaml"), "{e}");
}

#[test]
fn the_tables_of_a_split_are_found_by_names_and_card() {
    let names = ["README.md = ---\n---\n", "data/test-00000-of-00001.parquet", "data/train-00000-of-00001.parquet"];
    let all: Vec<String> = names.iter().map(|name| format!("/d/{name}")).collect();
    let store = Store::of(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let listed = entries(&["README.md", names[1], names[2]]);
    let expected = Files::Listed { names: texts(&names[2..]), entries: listed };
    assert_eq!(resolved(&store, &with_split("/d", "train")).unwrap().0, files(&PARQUET, "/d", expected));
    assert!(store.requests.borrow().contains(&"file /d/README.md".to_owned()));
    let e = resolved(&store, &remote("/d")).unwrap_err();
    assert!(e.to_string().contains("more than one split (test, train)"), "{e}");
    let e = resolved(&Store::of(&["/d/a.parquet", "/d/b.arrow"]), &remote("/d")).unwrap_err();
    assert!(e.to_string().contains("several kinds"), "{e}");
}

#[test]
fn a_data_set_that_the_hub_converts_is_read_from_the_converted_branch() {
    let converted = "hf://datasets/o/n@refs/convert/parquet";
    let table = format!("{converted}/default/train/0000.parquet");
    let store = Store::of(&["hf://datasets/o/n/a.jsonl", "hf://datasets/o/t/0.tar", &table]);
    let names = texts(&["default/train/0000.parquet"]);
    let expected = files(&PARQUET, converted, Files::Listed { entries: entries(&names), names });
    assert_eq!(resolved(&store, &remote("hf://datasets/o/n")).unwrap(), (Some(Source::DataSet), expected));
    let tars = files(&TAR, "hf://datasets/o/t", Files::OfKind);
    assert_eq!(resolved(&store, &remote("hf://datasets/o/t")).unwrap().1, tars, "a folder of tars is read as it is");
}

#[test]
fn a_folder_of_two_kinds_is_an_error_that_names_both() {
    let e = resolved(&Store::of(&["/d/0.tar", "/d/1.png"]), &remote("/d")).unwrap_err();
    assert!(e.kind() == ErrorKind::Config && e.to_string().contains("0.tar"), "{e}");
}

#[test]
fn a_list_to_be_kept_is_made_of_all_files_whatever_the_folder_has() {
    let store = Store::of(&["/t/index.json", "/t/train/0.parquet", "/t/test/0.parquet", "/p/index.json", "/p/0.png"]);
    let to_list =
        |stream: &StreamConfig| resolve(LISTING, &Known { stream, has_no_index: false, facts: &store }).unwrap();
    let tables = named_files(&PARQUET, "/t", &["test/0.parquet", "train/0.parquet"]);
    assert_eq!(to_list(&remote("/t")), tables);
    assert_eq!(to_list(&remote("/p")), files(&FILE, "/p", Files::OfKind));
    assert_eq!(to_list(&remote("/p/*.png")), files(&FILE, "/p", Files::Named(Names::Patterns(texts(&["*.png"])))));
    assert_eq!(to_list(&remote("/none")), None);
}
