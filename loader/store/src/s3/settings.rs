//! Endpoint, region and credentials of S3, from the environment and the files of the AWS tools.

use super::profile::{Profiles, in_home};
use super::source::{CredentialSource, ProfileFiles, Services};
use super::time::time;
use crate::credentials::{check_endpoint, check_sendable, is_true, shown, variable};
use crate::{Error, Result};
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

/// Settings of a profile with the end of its temporary keys, as tools for logins write them.
const ENDS: [&str; 3] = ["x_security_token_expires", "aws_expiration", "expiration"];

/// Variables that are passed to the credential providers unchanged.
const PROVIDER_VARIABLES: [&str; 9] = [
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_ENDPOINT_URL_STS",
    "AWS_IMDSV1_FALLBACK",
    "AWS_METADATA_ENDPOINT",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
];

/// Settings of `s3://` remotes. Missing credentials come from the machine: a role of its web identity, its container or
/// its instance. Without any, requests are not signed, which public buckets accept.
#[derive(Clone, Default)]
pub struct S3Settings {
    /// Server to use instead of AWS, such as `http://127.0.0.1:9000`; buckets are then part of the path.
    pub endpoint: Option<String>,
    /// Region of the buckets; `None` starts with `us-east-1` and learns from the server's response.
    pub region: Option<String>,
    /// Access key; set together with `secret_key`.
    pub access_key: Option<String>,
    /// Secret key.
    pub secret_key: Option<String>,
    /// Session token of temporary keys.
    pub token: Option<String>,
    /// End of credentials that no request renews, if it is known: of temporary keys, or of the login of single sign-on.
    pub end: Option<SystemTime>,
    /// Access of uploaded objects, by one of S3's names, such as `bucket-owner-full-control`.
    pub canned_acl: Option<String>,
    /// Send SHA-256 checksums with objects also to servers that are not AWS's. Buckets with Object Lock need them.
    pub checksums: bool,
    /// Never sign requests.
    pub anonymous: bool,
    /// Buckets for which the requester pays, or `*` for all.
    pub requester_pays: Vec<String>,
    /// Do not use the machine's metadata service.
    pub no_metadata: bool,
    /// Source of credentials that a profile or the environment names, for which there are no keys above, or that has
    /// them again when they are rejected.
    pub source: Option<CredentialSource>,
    /// Profile that `AWS_PROFILE` names.
    pub profile: Option<String>,
    /// Settings of the providers of temporary credentials, by the name of their variable.
    pub providers: Vec<(String, String)>,
}

impl S3Settings {
    /// Reads the environment, and the profile it names (`AWS_PROFILE`, `AWS_DEFAULT_PROFILE`, else `default`) from the
    /// files in `~/.aws`.
    ///
    /// The endpoint comes from the first of `S3_ENDPOINT_URL`, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` and the
    /// profile; keys come from `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, else from the profile: its keys,
    /// command, single sign-on or role.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) when one key of the two is missing or `AWS_PROFILE` names a
    /// profile that does not exist, and for settings of a profile that do not fit together.
    pub fn from_env() -> Result<Self> {
        Self::read(&variable)
    }

