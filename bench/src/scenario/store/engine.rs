//! The engine's store as a contestant of the scenario `store`.

use super::work::{Object, Work};
use crate::machine::own_cpu_seconds;
use crate::scenario::s3_clients::{ACCESS_KEY, SECRET_KEY, Took};
use crate::scenario::served::BUCKET;
use forebay_loader::clock::Clock;
use forebay_loader::stats::Stats;
use forebay_loader::store::{FetchBuffer, FetchRequest, FetchTicket, Remote, S3Settings, StoreConfig, Stores};
use forebay_loader::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Store with its connections, which all rounds share as all epochs of a job do.
pub(super) struct Engine {
    remote: Remote,
    /// Memory of finished objects. The first access to new memory costs more than the transfer, and the cache reuses
    /// its buffers as well.
    spare: Vec<FetchBuffer>,
}

impl Engine {
    /// Opens the server's folder, or its bucket with `s3`.
    pub(super) fn open(work: &Work<'_>, s3: bool) -> Result<Self> {
        let settings = S3Settings {
            endpoint: Some(work.url.clone()),
            region: Some("us-east-1".to_owned()),
            access_key: Some(ACCESS_KEY.to_owned()),
            secret_key: Some(SECRET_KEY.to_owned()),
            ..S3Settings::default()
        };
        let config = StoreConfig {
            fetch_threads: work.fetch_threads,
            ca_file: Some(work.ca.to_owned()),
            s3: Some(settings),
            ..StoreConfig::default()
        };
        let stores = Stores::new(config, &Arc::new(Stats::default()), Clock::system())?;
        let remote = if s3 { stores.open(&format!("s3://{BUCKET}"))? } else { stores.open(&work.url)? };
        let longest = work.objects.iter().map(|o| o.bytes).max().unwrap_or(0) as usize;
        let touched = |_| {
            let mut buffer = FetchBuffer::new();
            buffer.resize(longest, 0);
            buffer
        };
        Ok(Self { remote, spare: (0..work.at_a_time).map(touched).collect() })
    }

    /// Fetches every object once, from the first request to the last byte.
    pub(super) fn fetch(&mut self, objects: &[Object]) -> Result<Took> {
        let (cpu, start) = (own_cpu_seconds(), Instant::now());
        self.run(objects.iter(), || ())?;
        Ok(Took { seconds: start.elapsed().as_secs_f64(), cpu_seconds: own_cpu_seconds() - cpu })
    }

    /// Fetches every object `passes` times and two more, without a pause. Returns the share of one pass in those
    /// between the first and the last one: a job's rate, without the latency of its first requests and without its
    /// tail.
    pub(super) fn fetch_without_ends(&mut self, objects: &[Object], passes: usize) -> Result<Took> {
        let marks = [objects.len(), objects.len() * (passes + 1)];
        let (mut ended, mut times) = (0, Vec::new());
        self.run(objects.iter().cycle().take(objects.len() * (passes + 2)), || {
            ended += 1;
            if marks.contains(&ended) {
                times.push((Instant::now(), own_cpu_seconds()));
            }
        })?;
        let [(begin, cpu_begin), (end, cpu_end)] = times[..] else {
            return Err(Error::internal("two marks of a run"));
        };
        let share = 1.0 / passes as f64;
        Ok(Took {
            seconds: end.duration_since(begin).as_secs_f64() * share,
            cpu_seconds: (cpu_end - cpu_begin) * share,
        })
    }

    /// Fetches `objects` in order, as many at a time as there are buffers, and calls `ended` after each.
    fn run<'o>(&mut self, objects: impl Iterator<Item = &'o Object>, mut ended: impl FnMut()) -> Result<()> {
        let mut on_the_way: VecDeque<FetchTicket> = VecDeque::new();
        let mut end = |ticket: FetchTicket| ticket.wait().inspect(|_| ended());
        for object in objects {
            if self.spare.is_empty() {
                let ticket = on_the_way.pop_front().expect("every buffer is with one");
                self.spare.push(end(ticket)?);
            }
            let mut into = self.spare.pop().expect("just released");
            into.resize(object.bytes as usize, 0);
            on_the_way.push_back(self.remote.fetch(FetchRequest::with_memory(object.key.clone(), into))?);
        }
        for ticket in on_the_way {
            self.spare.push(end(ticket)?);
        }
        Ok(())
    }
}
