//! Files that are fetched outside of the engine: a queue between the threads that want them and whoever fetches them.
//!
//! A thread that wants a file calls [`Fetcher::fetch`] on what [`FetchQueue::fetchers`] gave, and waits. Whoever fetches
//! takes [`Wanted`] files from [`FetchQueue::next`], several side by side, and answers each with an open file. The two
//! sides share nothing else, so the engine's threads stay out of what the other side has, such as an interpreter's lock.

use super::fetcher::{Fetcher, Standing};
use crate::sync::{Arc, Condvar, Mutex};
use crate::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often whoever waits for a file looks how far it is: as often as for the engine's own downloads.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Folders below the one for a file in which it may be put together.
const LEVELS_MAX: usize = 8;

/// Fetches that go side by side: threads that read from one data set ask for a file each, and a machine has dozens of
/// processes that read.
const WANTED_MAX: usize = 8;

/// The same with those that nobody waits for any more: what is under way goes on to its end.
const RUNNING_MAX: usize = 32;

/// Files of one reader that are wanted. Each belongs to a thread that waits, so there are never many.
#[derive(Clone, Debug, Default)]
pub struct FetchQueue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queued: VecDeque<Arc<Request>>,
    /// Numbers of fetches that are to be called off. Bounded by those that run.
    called_off: VecDeque<u64>,
    /// Fetches that run, and somebody waits for.
    wanted: usize,
    /// Fetches that run, and nobody waits for.
    given_up: usize,
    /// Requests so far.
    count: u64,
    closed: bool,
}

/// What [`FetchQueue::next`] asks for.
#[derive(Debug)]
pub enum NextFetch {
    /// Fetch this file, beside those under way.
    Wanted(Wanted),
    /// Stop the fetch of this number if that can be done: nobody waits for it, and it failed to end.
    CallOff(u64),
}

impl FetchQueue {
    /// A fetcher for each of `streams`, at its number. The queue closes when all of them have gone.
    pub fn fetchers(&self, streams: &[usize]) -> Vec<Option<Arc<dyn Fetcher>>> {
        let owner = Arc::new(Owner(self.clone()));
        let mut fetchers: Vec<Option<Arc<dyn Fetcher>>> = Vec::new();
        for &stream in streams {
            fetchers.resize_with(fetchers.len().max(stream + 1), || None);
            fetchers[stream] = Some(Arc::new(Outside { owner: owner.clone(), stream }));
        }
        fetchers
    }

    /// Waits for what is to be done next; `None` when there will be no more.
    pub fn next(&self) -> Option<NextFetch> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(number) = state.called_off.pop_front() {
                return Some(NextFetch::CallOff(number));
            }
            let has_room = state.wanted < WANTED_MAX && state.wanted + state.given_up < RUNNING_MAX;
            if has_room && let Some(request) = state.queued.pop_front() {
                // It may have been given up since it was asked for.
                if request.begin() {
                    state.wanted += 1;
                    return Some(NextFetch::Wanted(Wanted { request, process: std::process::id() }));
                }
                continue;
            }
            if state.closed {
                return None;
            }
            state = self.0.changed.wait(state);
        }
    }

    /// Refuses further requests and ends every [`next`](Self::next). Who waits for a file that nobody has begun with hears
    /// that nobody will.
    pub fn close(&self) {
        let mut state = self.0.state.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.queued);
        drop(state);
        self.0.changed.notify_all();
        for request in left {
            request.end(Err(closed()));
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the data set was closed, or its process ends")
}

/// Closes the queue when the last fetcher of its reader has gone.
#[derive(Debug)]
struct Owner(FetchQueue);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A stream's files, as whoever takes from the queue fetches them.
#[derive(Debug)]
struct Outside {
    owner: Arc<Owner>,
    stream: usize,
}

impl Fetcher for Outside {
    fn fetch(&self, key: &str, watch: &dyn Fn(Standing) -> Result<()>) -> Result<File> {
        let shared = &self.owner.0.0;
        let mut state = shared.state.lock();
        if state.closed {
            return Err(closed());
        }
        let request = Arc::new(Request {
            number: state.count,
            stream: self.stream,
            key: key.to_owned(),
            shared: shared.clone(),
            state: Mutex::default(),
            changed: Condvar::default(),
        });
        state.count += 1;
        state.queued.push_back(request.clone());
        drop(state);
        shared.changed.notify_all();
        request.wait(watch)
    }
}

