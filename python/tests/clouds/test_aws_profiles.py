"""Credentials of S3 from profiles of the AWS tools: commands, single sign-on, roles, agents of containers, and files that are
written again."""

import contextlib
import hashlib
import http.server
import itertools
import json
import re
import threading
from urllib.parse import parse_qs, urlsplit

import pytest

import forebay as fb

ROLE = "arn:aws:iam::1:role/r"
_buckets = itertools.count()

KEYS = "aws_access_key_id = {0}\naws_secret_access_key = s\n"


class Cloud(http.server.BaseHTTPRequestHandler):
    """S3, the token service, the portal of single sign-on and the agent of a container."""

    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("etag", '"one"')
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def key(self, service):
        found = re.search(rf"Credential=([^/]+)/\d+/[^/]+/{service}/", self.headers.get("authorization", ""))
        return found and found[1]

    def do_GET(self):
        place = urlsplit(self.path)
        if place.path == "/agent":
            if self.headers.get("authorization") != self.server.agent_token:
                return self.answer(401, b"")
            keys = {"AccessKeyId": "AGENT", "SecretAccessKey": "s", "Token": "t", "Expiration": "2126-01-01T00:00:00Z"}
            return self.answer(200, json.dumps(keys).encode())
        if place.path == "/federation/credentials":
            query = parse_qs(place.query)
            if self.headers.get("x-amz-sso_bearer_token") != "login" or query != {"role_name": ["r"], "account_id": ["1"]}:
                return self.answer(401, b"{}")
            keys = {"accessKeyId": "SSO", "secretAccessKey": "s", "sessionToken": "t", "expiration": 4922899200000}
            return self.answer(200, json.dumps({"roleCredentials": keys}).encode())
        key = self.key("s3")
        self.server.keys.append(key)
        if key is None or key in self.server.expired:
            code = b"AccessDenied" if key is None else b"ExpiredToken"
            return self.answer(403 if key is None else 400, b"<Error><Code>" + code + b"</Code></Error>")
        return self.answer(200, b"data")

    do_HEAD = do_GET

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        action = form["Action"][0]
        by = form["WebIdentityToken"][0] if action == "AssumeRoleWithWebIdentity" else self.key("sts")
        if by is None or form["RoleArn"] != [ROLE]:
            return self.answer(403, b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>")
        keys = f"<AccessKeyId>ROLE-OF-{by}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
        keys = f"<Credentials>{keys}<Expiration>2126-01-01T00:00:00Z</Expiration></Credentials>"
        text = f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>{keys}</{action}Result>'
        return self.answer(200, f"{text}</{action}Response>".encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    """The server, with a home directory that has a profile `mine`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cloud)
    server.keys, server.expired, server.agent_token = [], set(), None
    # A store stays open, with its settings.
    server.bucket = f"bucket-{next(_buckets)}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    (tmp_path / ".aws/sso/cache").mkdir(parents=True)
    server.url = f"http://127.0.0.1:{server.server_port}"
    for name in ("S3_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "HOME": str(tmp_path),
        "AWS_ENDPOINT_URL": server.url,
        "AWS_REGION": "us-east-1",
        "AWS_PROFILE": "mine",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    with contextlib.closing(server.socket):
        yield server
        server.shutdown()


def read(cloud):
    with fb.open(f"s3://{cloud.bucket}/key") as file:
        return file.read()


def write(folder, text, name="config"):
    (folder / ".aws" / name).write_text(text)


def script(folder, key, version=1):
    """A command that prints keys, and adds a line to a file each time."""
    keys = json.dumps({"Version": version, "AccessKeyId": key, "SecretAccessKey": "s"})
    (folder / "print.sh").write_text(f"echo run >> {folder}/runs\necho '{keys}'\n")
    return f"credential_process = sh {folder}/print.sh\n"


BASE = "[profile base]\n" + KEYS.format("BASE")

PROFILES = {
    "keys": ("[profile mine]\n" + KEYS.format("KEYS"), "KEYS"),
    "command": ("[profile mine]\n{process}", "PROC"),
    "session": (
        "[profile mine]\nsso_session = work\nsso_account_id = 1\nsso_role_name = r\n"
        "[sso-session work]\nsso_region = eu-west-1\nsso_start_url = https://start\n",
        "SSO",
    ),
    "web identity": (f"[profile mine]\nrole_arn = {ROLE}\nweb_identity_token_file = {{home}}/token\n", "ROLE-OF-identity"),
    "role": (f"[profile mine]\nrole_arn = {ROLE}\nsource_profile = base\n{BASE}", "ROLE-OF-BASE"),
    "role of a role": (
        f"[profile mine]\nrole_arn = {ROLE}\nsource_profile = next\n[profile next]\nrole_arn = {ROLE}\nsource_profile = base\n{BASE}",
        "ROLE-OF-ROLE-OF-BASE",
    ),
    "role of a command": (f"[profile mine]\nrole_arn = {ROLE}\nsource_profile = base\n[profile base]\n{{process}}", "ROLE-OF-PROC"),
}


@pytest.mark.parametrize("name", PROFILES)
def test_each_kind_of_profile_signs_requests(cloud, tmp_path, name):
    text, key = PROFILES[name]
    (tmp_path / "token").write_text("identity\n")
    login = {"accessToken": "login", "expiresAt": "2126-01-01T00:00:00Z"}
    (tmp_path / ".aws/sso/cache" / f"{hashlib.sha1(b'work').hexdigest()}.json").write_text(json.dumps(login))
    write(tmp_path, text.format(process=script(tmp_path, "PROC"), home=tmp_path))
    assert read(cloud) == b"data"
    assert set(cloud.keys) == {key}


@pytest.mark.parametrize("token", [None, "secret"])
def test_an_agent_of_a_container_needs_no_file_with_a_token(cloud, tmp_path, monkeypatch, token):
    write(tmp_path, "[profile mine]\nregion = us-east-1\n")
    cloud.agent_token = token
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{cloud.url}/agent")
    if token is not None:
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", token)
    assert read(cloud) == b"data"
    assert set(cloud.keys) == {"AGENT"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("credential_process = exit 3\n", "credential_process of AWS profile mine cannot be fetched.*exit status: 3"),
        ("credential_process = echo no\n", "prints no credentials"),
        ("sso_session = none\nsso_account_id = 1\nsso_role_name = r\n", "sso_region"),
        ("sso_start_url = s\nsso_region = x\nsso_account_id = 1\nsso_role_name = r\n", "aws sso login --profile mine"),
        (f"role_arn = {ROLE}\n", "role_arn needs source_profile"),
        (f"role_arn = {ROLE}\nsource_profile = none\n", "source_profile names profile none"),
        (f"role_arn = other\nsource_profile = mine\n{KEYS.format('K')}", "source_profile of AWS profile mine cannot.*AccessDenied"),
        (f"role_arn = {ROLE}\nmfa_serial = m\nsource_profile = mine\n{KEYS.format('K')}", "mfa_serial"),
        ("region = x\n", "AWS profile mine has no credentials"),
    ],
)
def test_settings_that_give_no_credentials_are_named(cloud, tmp_path, text, message):
    write(tmp_path, f"[profile mine]\n{text}")
    with pytest.raises(fb.Error, match=message):
        read(cloud)


def test_keys_that_are_written_again_are_read_after_a_rejection(cloud, tmp_path):
    write(tmp_path, "[mine]\n" + KEYS.format("OLD"), "credentials")
    assert read(cloud) == b"data"
    write(tmp_path, "[mine]\n" + KEYS.format("NEW"), "credentials")
    assert read(cloud) == b"data"
    assert cloud.keys[-1] == "OLD", "they are valid"
    cloud.expired.add("OLD")
    assert read(cloud) == b"data"
    assert cloud.keys[-2:] == ["OLD", "NEW"]
    cloud.expired.add("NEW")
    with pytest.raises(fb.AccessError, match="expired"):
        read(cloud)


def test_a_command_is_not_run_again_for_each_request_that_is_rejected(cloud, tmp_path):
    write(tmp_path, "[profile mine]\n" + script(tmp_path, "PROC"))
    cloud.expired.add("PROC")
    for _ in range(3):
        with pytest.raises(fb.AccessError):
            read(cloud)
    assert len((tmp_path / "runs").read_text().split()) == 1
