//! Endpoint and token of the Hugging Face hub, from the environment and the file of its tools.

use crate::credentials::{check_endpoint, check_sendable, is_true, read_text, shown, variable};
use crate::{Error, Result};
use std::fmt;
use std::path::PathBuf;

/// Settings of `hf://` remotes. Without a token only public data sets can be read.
#[derive(Clone, Default)]
pub struct HfSettings {
    /// Address of the hub, instead of `https://huggingface.co`.
    pub endpoint: Option<String>,
    /// Access token.
    pub token: Option<String>,
    /// Reject `hf://` remotes.
    pub is_offline: bool,
}

impl HfSettings {
    /// Reads the environment, and the file of `hf auth login`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for values that cannot work.
    pub fn from_env() -> Result<Self> {
        Self::read(&variable)
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let folder = |name: &str, parts: &str| Some(PathBuf::from(variable(name)?).join(parts));
        let file = variable("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| folder("HF_HOME", "token"));
        let file = file.or_else(|| folder("XDG_CACHE_HOME", "huggingface/token"));
        let file = file.or_else(|| folder("HOME", ".cache/huggingface/token"));
        let is_implicit = !is_on(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN").as_deref());
        // Without it, the hub's own library uses a token only if the program passes it.
        let token = match variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN")) {
            _ if !is_implicit => None,
            Some(token) => Some(token),
            None => file.map(|file| read_text(&file, "the token of the hub")).transpose()?.flatten(),
        };
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        let is_offline = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"].into_iter().find_map(variable);
        let settings = Self { endpoint: variable("HF_ENDPOINT"), token, is_offline: is_on(is_offline.as_deref()) };
        settings.validate()?;
        Ok(settings)
    }

    pub(super) fn validate(&self) -> Result<()> {
        if self.is_offline {
            return Err(Error::config(
                "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids requests to the hub: unset it, or pass a folder with \
                 the data set as `local`, without a remote",
            ));
        }
        check_sendable("the hub", [&self.token])?;
        check_endpoint("the hub", self.endpoint.as_deref())
    }
}

/// Returns true for the values that the hub's tools accept.
fn is_on(value: Option<&str>) -> bool {
    is_true(value) || value.is_some_and(|value| value.eq_ignore_ascii_case("on"))
}

impl fmt::Debug for HfSettings {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HfSettings")
            .field("endpoint", &self.endpoint.as_deref().map(shown))
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<HfSettings> {
        HfSettings::read(&|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn a_token_comes_from_the_environment_or_a_file() {
        let home = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir_all(home.path().join(".cache/huggingface")).expect("made");
        let at_home = ("HOME", home.path().to_str().expect("UTF-8"));
        assert_eq!(read(&[at_home]).expect("none").token, None);
        std::fs::write(home.path().join(".cache/huggingface/token"), "hf_file\n").expect("written");
        assert_eq!(read(&[at_home]).expect("file").token.as_deref(), Some("hf_file"));
        assert_eq!(read(&[at_home, ("HF_TOKEN", "hf_x")]).expect("variable").token.as_deref(), Some("hf_x"));
        let disabled = ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "ON");
        assert_eq!(read(&[at_home, disabled]).expect("none").token, None);
        assert_eq!(read(&[at_home, disabled, ("HF_TOKEN", "hf_x")]).expect("none").token, None);
        let moved = ("HF_HOME", home.path().to_str().expect("UTF-8"));
        assert_eq!(read(&[at_home, moved]).expect("none").token, None);
        assert!(!format!("{:?}", read(&[at_home]).expect("file")).contains("hf_file"));
    }

    #[test]
    fn an_offline_hub_is_an_error_that_names_the_fix() {
        let error = read(&[("HF_HUB_OFFLINE", "1")]).expect_err("offline");
        assert!(error.to_string().contains("unset it"), "{error}");
    }
}