/// One file that a thread waits for.
///
/// Whoever changes its phase keeps the counts of `shared`, afterwards: its own lock is never held around theirs.
#[derive(Debug)]
struct Request {
    number: u64,
    stream: usize,
    key: String,
    shared: Arc<Shared>,
    state: Mutex<Answering>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Answering {
    phase: Phase,
    answer: Option<Result<File>>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Queued,
    /// It is fetched, into this folder.
    Running(Option<PathBuf>),
    /// It is fetched, and nobody waits any more.
    GivenUp,
    Ended,
}

impl Request {
    /// Somebody begins with it; false when nobody waits for it any more.
    fn begin(&self) -> bool {
        let mut state = self.state.lock();
        let is_wanted = matches!(state.phase, Phase::Queued);
        if is_wanted {
            state.phase = Phase::Running(None);
        }
        is_wanted
    }

    /// It is over; the first answer counts.
    fn end(&self, answer: Result<File>) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.phase, Phase::Ended);
        if !matches!(before, Phase::Ended) {
            state.answer = Some(answer);
        }
        drop(state);
        match before {
            Phase::Running(_) => self.shared.state.lock().wanted -= 1,
            Phase::GivenUp => self.shared.state.lock().given_up -= 1,
            Phase::Queued => {}
            Phase::Ended => return,
        }
        self.changed.notify_all();
        self.shared.changed.notify_all();
    }

    /// Nobody waits any more. With `call_off`, what fetches it is to stop.
    fn give_up(&self, call_off: bool) {
        let mut state = self.state.lock();
        let is_running = match state.phase {
            Phase::Queued => false,
            Phase::Running(_) => true,
            Phase::GivenUp | Phase::Ended => return,
        };
        state.phase = if is_running { Phase::GivenUp } else { Phase::Ended };
        drop(state);
        let mut shared = self.shared.state.lock();
        if is_running {
            shared.wanted -= 1;
            shared.given_up += 1;
            if call_off {
                shared.called_off.push_back(self.number);
            }
        } else {
            shared.queued.retain(|request| request.number != self.number);
        }
        drop(shared);
        self.shared.changed.notify_all();
    }

    fn wait(&self, watch: &dyn Fn(Standing) -> Result<()>) -> Result<File> {
        let mut state = self.state.lock();
        loop {
            if let Some(answer) = state.answer.take() {
                return answer;
            }
            state = self.changed.wait_timeout(state, LOOK_EVERY).0;
            if state.answer.is_some() {
                continue;
            }
            let begun = match &state.phase {
                Phase::Running(folder) => Some(folder.clone()),
                _ => None,
            };
            drop(state);
            let standing = match begun {
                Some(folder) => Standing::Running { bytes: folder.map_or(0, |folder| bytes_in(&folder, LEVELS_MAX)) },
                None => self.standing_in_queue(),
            };
            if let Err(e) = watch(standing) {
                // At the end of an epoch a download may as well come to its own.
                self.give_up(e.kind() != ErrorKind::Closed);
                return Err(e);
            }
            state = self.state.lock();
        }
    }

    fn standing_in_queue(&self) -> Standing {
        // Each of those before it ends or is given up. Where there is none, whoever should take it does not come, or
        // is busy with fetches that were given up and do not end: that time is limited as well.
        if self.shared.state.lock().wanted > 0 { Standing::Queued } else { Standing::Running { bytes: 0 } }
    }
}

/// A file that is to be fetched. Whoever waits for it gets an error when this goes without an answer.
#[derive(Debug)]
pub struct Wanted {
    request: Arc<Request>,
    process: u32,
}

impl Wanted {
    /// Tells it from the others of its queue.
    pub fn number(&self) -> u64 {
        self.request.number
    }

    /// Number of its stream.
    pub fn stream(&self) -> usize {
        self.request.stream
    }

    /// The file's path relative to the stream's remote.
    pub fn key(&self) -> &str {
        &self.request.key
    }

    /// Says in which folder the file is being put together, with nothing else in it: its growth is progress.
    pub fn put_together_in(&self, folder: PathBuf) {
        if let Phase::Running(into) = &mut self.request.state.lock().phase {
            *into = Some(folder);
        }
    }

    /// Gives whoever waits the file, open at its beginning, or says why there is none. The first answer counts.
    pub fn answer(&self, answer: Result<File>) {
        self.request.end(answer);
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        // A forked child has a copy, and not the thread that may hold its lock.
        if self.process == std::process::id() {
            self.request.end(Err(Error::internal("a download ended without an answer")));
        }
    }
}

