"""The section `gateway`, and the JSON Schema of the whole file."""

from datetime import UTC, datetime
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from surehand.assemble.http_gateway import build_webhooks
from surehand.config.config import SECTION_PARSERS, read_config
from surehand.config.errors import ConfigError
from surehand.config.gateway_section import GATEWAY_PARSERS
from surehand.config.json_schema import config_schema
from surehand.gateway.webhooks.signatures import new_webhook_secret

HASH = f"sha256:{'0' * 64}"
WHOLE = f"""
gateway:
  host: 0.0.0.0
  port: 9000
  token_env: GATEWAY_TOKEN
  allow_hosts: [gateway.example]
  allow_origins: https://app.example
  tokens:
    - {{hash: "{HASH}", user: ada, scopes: ["tools:git__*"], expires: 2030-01-31, rate: 60/min, concurrent: 4}}
  answers:
    - {{tools: "bank__*", by: [user:bob, scope:approver], waiting_for: approval}}
  public_url: https://tools.example
  webhooks:
    - {{name: slack, url: "https://${{BRIDGE}}/waits", secret_env: [NEW, OLD], tools: "bank__*", waiting_for: approval,
       people: [bob], scopes: [approver]}}
  limits: {{requests: 10, body: 1MB}}
"""


def read(tmp_path: Path, text: str):
    path = tmp_path / "surehand.yaml"
    path.write_text(text)
    return read_config(path).gateway


def test_every_setting_is_read(tmp_path):
    settings = read(tmp_path, WHOLE)

    assert (settings.host, settings.port, settings.token_env) == ("0.0.0.0", 9000, "GATEWAY_TOKEN")
    assert settings.allow_hosts == ("gateway.example",)
    assert settings.allow_origins == ("https://app.example",)
    [token] = settings.tokens
    assert token.hash == HASH
    assert token.options == {
        "user": "ada",
        "scopes": ("tools:git__*",),
        "expires_at": datetime(2030, 1, 31, tzinfo=UTC),
        "rate": "60/min",
        "concurrent": 4,
    }
    [rule] = settings.answers
    assert (rule.by, rule.options["tools"]) == (("user:bob", "scope:approver"), ("bank__*",))
    assert settings.limits == {"requests": 10, "body_bytes": 1_000_000}
    assert settings.public_url == "https://tools.example"
    [webhook] = settings.webhooks
    assert (webhook.name, webhook.secret_env) == ("slack", ("NEW", "OLD"))
    assert webhook.options == {
        "tools": ("bank__*",),
        "waiting_for": ("approval",),
        "people": ("bob",),
        "scopes": ("approver",),
    }


def test_secrets_and_urls_of_webhooks_come_from_the_environment_late(tmp_path):
    settings = read(tmp_path, WHOLE)
    environment = {"NEW": new_webhook_secret(), "OLD": new_webhook_secret(), "BRIDGE": "bridge.example"}

    [webhook] = build_webhooks(settings, environment)

    assert webhook.secrets == (environment["NEW"], environment["OLD"])
    assert webhook.url == "https://bridge.example/waits"
    with pytest.raises(ConfigError, match="OLD, which is not set"):
        build_webhooks(settings, {**environment, "OLD": ""})
    with pytest.raises(ConfigError, match="24 to 64 bytes") as error:
        build_webhooks(settings, {**environment, "OLD": "hunter2"})
    assert "hunter2" not in str(error.value)


def test_two_webhooks_of_one_name_are_a_mistake(tmp_path):
    entry = "{name: a, secret_env: NEW}"
    settings = read(tmp_path, f"gateway: {{webhooks: [{entry}, {entry}]}}")

    with pytest.raises(ConfigError, match="Two webhooks are called a"):
        build_webhooks(settings, {"NEW": new_webhook_secret()})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gateway: {ports: 1}", "Unknown key 'ports'. fix: did you mean 'port'"),
        ("gateway: {port: 70000}", "port must be a whole number from 0 to 65535"),
        ("gateway: {tokens: [{user: ada}]}", "A token needs its hash"),
        ("gateway: {tokens: [{hash: x, expires: soon}]}", "expires must be a date"),
        ("gateway: {tokens: [{hash: x, rate: often}]}", "rate must be a number of requests"),
        ("gateway: {answers: [{tools: x}]}", "A rule needs `by`"),
        ("gateway: {limits: {request: 1}}", "Unknown key 'request'"),
        ("gateway: {webhooks: [{url: x, secret_env: X}]}", "A webhook needs `name`"),
        ("gateway: {webhooks: [{name: x, url: x}]}", "A webhook needs `secret_env`"),
        ("gateway: {webhooks: [{name: x, secret: hunter2}]}", "Unknown key 'secret'. fix: did you mean 'secret_env'"),
    ],
)
def test_mistakes_name_the_line_and_the_remedy(tmp_path, text, problem):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text)

    assert problem.partition(" fix:")[0] in str(error.value)
    assert ":1:" in str(error.value)


def test_the_schema_knows_every_section_and_every_key_of_the_gateway():
    schema = config_schema()

    assert set(SECTION_PARSERS) <= set(schema["properties"])
    assert set(schema["properties"]["gateway"]["properties"]) == set(GATEWAY_PARSERS)


def test_the_schema_accepts_what_the_parsers_accept():
    validator = jsonschema_rs.validator_for(config_schema())
    root = Path(__file__).parents[2]
    document = yaml.safe_load(WHOLE)
    document["gateway"]["tokens"][0]["expires"] = "2030-01-31"

    assert validator.is_valid(document)
    assert validator.is_valid(yaml.safe_load((root / "examples/demo/demo.yaml").read_text()))
    assert not validator.is_valid({"gateway": {"ports": 1}})
    assert not validator.is_valid({"policy": [{"decision": "perhaps"}]})
