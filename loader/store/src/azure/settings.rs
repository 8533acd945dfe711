//! Account, endpoint and credentials of Azure, from the environment.

use crate::credentials::{check_endpoint, check_sendable, is_true, shown, variable};
use crate::{Error, Result};
use std::fmt;
use std::path::PathBuf;

/// Variables that are passed to the credential providers unchanged.
const PROVIDER_VARIABLES: [&str; 6] = [
    "AZURE_AUTHORITY_HOST",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_TENANT_ID",
    "IDENTITY_ENDPOINT",
];

/// Account of Azurite, Azure's emulator, and its key, which are the same everywhere.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Settings of `azure://` and `azure-dl://` remotes. Missing credentials come from the machine's identity, then from
/// the command line's login. Without any, requests are not signed, which public containers accept.
#[derive(Clone, Default)]
pub struct AzureSettings {
    /// Address of the blob service instead of `https://ACCOUNT.blob.core.windows.net`; an emulator's ends with the
    /// account.
    pub endpoint: Option<String>,
    /// Storage account; `None` takes it from the remote.
    pub account: Option<String>,
    /// Key of the account, in base 64.
    pub account_key: Option<String>,
    /// Shared access signature: a query without its question mark.
    pub sas_token: Option<String>,
    /// Never sign requests.
    pub anonymous: bool,
    /// Use neither the login of the command line nor the machine's identity.
    pub no_metadata: bool,
    /// Settings of the providers of tokens, by the name of their variable.
    pub providers: Vec<(String, String)>,
    /// Azure's command line, where this user has logged in with it.
    pub login_command: Option<PathBuf>,
}

