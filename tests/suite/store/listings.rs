//! Listings that end early or never: each is an error that names the store and the page.

use crate::rig::{Rig, config, content};
use crate::targets::{FOLDER, Store};
use forebay_loader::store::{Destination, GcsSettings, HfSettings, StoreConfig};
use forebay_loader::{Error, ErrorKind};
use forebay_tests::server::{Fault, Hub, Options, Rule};
use std::time::Duration;

/// Stores, one for each form of listings.
#[derive(Clone, Copy, Debug)]
enum Lister {
    Of(Store),
    Hub,
    Emulator,
}

const LISTERS: [Lister; 7] = [
    Lister::Of(Store::S3),
    Lister::Of(Store::Gcs),
    Lister::Of(Store::Azure),
    Lister::Of(Store::Oci),
    Lister::Of(Store::Dbfs),
    Lister::Hub,
    Lister::Emulator,
];

impl Lister {
    fn open(self, stall_timeout: Duration) -> (Rig, Destination) {
        let change = |config| StoreConfig { stall_timeout, ..config };
        let (options, of_url): (_, fn(&str) -> StoreConfig) = match self {
            Self::Of(store) => return store.open_with(|options| options, change),
            Self::Hub => {
                let (repository, revision, commit) = ("me/set".into(), "main".into(), String::new());
                let hub = Hub { repository, revision, files: "http://127.0.0.1:1".into(), commit };
                (Options { hub: Some(hub), list_page: 3, ..Options::default() }, |url| {
                    let hf = HfSettings { endpoint: Some(url.to_owned()), ..HfSettings::default() };
                    StoreConfig { hf: Some(hf), ..config() }
                })
            }
            Self::Emulator => (Options::default(), |url| {
                let gcs = GcsSettings { endpoint: Some(url.to_owned()), anonymous: true, ..GcsSettings::default() };
                StoreConfig { gcs: Some(gcs), ..config() }
            }),
        };
        let rig = Rig::of_store(options, |url| change(of_url(url)));
        let destination = rig.stores.open_destination(&self.address()).expect("valid");
        (rig, destination)
    }

    fn address(self) -> String {
        match self {
            Self::Of(store) => store.address(),
            Self::Hub => format!("hf://datasets/me/set/{FOLDER}"),
            Self::Emulator => format!("gs://bucket/{FOLDER}"),
        }
    }

