"""`surehand config`: checking the file, its JSON Schema, and tokens for the gateway."""

import json

from surehand.gateway.access.tokens import hash_token
from surehand.gateway.webhooks.signatures import new_webhook_secret


def test_a_good_file_is_fine_and_a_mistake_names_its_line(run, tmp_path):
    path = tmp_path / "surehand.yaml"
    path.write_text("builtin: {clock: true}\ngateway: {port: 9000}\n")
    good = run("config", "check", "--config", str(path))
    path.write_text("builtin: {clock: true}\ngateway: {tokens: [{hash: x, user: ada}]}\n")
    bad = run("config", "check", "--config", str(path))

    assert (good.code, bad.code) == (0, 2)
    assert "surehand.yaml is fine" in good.out
    assert ":2:" in bad.err
    assert "hash" in bad.err


def test_a_webhook_whose_secret_is_not_set_is_a_mistake(run, tmp_path, monkeypatch):
    path = tmp_path / "surehand.yaml"
    path.write_text("builtin: {clock: true}\ngateway:\n  webhooks:\n    - {name: slack, secret_env: BRIDGE_SECRET}\n")
    unset = run("config", "check", "--config", str(path))
    monkeypatch.setenv("BRIDGE_SECRET", new_webhook_secret())
    is_set = run("config", "check", "--config", str(path))

    assert (unset.code, is_set.code) == (2, 0)
    assert ":4:" in unset.err
    assert "BRIDGE_SECRET" in unset.err


def test_an_address_for_other_machines_needs_a_token(run, tmp_path, monkeypatch):
    monkeypatch.setenv("GATEWAY_TOKEN", "secret")
    path = tmp_path / "surehand.yaml"
    results = {}
    for given in ("", ", token_env: GATEWAY_TOKEN", f', tokens: [{{hash: "{hash_token("t")}", user: ada}}]'):
        path.write_text(f"builtin: {{clock: true}}\ngateway: {{host: 0.0.0.0{given}}}\n")
        results[given.strip(", ").partition(":")[0]] = run("config", "check", "--config", str(path))

    assert {name: result.code for name, result in results.items()} == {"": 2, "token_env": 0, "tokens": 0}
    assert "0.0.0.0 can be reached from other machines" in results[""].err
    assert "token_env" in results[""].err


def test_a_token_is_printed_once_with_the_entry_of_its_hash(run):
    made = run("config", "token", "--user", "ada", "--scope", "tools:git__*")
    refused = run("config", "token")

    token = made.out.strip()
    entry = json.loads(made.err.splitlines()[-1].removeprefix("- "))
    assert entry == {"hash": hash_token(token), "user": "ada", "scopes": ["tools:git__*"]}
    assert refused.code == 2


def test_the_schema_is_printed(run):
    assert json.loads(run("config", "schema").out)["properties"]["gateway"]