impl AzureSettings {
    /// Reads the environment: the variables of MosaicML streaming, then the variables of Azure's command line.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for values that cannot work.
    pub fn from_env() -> Result<Self> {
        Self::read(&variable)
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let first = |names: &[&str]| names.iter().find_map(|name| variable(name));
        let parts = variable("AZURE_STORAGE_CONNECTION_STRING").unwrap_or_default();
        let part = |name: &str| {
            let found = parts
                .split(';')
                .filter_map(|part| part.split_once('='))
                .find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let is_emulator = part("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let account = first(&["AZURE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"])
            .or_else(|| part("AccountName"))
            .or_else(|| is_emulator.then(|| EMULATOR_ACCOUNT.to_owned()));
        let of_suffix = || {
            let scheme = part("DefaultEndpointsProtocol").unwrap_or_else(|| "https".to_owned());
            Some(format!("{scheme}://{}.blob.{}", account.as_ref()?, part("EndpointSuffix")?))
        };
        let settings = Self {
            endpoint: first(&["AZURE_STORAGE_SERVICE_ENDPOINT"])
                .or_else(|| part("BlobEndpoint"))
                .or_else(|| is_emulator.then(|| format!("http://127.0.0.1:10000/{EMULATOR_ACCOUNT}")))
                .or_else(of_suffix),
            account_key: first(&["AZURE_ACCOUNT_ACCESS_KEY", "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"])
                .or_else(|| part("AccountKey"))
                .or_else(|| is_emulator.then(|| EMULATOR_KEY.to_owned())),
            sas_token: first(&["AZURE_STORAGE_SAS_TOKEN"]).or_else(|| part("SharedAccessSignature")),
            account,
            login_command: has_login(variable).then(|| PathBuf::from("az")),
            anonymous: is_true(variable("AZURE_SKIP_SIGNATURE").as_deref()),
            no_metadata: false,
            providers: PROVIDER_VARIABLES.iter().filter_map(|&n| Some((n.to_owned(), variable(n)?))).collect(),
        };
        settings.validate()?;
        Ok(settings)
    }

    pub(super) fn validate(&self) -> Result<()> {
        check_sendable("Azure", [&self.account, &self.account_key, &self.sas_token])?;
        let is_name = |name: &String| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if self.account.as_ref().is_some_and(|name| !is_name(name)) {
            return Err(Error::config("the name of an Azure account has only lower-case letters and digits"));
        }
        check_endpoint("Azure", self.endpoint.as_deref())
    }

    /// Returns true if a source of credentials is configured. Otherwise it is no error to have none.
    pub(super) fn names_credentials(&self) -> bool {
        let names = |name: &str| self.providers.iter().any(|(n, _)| n == name);
        let is_application = names("AZURE_CLIENT_ID") && names("AZURE_TENANT_ID");
        self.account_key.is_some()
            || self.sas_token.is_some()
            || is_application && (names("AZURE_CLIENT_SECRET") || names("AZURE_FEDERATED_TOKEN_FILE"))
            || names("IDENTITY_ENDPOINT")
    }
}

/// Returns true if this user has logged in with the command line.
fn has_login(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let in_home = || Some(PathBuf::from(variable("HOME")?).join(".azure"));
    let folder = variable("AZURE_CONFIG_DIR").map(PathBuf::from).or_else(in_home);
    folder.is_some_and(|folder| folder.join("azureProfile.json").is_file())
}

impl fmt::Debug for AzureSettings {
    /// Without keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureSettings")
            .field("endpoint", &self.endpoint.as_deref().map(shown))
            .field("account", &self.account)
            .field("has_key", &self.account_key.is_some())
            .field("has_sas_token", &self.sas_token.is_some())
            .field("anonymous", &self.anonymous)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<AzureSettings> {
        AzureSettings::read(&|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn a_connection_string_is_taken_apart() {
        let text = "DefaultEndpointsProtocol=https;accountname=store; \
                    AccountKey=a2V5+/==;EndpointSuffix=core.chinacloudapi.cn";
        let settings = read(&[("AZURE_STORAGE_CONNECTION_STRING", text)]).expect("fine");
        assert_eq!((settings.account.as_deref(), settings.account_key.as_deref()), (Some("store"), Some("a2V5+/==")));
        assert_eq!(settings.endpoint.as_deref(), Some("https://store.blob.core.chinacloudapi.cn"));
        let text = "BlobEndpoint=http://127.0.0.1:1/store;SharedAccessSignature=sv=2023&sig=a%3D%3D";
        let settings = read(&[("AZURE_STORAGE_CONNECTION_STRING", text)]).expect("fine");
        assert_eq!(settings.endpoint.as_deref(), Some("http://127.0.0.1:1/store"));
        assert_eq!(settings.sas_token.as_deref(), Some("sv=2023&sig=a%3D%3D"));
        let settings = read(&[("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true")]).expect("fine");
        assert_eq!(settings.endpoint.as_deref(), Some("http://127.0.0.1:10000/devstoreaccount1"));
        assert!(settings.names_credentials());
    }

    #[test]
    fn a_source_of_credentials_is_named_by_all_of_its_variables() {
        let (id, tenant, secret) = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET");
        for (names, expected) in [
            (&[][..], false),
            (&[id, tenant], false),
            (&[id, secret], false),
            (&[id, tenant, secret], true),
            (&[id, tenant, "AZURE_FEDERATED_TOKEN_FILE"], true),
            (&["AZURE_ACCOUNT_ACCESS_KEY"], true),
        ] {
            let variables: Vec<_> = names.iter().map(|name| (*name, "x")).collect();
            assert_eq!(read(&variables).expect("fine").names_credentials(), expected, "{names:?}");
        }
    }

    #[test]
    fn secrets_are_never_shown() {
        let variables = [("AZURE_ACCOUNT_ACCESS_KEY", "geheim"), ("AZURE_STORAGE_SAS_TOKEN", "sig=geheim")];
        assert!(!format!("{:?}", read(&variables).expect("fine")).contains("geheim"));
        let error = read(&[("AZURE_ACCOUNT_ACCESS_KEY", "geheim\n")]).expect_err("line end");
        assert!(!error.to_string().contains("geheim"), "{error}");
    }
}