    /// Returns text in the address of each page.
    fn request(self) -> &'static str {
        match self {
            Self::Of(Store::S3 | Store::Gcs | Store::GcsHmac) => "list-type=2",
            Self::Of(Store::Azure) => "comp=list",
            Self::Of(Store::Oci) => "fields=name",
            Self::Of(Store::Dbfs) => "fs/directories",
            Self::Hub => "/tree/",
            Self::Emulator => "/storage/v1",
        }
    }

    /// Returns a page with these keys, after which there is the page `next`, and its header.
    fn page(self, keys: &[&str], next: Option<&str>) -> Fault {
        let all = |item: fn(String) -> String| keys.iter().map(move |key| item(format!("{FOLDER}/{key}")));
        let joined = |items: Vec<String>| items.join(",");
        let json = |text: Option<&str>| text.map_or("null".to_owned(), |text| format!("\"{text}\""));
        let text = match self {
            Self::Of(Store::S3 | Store::Gcs | Store::GcsHmac) => {
                let next = next.map(|next| format!("<NextContinuationToken>{next}</NextContinuationToken>"));
                let contents = all(|key| format!("<Contents><Key>{key}</Key><Size>3</Size></Contents>"));
                format!(
                    "<ListBucketResult><KeyCount>{}</KeyCount><IsTruncated>{}</IsTruncated>{}{}</ListBucketResult>",
                    keys.len(),
                    next.is_some(),
                    next.unwrap_or_default(),
                    contents.collect::<String>()
                )
            }
            Self::Of(Store::Azure) => {
                let properties = "<Properties><Content-Length>3</Content-Length></Properties>";
                let blobs: String =
                    keys.iter().map(|key| format!("<Blob><Name>{FOLDER}/{key}</Name>{properties}</Blob>")).collect();
                let marker = next.map_or("<NextMarker/>".to_owned(), |next| format!("<NextMarker>{next}</NextMarker>"));
                format!("<EnumerationResults><Blobs>{blobs}</Blobs>{marker}</EnumerationResults>\r\n")
            }
            Self::Of(Store::Oci) => {
                let objects = joined(all(|key| format!(r#"{{"name": "{key}", "size": 3}}"#)).collect());
                format!(r#"{{"objects": [{objects}], "nextStartWith": {}}}"#, json(next))
            }
            Self::Of(Store::Dbfs) => {
                let files = joined(keys.iter().map(|key| format!(r#"{{"name": "{key}", "file_size": 3}}"#)).collect());
                format!(r#"{{"contents": [{files}], "next_page_token": {}}}"#, json(next))
            }
            Self::Hub => {
                let link =
                    next.map(|next| ("link", format!("</api/datasets/me/set/tree/main?cursor={next}>; rel=\"next\"")));
                let files = joined(all(|key| format!(r#"{{"type": "file", "path": "{key}", "size": 3}}"#)).collect());
                return Fault::Page(format!("[{files}]"), link);
            }
            Self::Emulator => {
                let items = joined(all(|key| format!(r#"{{"name": "{key}", "size": "3"}}"#)).collect());
                format!(r#"{{"items": [{items}], "nextPageToken": {}}}"#, json(next))
            }
        };
        Fault::Page(text, None)
    }

    /// Lists a store with the pages `pages`, and then the last one again and again.
    fn list(self, pages: Vec<Fault>) -> Result<Vec<String>, Error> {
        let (rig, destination) = self.open(Duration::from_secs(600));
        let last = pages.len() - 1;
        for (at, page) in pages.into_iter().enumerate() {
            let rule = Rule::once(self.request(), page);
            rig.server.script(if at == last { rule.times(u64::MAX) } else { rule });
        }
        destination.list("", true).expect("started").take(10_000).map(|entry| entry.map(|entry| entry.key)).collect()
    }
}

fn check(lister: Lister, error: &Error, page: u32, hint: &str) {
    let text = error.to_string();
    assert!(text.contains(hint), "{lister:?}: {text}");
    assert!(text.contains(&format!("page {page}")) && text.contains(&lister.address()), "{lister:?}: {text}");
}

#[test]
fn a_listing_in_pages_is_complete_on_every_store() {
    for lister in LISTERS {
        let pages = vec![lister.page(&["a", "b"], Some("2")), lister.page(&[], Some("3")), lister.page(&["c"], None)];
        assert_eq!(lister.list(pages).unwrap_or_else(|e| panic!("{lister:?}: {e}")), ["a", "b", "c"], "{lister:?}");
    }
}

#[test]
fn a_page_that_names_a_next_one_without_its_mark_is_an_error() {
    let s3 = |page: &str| Fault::Page(format!("<ListBucketResult>{page}</ListBucketResult>"), None);
    let more = "<IsTruncated>true</IsTruncated><Contents><Key>k</Key><Size>3</Size></Contents>";
    let hub = |link: &str| Fault::Page("[]".into(), Some(("link", link.to_owned())));
    let azure = "<EnumerationResults><Blobs/></EnumerationResults>";
    for (lister, page, hint) in [
        (Lister::Of(Store::S3), s3(more), "has no NextContinuationToken"),
        (Lister::Of(Store::Gcs), s3(more), "has no NextContinuationToken"),
        (Lister::Of(Store::S3), s3(&format!("{more}<NextContinuationToken/>")), "has no NextContinuationToken"),
        (Lister::Of(Store::Azure), Fault::Page(azure.into(), None), "has no NextMarker"),
        (Lister::Hub, hub("<http://hub/a?cursor=b"), "Link header cannot be read"),
        (Lister::Hub, hub("<http://hub/a?cursor=b>; re"), "Link header cannot be read"),
        (Lister::Hub, hub("<>; rel=\"next\""), "Link header has no address"),
    ] {
        let pages = vec![lister.page(&["a"], Some("2")), page];
        check(lister, &lister.list(pages).expect_err("incomplete"), 2, hint);
    }
}

#[test]
fn a_page_with_a_different_number_of_keys_than_it_counts_is_an_error() {
    let lister = Lister::Of(Store::S3);
    let page = |count: u32, folders: &str| {
        let key = "<Contents><Key>some folder/ü/a</Key><Size>3</Size></Contents>";
        Fault::Page(format!("<ListBucketResult><KeyCount>{count}</KeyCount>{key}{folders}</ListBucketResult>"), None)
    };
    let folder = "<CommonPrefixes><Prefix>some folder/ü/b/</Prefix></CommonPrefixes>";
    for (count, folders) in [(0, ""), (2, ""), (0, folder), (3, folder)] {
        check(
            lister,
            &lister.list(vec![page(count, folders)]).expect_err("incomplete"),
            1,
            "a page of the listing declares",
        );
    }
    for (count, folders) in [(1, ""), (1, folder), (2, folder)] {
        lister.list(vec![page(count, folders)]).expect("some stores count the folders");
    }
}

#[test]
fn a_page_that_is_cut_or_a_different_document_is_an_error_at_any_byte() {
    for lister in LISTERS {
        let Fault::Page(whole, _) = lister.page(&["a", "b"], None) else { panic!("a page") };
        let whole = whole.trim_end();
        let cuts = (0..whole.len()).step_by(11).chain([whole.len() - 1]).filter(|cut| whole.is_char_boundary(*cut));
        let texts = cuts.map(|cut| whole[..cut].to_owned()).chain(["<html><body>Sign in</body></html>".to_owned()]);
        for text in texts {
            let error = lister.list(vec![lister.page(&["a"], Some("2")), Fault::Page(text.clone(), None)]);
            let error = error.expect_err(&text);
            check(lister, &error, 2, "");
            assert_eq!(error.kind(), ErrorKind::Format, "{lister:?}: {text}: {error}");
        }
    }
}

#[test]
fn a_fault_of_one_page_is_repeated() {
    for lister in LISTERS {
        let (rig, destination) = lister.open(Duration::from_secs(600));
        for page in [Fault::Page("<html>".into(), None), lister.page(&["a"], Some("2")), Fault::Page("{".into(), None)]
        {
            rig.server.script(Rule::once(lister.request(), page));
        }
        rig.server.script(Rule::always(lister.request(), lister.page(&["b"], None)));
        let listed = destination.list_all("").unwrap_or_else(|e| panic!("{lister:?}: {e}"));
        assert_eq!(listed.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["a", "b"], "{lister:?}");
    }
}

#[test]
fn a_mark_of_an_earlier_page_is_an_error_at_once() {
    for lister in LISTERS {
        for (period, keys) in [(1, ["a", "b", "c"]), (2, ["a", "b", "c"]), (3, ["a", "b", "c"])] {
            let (rig, destination) = lister.open(Duration::from_secs(600));
            for turn in 0..6 {
                let page =
                    lister.page(&[&format!("{}{turn}", keys[turn % period])], Some(&format!("{}", turn % period)));
                rig.server.script(Rule::once(lister.request(), page));
            }
            let error = destination.list_all("").expect_err("a cycle");
            check(lister, &error, period as u32 + 1, "repeats the token");
        }
    }
}

#[test]
fn the_first_page_under_ever_new_marks_is_an_error() {
    for lister in LISTERS {
        let error = lister.list(vec![lister.page(&["a"], Some("#"))]).expect_err("it has no end");
        check(lister, &error, 2, "repeats a page");
    }
}

#[test]
fn empty_pages_under_ever_new_marks_are_an_error() {
    for lister in LISTERS {
        // No time passes, because the clock is manual: their number has a bound.
        let error =
            lister.list(vec![lister.page(&["a"], Some("#")), lister.page(&[], Some("#"))]).expect_err("endless");
        check(lister, &error, 1001, "makes no progress: 1000 pages");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let (rig, destination) = lister.open(Duration::ZERO);
        rig.server.script(Rule::always(lister.request(), lister.page(&[], Some("#"))));
        check(lister, &destination.list_all("").expect_err("endless"), 1, "makes no progress: 1 pages");
    }
}

#[test]
fn the_first_page_has_an_entry_if_the_listing_has_one() {
    for lister in LISTERS {
        let (rig, destination) = lister.open(Duration::from_secs(600));
        for page in [lister.page(&[], Some("2")), lister.page(&[], Some("3")), lister.page(&["a"], None)] {
            rig.server.script(Rule::once(lister.request(), page));
        }
        let mut listing = destination.list("", true).expect("started");
        assert_eq!(listing.next_page().expect("listed").map(|page| page.len()), Some(1), "{lister:?}");
        assert!(listing.next_page().expect("listed").is_none(), "{lister:?}");
    }
}

#[test]
fn a_folder_that_is_gone_in_the_middle_of_its_listing_is_an_error() {
    for (lister, missing) in [
        (Lister::Of(Store::Dbfs), Fault::Text(404, r#"{"error_code": "NOT_FOUND"}"#.into())),
        (Lister::Hub, Fault::Text(404, r#"{"error_code": "EntryNotFound"}"#.into())),
    ] {
        assert_eq!(lister.list(vec![missing.clone()]).expect("a folder that does not exist"), [""; 0]);
        let error = lister.list(vec![lister.page(&["a"], Some("2")), missing]).expect_err("gone");
        check(lister, &error, 2, "");
    }
}

#[test]
fn all_unfinished_uploads_of_an_object_are_removed_page_by_page() {
    let (rig, destination) = Store::S3.open();
    // The answer to the first request for an upload is lost, and the list of uploads has two pages.
    rig.server.script(Rule::once("?uploads", Fault::LoseAnswer));
    let page =
        |inner: &str| Fault::Page(format!("<ListMultipartUploadsResult>{inner}</ListMultipartUploadsResult>"), None);
    let more =
        "<IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>m</NextUploadIdMarker>";
    rig.server.script(Rule::once("GET /bucket/?uploads", page(more)));
    destination.put("k", vec![content(350).into()]).expect("started").wait().expect("stored");
    assert_eq!(rig.server.unfinished_uploads(), 0);
}
