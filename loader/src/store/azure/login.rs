//! Tokens of the login of Azure's command line, as `az login` leaves it.

use crate::store::context::ThreadContext;
use crate::store::credentials::Token;
use crate::store::failure::Failure;
use crate::sync::spawn;
use crate::{Error, ErrorKind};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ARGUMENTS: [&str; 6] =
    ["account", "get-access-token", "--output", "json", "--resource", "https://storage.azure.com"];

/// Longest time for the command, which is a Python program that may refresh the login over the network.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns true if this user has logged in with the command line.
pub(super) fn is_present() -> bool {
    let folder = std::env::var_os("AZURE_CONFIG_DIR").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".azure")));
    folder.is_some_and(|folder| folder.join("azureProfile.json").is_file())
}

/// Runs the command line, on a new thread because that takes a second. Its error texts are not shown.
pub(super) async fn token(context: &ThreadContext) -> Result<Token, Failure> {
    let failed = |why: &str| Failure::permanent(Error::new(ErrorKind::Permission, format!("{why}: run `az login`")));
    let (send, receive) = tokio::sync::oneshot::channel();
    let run = move || {
        let output = Command::new("az").args(ARGUMENTS).stdin(Stdio::null()).stderr(Stdio::null()).output();
        // Fails if the token is not needed any more.
        let _ = send.send(output);
    };
    spawn("fb-az", run).map_err(|e| Failure::transient(Error::from_io(e, "cannot start a thread")))?;
    let Some(Ok(output)) = context.within(LIMIT, receive).await else {
        return Err(failed("the Azure command line does not respond"));
    };
    let output = output.map_err(|_| failed("the Azure command line cannot be started"))?;
    if !output.status.success() {
        return Err(failed("the Azure command line has no token"));
    }
    let document: Value =
        serde_json::from_slice(&output.stdout).map_err(|_| failed("the Azure command line has no token"))?;
    let bearer = document.get("accessToken").and_then(Value::as_str);
    let bearer = bearer.ok_or_else(|| failed("the Azure command line has no token"))?;
    // Older versions have only a local time.
    let end = document.get("expires_on").and_then(Value::as_u64).map(Duration::from_secs);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let lifetime = end.map_or(Duration::from_secs(600), |end| end.saturating_sub(now));
    Token::new(&context.shared, bearer, lifetime).map_err(Failure::permanent)
}
