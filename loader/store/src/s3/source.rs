//! Sources of credentials that a profile or the environment names: commands, services and roles.
//!
//! object_store has providers only for the machine's own credentials. `profile` finds the source; `requests` gets its
//! credentials; `provided` keeps them until they expire or are rejected.

use crate::{Error, Result};
use std::fmt;
use std::path::PathBuf;

/// Hosts that may be asked for credentials without TLS: this machine, and the agents of containers.
const PLAIN_HOSTS: [&str; 6] = ["localhost", "127.0.0.1", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Paths of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProfileFiles {
    pub(super) credentials: Option<PathBuf>,
    pub(super) config: Option<PathBuf>,
    /// Folder with the tokens of `aws sso login`.
    pub(super) sso_cache: Option<PathBuf>,
}

/// Addresses of the services.
#[derive(Clone, Debug, Default)]
pub(super) struct Services {
    pub(super) region: Option<String>,
    /// Address of the token service, if it is not AWS's.
    pub(super) sts: Option<String>,
    /// Address of the portal of single sign-on, if it is not AWS's.
    pub(super) sso: Option<String>,
}

/// Role that is assumed.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) seconds: Option<String>,
}

/// Role that is assumed with a token in a file.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) role: Role,
    pub(super) token_file: PathBuf,
}

/// Role of a session of single sign-on.
#[derive(Clone, Debug)]
pub(super) struct Sso {
    /// Name of the session, or its address in the older form: the name of the file with its token follows from it.
    pub(super) key: String,
    pub(super) profile: String,
    pub(super) region: String,
    pub(super) account: String,
    pub(super) role: String,
    pub(super) cache: Option<PathBuf>,
}

/// Origin of the first credentials.
#[derive(Clone)]
pub(super) enum Base {
    /// Keys of a profile.
    File {
        files: ProfileFiles,
        profile: String,
    },
    /// Output of a command.
    Process(String),
    /// Agent of a container, with the token that it needs.
    Container {
        address: String,
        token: Option<String>,
    },
    Sso(Sso),
    Identity(Identity),
    /// The machine's own credentials, which object_store finds.
    Machine,
}

/// Source of credentials: the first ones, and roles that are assumed in sequence.
#[derive(Clone)]
pub struct CredentialSource {
    pub(super) base: Base,
    pub(super) roles: Vec<Role>,
    pub(super) services: Services,
    /// Settings that name it, for messages.
    described: String,
}

impl Base {
    /// Name of the setting that describes it.
    pub(super) fn setting(&self) -> &'static str {
        match self {
            Self::File { .. } => "keys",
            Self::Process(_) => "credential_process",
            Self::Container { .. } => "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            Self::Sso(_) => "sso_session",
            Self::Identity(_) => "web_identity_token_file",
            Self::Machine => "credential_source",
        }
    }
}

impl CredentialSource {
    pub(super) fn new(base: Base, roles: Vec<Role>, services: Services, described: String) -> Self {
        Self { base, roles, services, described }
    }

    /// Returns the source of an agent of a container.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for an address without TLS on a remote machine.
    pub(super) fn container(address: String, token: Option<String>) -> Result<Self> {
        let is_allowed = address.parse::<http::Uri>().is_ok_and(|uri| match uri.scheme_str() {
            Some("https") => true,
            Some("http") => uri.host().is_some_and(|host| PLAIN_HOSTS.contains(&host) || host.starts_with("127.")),
            _ => false,
        });
        if !is_allowed {
            let why =
                "AWS_CONTAINER_CREDENTIALS_FULL_URI needs https, or a host of this machine or of a container's agent";
            return Err(Error::config(why));
        }
        let base = Base::Container { address, token };
        let described = base.setting().to_owned();
        Ok(Self::new(base, Vec::new(), Services::default(), described))
    }

    /// Settings that name the source.
    pub(super) fn described(&self) -> &str {
        &self.described
    }

    /// Returns true for credentials that the machine or its container has.
    pub(super) fn is_of_machine(&self) -> bool {
        matches!(self.base, Base::Machine)
    }

    /// The source with the first credentials of `source`.
    pub(super) fn with_base_of(self, source: Self) -> Self {
        Self { base: source.base, ..self }
    }

    /// Returns true for keys of a profile, without a role.
    pub(super) fn is_of_file(&self) -> bool {
        matches!(self.base, Base::File { .. }) && self.roles.is_empty()
    }
}

impl fmt::Debug for CredentialSource {
    /// Without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialSource").field("described", &self.described).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_without_tls_has_to_be_near() {
        for (address, is_allowed) in [
            ("http://169.254.170.23/v1/credentials", true),
            ("http://[fd00:ec2::23]/v1/credentials", true),
            ("http://127.0.0.1:1234/x", true),
            ("https://example.org/x", true),
            ("http://example.org/x", false),
            ("ftp://localhost/x", false),
            ("no address", false),
        ] {
            assert_eq!(CredentialSource::container(address.to_owned(), None).is_ok(), is_allowed, "{address}");
        }
    }
}
