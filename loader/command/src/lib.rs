//! The command `forebay`: see a data set, check it, and copy it.
//!
//! ```text
//! arguments --parse--> Request::Run      a command of this crate: addresses(), then run(library)
//!                      Request::Package  a command of the Python package: its name and its arguments as JSON
//!                      Request::Done     help, version, completion, or wrong arguments: printed already
//! ```
//!
//! * `cli`: the grammar: all commands and their arguments, of the Python package too;
//! * `output`: the form of the results: text with or without colours, or JSON; tables and progress;
//! * `exit`: the exit codes;
//! * `completion`: completion in bash, zsh and fish;
//! * `data`: the data set that a command reads; `samples`: its samples as values; `text`: values as people read them;
//! * `run_file`: the file of a run, for the commands about its steps;
//! * `addresses`: objects, folders and patterns of stores; `reading`: the bytes of an object; `tally`: figures over
//!   many objects;
//! * `package`: the arguments of the commands of the Python package;
//! * one module for each command, with its `Args` and its [`Command`].
//!
//! The Python package runs it as its entry point `forebay`, and the binary of this crate without Python:
//!
//! ```
//! use forebay_command::{Exit, Request, parse};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("a.txt"), "text")?;
//! let request = parse(["ls".into(), folder.path().into()]);
//! let Request::Run(run) = request else { panic!("`ls` is a command of the crate") };
//! assert_eq!(run.run(None, Vec::new()), Exit::Success);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Add a command
//!
//! Write a module with an `Args` and a [`Command`], and name it in `cli`. Results go to the standard output through
//! `Output`, progress and errors to the standard error.

mod addresses;
mod bench;
mod cat;
mod cli;
mod completion;
mod cp;
mod data;
mod diff;
mod doctor;
mod exit;
mod info;
mod ls;
mod output;
mod package;
mod preview;
mod reading;
mod run_file;
mod samples;
mod tally;
mod text;
mod top;
mod which;

pub use cli::parse;
pub use exit::Exit;
pub use text::{bytes as size_text, one_line};

use forebay_loader::objects::{Objects, settings_from_json};
use forebay_loader::store::{LibraryStores, StoreConfig};
use forebay_loader::sync::{self, Arc};
use forebay_loader::{Error, Result};
use output::Output;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Interval in which a run notices that it was stopped.
const STOPPED_EVERY: Duration = Duration::from_millis(100);

/// Intervals after a stop in which a command may tidy up: 3 seconds.
const STOP_INTERVALS: u32 = 30;

/// Meaning of the arguments of a command line.
#[derive(Debug)]
pub enum Request {
    /// Command of this crate.
    Run(Run),
    /// Command of the Python package.
    Package {
        /// Name of the command.
        command: &'static str,
        /// Its arguments by their names, and `json`: true if the result is to be printed as JSON.
        arguments: serde_json::Map<String, serde_json::Value>,
    },
    /// Nothing is left to do: help, a version or an error has been printed.
    Done(Exit),
}

/// Command of this crate, with its arguments.
#[derive(Debug)]
pub struct Run {
    command: Box<dyn Command>,
    output: Output,
}

impl Run {
    /// Addresses that the command opens. If one of them has a scheme that the engine has no transport for, `run` needs
    /// a library that serves it.
    pub fn addresses(&self) -> Vec<String> {
        self.command.addresses()
    }

    /// True if the command shows facts of the calling program.
    pub fn shows_facts(&self) -> bool {
        self.command.shows_facts()
    }

    /// Returns the switch that stops the run.
    pub fn stop(&self) -> Stop {
        Stop(self.output.clone())
    }

    /// Runs the command in a thread, and prints its result or its error. It returns soon after a stop, also if the
    /// command waits for a store. `facts` are names and values that belong to the calling program, such as the versions
    /// of its libraries.
    pub fn run(self, library: Option<LibraryStores>, facts: Vec<(String, String)>) -> Exit {
        let output = self.output.clone();
        let session = Session { output: self.output, library, facts };
        let (sender, receiver) = sync_channel(1);
        let started = sync::spawn("forebay-command", move || {
            let ended = self.command.run(&session).unwrap_or_else(|error| session.output.fail(&error));
            // After a stop the receiver may be gone.
            let _ = sender.send(ended);
        });
        if let Err(e) = started {
            return output.fail(&Error::from_io(e, "the system cannot start a thread"));
        }
        let mut intervals = 0;
        while intervals < STOP_INTERVALS {
            match receiver.recv_timeout(STOPPED_EVERY) {
                Ok(exit) => return output.finish(exit),
                Err(RecvTimeoutError::Disconnected) => return output.fail(&Error::internal("the command panicked")),
                Err(RecvTimeoutError::Timeout) => intervals += u32::from(output.is_stopped()),
            }
        }
        output.finish(Exit::Failure)
    }
}

/// Switch that stops a run: the command ends where it is, and leaves nothing half done.
#[derive(Clone, Debug)]
pub struct Stop(Output);

impl Stop {
    /// Stops the run.
    pub fn set(&self) {
        self.0.stop();
    }
}

/// Command of this crate.
trait Command: std::fmt::Debug + Send {
    /// Addresses that the command opens.
    fn addresses(&self) -> Vec<String>;

    /// True if it shows facts of the calling program.
    fn shows_facts(&self) -> bool {
        false
    }

    /// Runs it.
    ///
    /// # Errors
    ///
    /// The errors of the engine. They are printed, and the exit code is [`Exit::Failure`].
    fn run(&self, session: &Session) -> Result<Exit>;
}

/// Surroundings of a command.
struct Session {
    output: Output,
    /// Remotes of schemes that the engine has no transport for.
    library: Option<LibraryStores>,
    /// Facts of the calling program: names and values.
    facts: Vec<(String, String)>,
}

impl Session {
    /// Opens the objects of all stores.
    ///
    /// # Errors
    ///
    /// When the system refuses threads.
    fn objects(&self) -> Result<Arc<Objects>> {
        self.objects_with(|_| {})
    }

    /// Opens them with different settings.
    fn objects_with(&self, set: impl FnOnce(&mut StoreConfig)) -> Result<Arc<Objects>> {
        let mut config = StoreConfig { library: self.library.clone(), ..settings_from_json("{}")? };
        set(&mut config);
        Ok(Arc::new(Objects::new(config)?))
    }
}
