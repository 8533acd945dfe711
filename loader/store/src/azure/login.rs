//! Tokens of the login of Azure's command line, as `az login` leaves it.

use crate::context::ThreadContext;
use crate::credentials::{Token, TokenCache};
use crate::failure::Failure;
use crate::{Error, ErrorKind};
use forebay_core::sync::{Arc, AtomicBool, Mutex, Ordering, spawn};
use http::HeaderValue;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::Value;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ARGUMENTS: [&str; 6] =
    ["account", "get-access-token", "--output", "json", "--resource", "https://storage.azure.com"];

/// Longest time for the command, which is a Python program that may refresh the login over the network.
const LIMIT: Duration = Duration::from_secs(60);

/// Time until the command is run again after it failed: it takes a second, and each request needs a token.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Longest output of the command.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// Login of one remote, shared by its requests.
pub(super) struct Login {
    /// `None` without a login.
    command: Option<PathBuf>,
    tokens: TokenCache,
    /// It had a token.
    is_used: AtomicBool,
    /// The last failure, and the time until which it is returned again.
    failed: Mutex<Option<(Duration, Error)>>,
}

impl Login {
    pub(super) fn new(command: Option<PathBuf>) -> Self {
        Self { command, tokens: TokenCache::default(), is_used: AtomicBool::new(false), failed: Mutex::new(None) }
    }

    /// Returns true if this user has logged in.
    pub(super) fn is_present(&self) -> bool {
        self.command.is_some()
    }

    /// Returns true if the login has had a token.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Returns the header with the token. A login that has ended is as good as none.
    pub(super) async fn header(&self, context: &ThreadContext) -> Result<HeaderValue, Failure> {
        let shared = &context.shared;
        let fetch = async || {
            if let Some((until, error)) = &*self.failed.lock()
                && shared.clock.now() < *until
            {
                return Err(Failure::permanent(error.duplicate()).absent());
            }
            let command = self.command.as_deref().unwrap_or(Path::new("az"));
            token(context, command).await.map_err(|why| {
                let error = Error::new(ErrorKind::Permission, format!("{why}: run `az login`"));
                shared.stats.note(error.to_string());
                *self.failed.lock() = Some((shared.clock.now() + FAILURE_PAUSE, error.duplicate()));
                Failure::permanent(error).absent()
            })
        };
        let header = self.tokens.get(shared, fetch).await?;
        self.is_used.store(true, Ordering::Relaxed);
        Ok(header)
    }

    /// Records that the store rejected a request with the header `sent`.
    pub(super) fn reject(&self, sent: &HeaderValue) {
        self.tokens.reject(sent);
    }
}

/// Runs the command and reads its token. Its texts are not part of the reason for a failure.
async fn token(context: &ThreadContext, command: &Path) -> Result<Token, &'static str> {
    const NO_TOKEN: &str = "the Azure command line has no token";
    let running = Running::start(command).map_err(|_| "the Azure command line cannot be started")?;
    let output = running.output(context).await?.ok_or(NO_TOKEN)?;
    let document: Value = serde_json::from_slice(&output).map_err(|_| NO_TOKEN)?;
    let bearer = document.get("accessToken").and_then(Value::as_str).ok_or(NO_TOKEN)?;
    // Older versions have only a local time.
    let end = document.get("expires_on").and_then(Value::as_u64).map(Duration::from_secs);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let lifetime = end.map_or(Duration::from_secs(600), |end| end.saturating_sub(now));
    Token::new(&context.shared, bearer, lifetime).map_err(|_| NO_TOKEN)
}

/// Running command, which is killed with its own children if it is dropped.
struct Running {
    child: Option<Child>,
    /// Number of the command and of its group; `None` once a new process may have it.
    group: Arc<Mutex<Option<Pid>>>,
}

impl Running {
    fn start(command: &Path) -> io::Result<Self> {
        let mut command = Command::new(command);
        command.args(ARGUMENTS).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn()?;
        let group = Arc::new(Mutex::new(Some(Pid::from_child(&child))));
        Ok(Self { child: Some(child), group })
    }

    /// Waits for the end of the command, on a new thread. `None` for a failure of the command.
    async fn output(mut self, context: &ThreadContext) -> Result<Option<Vec<u8>>, &'static str> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        let group = self.group.clone();
        let (send, receive) = tokio::sync::oneshot::channel();
        let wait = move || {
            // Fails if the token is not needed any more.
            let _ = send.send(wait(&mut child, &group));
        };
        spawn("fb-az", wait).map_err(|_| "the Azure command line cannot be started")?;
        match context.within(LIMIT, receive).await {
            Some(Ok(output)) => Ok(output.ok().flatten()),
            _ => Err("the Azure command line does not respond"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = *self.group.lock() {
            // Fails if all its processes have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

/// Returns the output of a command that succeeds.
fn wait(child: &mut Child, group: &Mutex<Option<Pid>>) -> io::Result<Option<Vec<u8>>> {
    let mut output = Vec::new();
    let stdout = child.stdout.take();
    let read = stdout.map_or(Ok(0), |stdout| stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut output));
    // The number is the command's until its status is fetched, which is not done before the number is forgotten.
    while let Err(e) = waitid(WaitId::Pid(Pid::from_child(child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
        if e != rustix::io::Errno::INTR {
            break;
        }
    }
    *group.lock() = None;
    let status = child.wait()?;
    read.map(|_| status.success().then_some(output))
}
