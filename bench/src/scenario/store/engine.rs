//! The engine's store.

use super::work::{ACCESS_KEY, Object, SECRET_KEY, Took, Work};
use crate::machine::own_cpu_seconds;
use crate::scenario::served::BUCKET;
use forebay_loader::Result;
use forebay_loader::clock::Clock;
use forebay_loader::stats::Stats;
use forebay_loader::store::{FetchBuffer, FetchRequest, FetchTicket, Remote, S3Settings, StoreConfig, Stores};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Store with its connections, which all rounds share as all epochs of a job do.
pub(super) struct Engine {
    remote: Remote,
    /// Memory of finished objects. The first access to new memory costs more than the transfer, and the cache reuses its
    /// buffers as well.
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

    /// Fetches every object.
    pub(super) fn fetch(&mut self, objects: &[Object]) -> Result<Took> {
        let (cpu, start) = (own_cpu_seconds(), Instant::now());
        let mut on_the_way: VecDeque<FetchTicket> = VecDeque::new();
        for object in objects {
            if self.spare.is_empty() {
                let ticket = on_the_way.pop_front().expect("every buffer is with one");
                self.spare.push(ticket.wait()?);
            }
            let mut into = self.spare.pop().expect("just released");
            into.resize(object.bytes as usize, 0);
            let request = FetchRequest { into, ..FetchRequest::new(object.key.clone(), 0) };
            on_the_way.push_back(self.remote.fetch(request)?);
        }
        for ticket in on_the_way {
            self.spare.push(ticket.wait()?);
        }
        Ok(Took { seconds: start.elapsed().as_secs_f64(), cpu_seconds: own_cpu_seconds() - cpu })
    }
}
