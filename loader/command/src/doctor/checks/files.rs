//! Files of a data set: compared with the index, and files that the index does not name.

use super::check::{Check, CheckRun};
use crate::doctor::finding::{Findings, Problem, Severity, Subject};
use forebay_loader::format::INDEX_BASENAME;
use forebay_loader::sync::{AtomicUsize, Ordering, in_threads};
use forebay_loader::verify::{ShardState, Verification};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

const NAME: &str = "files";

/// Ends of the names of files that a program did not finish.
const UNFINISHED: &[&str] = &[".tmp", ".part", ".new", ".partial", ".incomplete"];

/// The check. Files of a store are not read a second time: the samples that were read come from them.
#[derive(Default)]
pub(super) struct Files;

impl Check for Files {
    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        for (stream, folder) in run.source.folders.iter().enumerate() {
            numbered(stream, run, findings);
            let Some(folder) = folder else { continue };
            compare(stream, folder, run, findings);
            if folder.join(INDEX_BASENAME).is_file() {
                leftover(stream, folder, run, findings);
            }
        }
    }
}

/// Compares all shards with their hashes and sizes in the index, if there is one.
fn compare(stream: usize, folder: &Path, run: &CheckRun<'_>, findings: &mut Findings) {
    let Ok(verification) = Verification::open(&folder.to_string_lossy(), None) else { return };
    let next = AtomicUsize::new(0);
    let check = || {
        let mut damaged = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= verification.shards() {
                return damaged;
            }
            match verification.check(number) {
                Ok(ShardState::Whole { .. }) => {}
                Ok(ShardState::Absent) => damaged.push((number, None)),
                Ok(ShardState::Damaged(files)) => damaged.extend(files.into_iter().map(|file| (number, Some(file)))),
                // Also a part of the samples' check.
                Err(_) => {}
            }
        }
    };
    let mut damaged: Vec<_> = in_threads(run.threads, check).into_iter().flatten().flatten().collect();
    damaged.sort_by_key(|(number, _)| *number);
    for (number, file) in damaged {
        let advice = "copy the file again, or repair it with `forebay verify FOLDER --remote URL --repair`";
        let (message, name, detail) = match file {
            Some(file) => ("files differ from the index", run.source.in_stream(stream, file.name), file.reason),
            None => ("files of shards are missing", run.source.name_of_shard(stream, number), String::new()),
        };
        findings.add(Problem::new(Severity::Error, NAME, message, advice), Subject::Named(name), detail);
    }
}

/// Finds the gaps of files that are numbered as `train-00001-of-00004.parquet`.
fn numbered(stream: usize, run: &CheckRun<'_>, findings: &mut Findings) {
    let mut lists: BTreeMap<(String, usize, String), BTreeSet<usize>> = BTreeMap::new();
    for shard in 0..run.source.shards(stream).len() {
        if let Some((start, number, of, end)) = number_of(&run.source.file_of_shard(stream, shard)) {
            lists.entry((start, of, end)).or_default().insert(number);
        }
    }
    // A pattern may choose a part on purpose.
    let is_pattern = run.source.streams[stream].contains(['*', '?', '{', '[']);
    let severity = if is_pattern { Severity::Note } else { Severity::Warning };
    for ((start, of, end), present) in lists {
        let first = usize::from(present.contains(&of));
        for number in (first..of).filter(|number| !present.contains(number)) {
            let problem = Problem::new(severity, NAME, "files of a numbered list are missing", "copy them, too");
            let name = run.source.in_stream(stream, format!("{start}-{number:05}-of-{of:05}{end}"));
            findings.add(problem, Subject::Named(name), "");
        }
    }
}

/// Splits a name into its start, number, the number of files, and its end.
fn number_of(name: &str) -> Option<(String, usize, usize, String)> {
    let (front, back) = name.rsplit_once("-of-")?;
    let (start, number) = front.rsplit_once('-').filter(|(_, number)| number.len() == 5)?;
    let of = back.get(..5)?;
    let (number, of) = (number.parse().ok()?, of.parse().ok()?);
    // Some lists begin with 1.
    (number <= of).then(|| (start.to_owned(), number, of, back[5..].to_owned()))
}

/// Finds the files of a folder that its index does not name.
fn leftover(stream: usize, folder: &Path, run: &CheckRun<'_>, findings: &mut Findings) {
    let shards = run.source.shards(stream);
    if shards.iter().any(|shard| shard.recipe.is_some()) {
        return;
    }
    let files = || shards.iter().flat_map(|shard| shard.files()).flat_map(|pair| [Some(pair.raw), pair.zip]).flatten();
    let known: HashSet<&str> = files().map(|file| file.basename.as_str()).collect();
    let extension = |name: &str| Path::new(name).extension().map(|e| e.to_string_lossy().into_owned());
    let extensions: HashSet<String> = known.iter().filter_map(|name| extension(name)).collect();
    let root = format!("{}/", folder.display());
    let listed = run.session.objects().and_then(|objects| {
        objects.list(&root, true)?.map(|entry| Ok(entry?.url)).collect::<forebay_loader::Result<Vec<_>>>()
    });
    for url in listed.unwrap_or_default() {
        let name = url.rsplit_once(&*root).map_or(url.as_str(), |(_, name)| name);
        let is_hidden = name.split('/').any(|part| part.starts_with('.'));
        if is_hidden || known.contains(name) || name.ends_with(INDEX_BASENAME) {
            continue;
        }
        let is_unfinished = UNFINISHED.iter().any(|end| name.ends_with(end));
        let is_shard = extension(name).is_some_and(|extension| extensions.contains(&extension));
        let severity = if is_unfinished || is_shard { Severity::Warning } else { Severity::Note };
        let message = "files are in the folder, and not in its index";
        let advice = "write the index again if they belong to the data set, else remove them";
        let subject = Subject::Named(run.source.in_stream(stream, name.to_owned()));
        findings.add(Problem::new(severity, NAME, message, advice), subject, "");
    }
}