    /// Like [`from_env`](Self::from_env), with new values of some of the variables.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn from_env_but(own: &[(&str, String)]) -> Result<Self> {
        let find = |name: &str| own.iter().find(|(own, _)| *own == name).map(|(_, value)| value.clone());
        Self::read(&|name| find(name).or_else(|| variable(name)))
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let first = |names: &[&str]| names.iter().find_map(|name| variable(name));
        let is_true = |name: &str| is_true(variable(name).as_deref());
        let home = variable("HOME").map(PathBuf::from);
        let file =
            |name: &str, default: &str| variable(name).map(PathBuf::from).or_else(|| in_home(home.as_deref(), default));
        let files = ProfileFiles {
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: file("AWS_CONFIG_FILE", "config"),
            sso_cache: in_home(home.as_deref(), "sso/cache"),
        };
        let (profiles, named) = (Profiles::load(&files)?, first(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]));
        profiles.check(named.as_deref())?;
        let name = named.as_deref().unwrap_or("default");
        let profile = |key: &str| profiles.get(name, key);
        let mut settings = Self {
            endpoint: first(&["S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
                .or_else(|| profiles.endpoint(name, "s3"))
                .or_else(|| profile("endpoint_url")),
            region: first(&["AWS_REGION", "AWS_DEFAULT_REGION"]).or_else(|| profile("region")),
            access_key: variable("AWS_ACCESS_KEY_ID"),
            secret_key: variable("AWS_SECRET_ACCESS_KEY"),
            token: variable("AWS_SESSION_TOKEN"),
            end: variable("AWS_CREDENTIAL_EXPIRATION").and_then(|end| time(&end)),
            canned_acl: variable("S3_CANNED_ACL"),
            checksums: variable("AWS_REQUEST_CHECKSUM_CALCULATION")
                .or_else(|| profile("request_checksum_calculation"))
                .is_some_and(|when| when.eq_ignore_ascii_case("when_supported")),
            anonymous: is_true("AWS_SKIP_SIGNATURE"),
            requester_pays: variable("MOSAICML_STREAMING_AWS_REQUESTER_PAYS")
                .map(|buckets| buckets.split(',').map(|bucket| bucket.trim().to_owned()).collect())
                .unwrap_or_default(),
            source: None,
            profile: named.clone(),
            no_metadata: is_true("AWS_EC2_METADATA_DISABLED"),
            providers: PROVIDER_VARIABLES.iter().filter_map(|&n| Some((n.to_owned(), variable(n)?))).collect(),
        };
        if is_true("AWS_REQUEST_PAYER") || variable("AWS_REQUEST_PAYER").as_deref() == Some("requester") {
            settings.requester_pays.push("*".to_owned());
        }
        let has_keys = settings.access_key.is_some() || settings.secret_key.is_some();
        settings.end = settings.end.filter(|_| has_keys && settings.token.is_some());
        if !has_keys && !settings.anonymous && !settings.has_provider("AWS_WEB_IDENTITY_TOKEN_FILE") {
            let of_service = |variable: &str, service: &str| {
                first(&[variable, "AWS_ENDPOINT_URL"]).or_else(|| profiles.endpoint(name, service))
            };
            let (region, sts) = (settings.region.clone(), of_service("AWS_ENDPOINT_URL_STS", "sts"));
            let services = Services { region, sts, sso: of_service("AWS_ENDPOINT_URL_SSO", "sso") };
            settings.source = profiles.source(name, &files, services)?;
            settings.end = settings.source.as_ref().and_then(CredentialSource::end_of_login);
            if settings.source.as_ref().is_none_or(CredentialSource::is_of_file) {
                settings.access_key = profile("aws_access_key_id");
                settings.secret_key = profile("aws_secret_access_key");
                settings.token = profile("aws_session_token");
                let end = || ENDS.iter().find_map(|end| profile(end)).and_then(|end| time(&end));
                settings.end = settings.token.as_ref().and_then(|_| end());
            }
            // object_store knows the agents of containers that have a file with a token.
            let agent = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI").filter(|_| {
                let known = ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];
                !known.iter().any(|name| settings.has_provider(name))
            });
            if let Some(address) = agent {
                let token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
                settings.source = match settings.source {
                    None => Some(CredentialSource::container(address, token)?),
                    Some(source) if source.is_of_machine() => {
                        Some(source.with_base_of(CredentialSource::container(address, token)?))
                    }
                    source => source,
                };
            }
        }
        settings.validate()?;
        Ok(settings)
    }

    pub(super) fn validate(&self) -> Result<()> {
        if self.access_key.is_some() != self.secret_key.is_some() {
            return Err(Error::config(
                "an S3 access key and its secret key go together: set AWS_ACCESS_KEY_ID and \
                 AWS_SECRET_ACCESS_KEY",
            ));
        }
        check_sendable("S3", [&self.access_key, &self.secret_key, &self.token, &self.region, &self.canned_acl])?;
        check_endpoint("S3", self.endpoint.as_deref())?;
        Ok(())
    }

    pub(super) fn requester_pays(&self, bucket: &str) -> bool {
        self.requester_pays.iter().any(|paid| paid == "*" || paid == bucket)
    }

    fn has_provider(&self, name: &str) -> bool {
        self.providers.iter().any(|(known, _)| known == name)
    }

    /// Returns true if a source of credentials is configured. Otherwise it is no error to have none.
    pub(super) fn names_credentials(&self) -> bool {
        let names = |name: &str| self.has_provider(name);
        // The library ignores half of a pair, and uses the metadata service instead.
        self.access_key.is_some()
            || self.source.is_some()
            || names("AWS_WEB_IDENTITY_TOKEN_FILE") && names("AWS_ROLE_ARN")
            || names("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
            || names("AWS_CONTAINER_CREDENTIALS_FULL_URI") && names("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    }
}

impl fmt::Debug for S3Settings {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Settings")
            .field("endpoint", &self.endpoint.as_deref().map(shown))
            .field("region", &self.region)
            .field("has_keys", &self.access_key.is_some())
            .field("anonymous", &self.anonymous)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::Base;
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<S3Settings> {
        S3Settings::read(&|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn the_environment_takes_precedence_over_the_profile() {
        let home = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(home.path().join(".aws")).expect("made");
        let write =
            |name: &str, text: &str| std::fs::write(home.path().join(".aws").join(name), text).expect("written");
        write(
            "credentials",
            "[default]\naws_access_key_id = D\naws_secret_access_key = \
             S\n[work]\naws_access_key_id=W\naws_secret_access_key=T\n",
        );
        write("config", "[profile work]\nregion = eu-west-1\nendpoint_url = http://h:1\n");
        let home = home.path().to_str().expect("UTF-8");
        let plain = read(&[("HOME", home)]).expect("profile default");
        assert_eq!((plain.access_key.as_deref(), plain.region.as_deref()), (Some("D"), None));
        let work = read(&[("HOME", home), ("AWS_PROFILE", "work")]).expect("profile work");
        assert_eq!((work.access_key.as_deref(), work.secret_key.as_deref()), (Some("W"), Some("T")));
        assert_eq!((work.region.as_deref(), work.endpoint.as_deref()), (Some("eu-west-1"), Some("http://h:1")));
        let keys = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "F"), ("S3_ENDPOINT_URL", "http://i")];
        let both = read(&[&keys[..], &[("HOME", home), ("AWS_PROFILE", "work")]].concat()).expect("both");
        assert_eq!((both.access_key.as_deref(), both.endpoint.as_deref()), (Some("E"), Some("http://i")));
        let missing = read(&[("HOME", home), ("AWS_PROFILE", "play")]).expect_err("no such profile");
        assert!(missing.to_string().contains("play"), "{missing}");
    }

    #[test]
    fn half_a_pair_of_keys_is_rejected_and_secrets_are_never_shown() {
        let error = read(&[("AWS_ACCESS_KEY_ID", "E")]).expect_err("half");
        assert!(error.to_string().contains("AWS_SECRET_ACCESS_KEY"), "{error}");
        let error = read(&[("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "geheim\n")]).expect_err("line end");
        assert!(!error.to_string().contains("geheim"), "{error}");
        let good = read(&[("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "geheim")]).expect("pair");
        assert!(!format!("{good:?}").contains("geheim"));
        assert!(read(&[("AWS_ENDPOINT_URL", "localhost:9000")]).is_err());
    }

    #[test]
    fn requester_pays_and_unsigned_requests_come_from_the_environment() {
        let settings =
            read(&[("MOSAICML_STREAMING_AWS_REQUESTER_PAYS", "a, b"), ("AWS_SKIP_SIGNATURE", "true")]).expect("fine");
        assert!(settings.anonymous && settings.requester_pays("b") && !settings.requester_pays("c"));
        assert!(!settings.names_credentials());
    }

    #[test]
    fn a_source_of_credentials_is_named_by_all_of_its_variables() {
        let (uri, file) = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        let (identity, role) = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN");
        for (names, expected) in [
            (&[uri][..], true),
            (&[uri, file], true),
            (&[identity], false),
            (&[identity, role], true),
            (&["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"], true),
        ] {
            let variables: Vec<_> = names.iter().map(|name| (*name, "http://127.0.0.1/x")).collect();
            assert_eq!(read(&variables).expect("fine").names_credentials(), expected, "{names:?}");
        }
    }

    #[test]
    fn settings_of_a_profile_have_the_names_of_the_aws_tools() {
        let home = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(home.path().join(".aws")).expect("made");
        let text = "[profile own]\naws_access_key_id = k\naws_secret_access_key = s\nservices = near\nendpoint_url = \
                    http://far:1\n[services near]\ns3 =\n  endpoint_url = http://near:2\n[profile \
                    task]\nrole_arn = a\ncredential_source = EcsContainer\n";
        std::fs::write(home.path().join(".aws/config"), text).expect("written");
        let home = home.path().to_str().expect("UTF-8");
        let own = read(&[("HOME", home), ("AWS_DEFAULT_PROFILE", "own")]).expect("profile own");
        assert_eq!((own.access_key.as_deref(), own.endpoint.as_deref()), (Some("k"), Some("http://near:2")));
        let agent = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/x");
        let task = read(&[("HOME", home), ("AWS_PROFILE", "task"), agent]).expect("profile task");
        let source = task.source.expect("a source");
        assert!(matches!(source.base, Base::Container { .. }) && source.roles.len() == 1, "{source:?}");
        let machine = read(&[("HOME", home), ("AWS_PROFILE", "task")]).expect("profile task").source;
        assert!(machine.is_some_and(|source| source.is_of_machine()));
    }
}