/// Bytes of the files in `folder`, whatever they are called meanwhile, and in `levels` of folders below it: some downloaders
/// put files together in one of their own. Links are not followed.
fn bytes_in(folder: &Path, levels: usize) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let bytes_of = |entry: std::fs::DirEntry| match entry.metadata().ok()? {
        meta if meta.is_file() => Some(meta.len()),
        meta if meta.is_dir() && levels > 0 => Some(bytes_in(&entry.path(), levels - 1)),
        _ => None,
    };
    entries.filter_map(|entry| bytes_of(entry.ok()?)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicBool, Ordering, spawn};
    use std::sync::mpsc;

    fn empty() -> Result<File> {
        Ok(tempfile::tempfile().expect("a file"))
    }

    fn wanted(next: Option<NextFetch>) -> Wanted {
        match next {
            Some(NextFetch::Wanted(wanted)) => wanted,
            other => panic!("{other:?}"),
        }
    }

    /// Asks for `key` in a thread of its own, which gives up when `watch` says so; what it came to.
    fn ask(
        fetcher: &Arc<dyn Fetcher>,
        key: &str,
        watch: impl Fn(Standing) -> Result<()> + Send + 'static,
    ) -> mpsc::Receiver<Result<File>> {
        let (sender, receiver) = mpsc::channel();
        let (fetcher, key) = (fetcher.clone(), key.to_owned());
        spawn("asks", move || sender.send(fetcher.fetch(&key, &watch)).expect("somebody listens")).expect("a thread");
        receiver
    }

    fn fetcher(queue: &FetchQueue) -> Arc<dyn Fetcher> {
        queue.fetchers(&[0]).swap_remove(0).expect("a stream")
    }

    #[test]
    fn several_files_are_fetched_side_by_side_and_no_more_than_the_limit() {
        let queue = FetchQueue::default();
        let fetcher = fetcher(&queue);
        let asked: Vec<_> = (0..=WANTED_MAX).map(|n| ask(&fetcher, &n.to_string(), |_| Ok(()))).collect();
        let mut under_way: Vec<Wanted> = (0..WANTED_MAX).map(|_| wanted(queue.next())).collect();
        assert_eq!(queue.0.state.lock().wanted, WANTED_MAX);
        // What ends makes room for the next one.
        under_way.pop().expect("one").answer(empty());
        under_way.push(wanted(queue.next()));
        let mut keys: Vec<String> = under_way.iter().map(|wanted| wanted.key().to_owned()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), WANTED_MAX, "each was handed out once");
        under_way.iter().for_each(|wanted| wanted.answer(empty()));
        for one in asked {
            one.recv().expect("an answer").expect("a file");
        }
        assert_eq!(queue.0.state.lock().wanted, 0);
    }

    #[test]
    fn what_was_given_up_makes_room_and_is_called_off_unless_the_epoch_is_over() {
        let queue = FetchQueue::default();
        let fetcher = fetcher(&queue);
        for (kind, called_off) in [(ErrorKind::Timeout, true), (ErrorKind::Closed, false)] {
            let begun = Arc::new(AtomicBool::new(false));
            let enough = begun.clone();
            let asked = ask(&fetcher, "slow", move |_| match enough.load(Ordering::Relaxed) {
                true => Err(Error::new(kind, "enough")),
                false => Ok(()),
            });
            let slow = wanted(queue.next());
            begun.store(true, Ordering::Relaxed);
            assert_eq!(asked.recv().expect("an answer").expect_err("given up").kind(), kind);
            let counts = |state: &State| (state.wanted, state.given_up);
            assert_eq!(counts(&queue.0.state.lock()), (0, 1));
            if called_off {
                assert!(matches!(queue.next(), Some(NextFetch::CallOff(number)) if number == slow.number()));
            }
            let asked = ask(&fetcher, "next", |_| Ok(()));
            wanted(queue.next()).answer(empty());
            asked.recv().expect("an answer").expect("a file");
            slow.answer(empty());
            assert_eq!(counts(&queue.0.state.lock()), (0, 0));
        }
    }

    #[test]
    fn a_request_waits_its_turn_only_while_others_get_on() {
        let queue = FetchQueue::default();
        let fetcher = fetcher(&queue);
        let (tell, told) = mpsc::channel();
        let asked = ask(&fetcher, "unserved", move |standing| {
            tell.send(standing).expect("somebody listens");
            Err(Error::new(ErrorKind::Timeout, "enough"))
        });
        assert_eq!(told.recv().expect("a look"), Standing::Running { bytes: 0 }, "nobody takes it: its time runs");
        asked.recv().expect("an answer").expect_err("given up");
        assert!(queue.0.state.lock().queued.is_empty(), "what was given up is not fetched");

        let first = ask(&fetcher, "first", |_| Ok(()));
        let under_way = wanted(queue.next());
        let (tell, told) = mpsc::channel();
        let second = ask(&fetcher, "second", move |standing| {
            let _ = tell.send(standing);
            Ok(())
        });
        assert_eq!(told.recv().expect("a look"), Standing::Queued);
        under_way.answer(empty());
        first.recv().expect("an answer").expect("a file");
        wanted(queue.next()).answer(empty());
        second.recv().expect("an answer").expect("a file");
    }

    #[test]
    fn files_are_counted_while_they_are_put_together_wherever_in_the_folder() {
        let queue = FetchQueue::default();
        let fetcher = fetcher(&queue);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("part"), b"1234").expect("written");
        std::fs::create_dir(folder.path().join("parts")).expect("made");
        std::fs::write(folder.path().join("parts/2"), b"123").expect("written");
        let (tell, told) = mpsc::channel();
        let asked = ask(&fetcher, "file", move |standing| {
            let _ = tell.send(standing);
            Ok(())
        });
        let under_way = wanted(queue.next());
        under_way.put_together_in(folder.path().to_owned());
        let standing = told.iter().find(|standing| *standing != Standing::Running { bytes: 0 });
        assert_eq!(standing, Some(Standing::Running { bytes: 7 }));
        drop(under_way);
        let error = asked.recv().expect("an answer").expect_err("dropped");
        assert!(error.to_string().contains("without an answer"), "{error}");
    }

    #[test]
    fn a_queue_closes_with_its_last_fetcher_and_ends_what_waits() {
        let queue = FetchQueue::default();
        let fetchers = queue.fetchers(&[0, 2]);
        assert!(fetchers[1].is_none());
        let fetcher = fetchers[2].clone().expect("a stream");
        let asked = ask(&fetcher, "file", |_| Ok(()));
        let under_way = wanted(queue.next());
        assert_eq!((under_way.stream(), under_way.key()), (2, "file"));
        under_way.answer(empty());
        asked.recv().expect("an answer").expect("a file");
        queue.close();
        assert!(queue.next().is_none());
        assert_eq!(fetcher.fetch("file", &|_| Ok(())).expect_err("closed").kind(), ErrorKind::Closed);

        let queue = FetchQueue::default();
        drop(queue.fetchers(&[0]));
        assert!(queue.next().is_none());
    }
}

#[cfg(test)]
mod models {
    use super::*;
    use crate::sync::{model, spawn};

    /// Files are asked for and fetched; with `closes`, somebody closes the queue at any moment.
    fn all_are_answered(closes: bool) {
        let queue = FetchQueue::default();
        let fetcher = queue.fetchers(&[0]).swap_remove(0).expect("a stream");
        let server = queue.clone();
        let server = spawn("server", move || {
            while let Some(next) = server.next() {
                match next {
                    NextFetch::Wanted(wanted) if wanted.key() == "0" => drop(wanted),
                    NextFetch::Wanted(wanted) => wanted.answer(Err(closed())),
                    NextFetch::CallOff(number) => panic!("{number} was not given up"),
                }
            }
        });
        let asks = |key: String| {
            let fetcher = fetcher.clone();
            spawn("asks", move || fetcher.fetch(&key, &|_| Ok(())).expect_err("no file comes of it")).expect("a thread")
        };
        let asked: Vec<_> = (0..2).map(|n| asks(n.to_string())).collect();
        if closes {
            queue.close();
        }
        asked.into_iter().for_each(|one| drop(one.join().expect("it ends")));
        drop(fetcher);
        server.expect("a thread").join().expect("it ends");
        let state = queue.0.state.lock();
        assert_eq!((state.wanted, state.given_up), (0, 0));
    }

    #[test]
    fn every_request_is_answered_and_the_queue_ends_with_its_fetchers() {
        model(|| all_are_answered(false));
    }

    #[test]
    fn a_queue_that_closes_leaves_nobody_waiting() {
        model(|| all_are_answered(true));
    }
}
