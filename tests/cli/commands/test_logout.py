"""`surehand logout`, and how it and `surehand login` find a server."""

import json

import pytest

REMOTE = {"url": "https://notes.example.com/mcp", "auth": "oauth"}


@pytest.fixture
def logout(run, monkeypatch, tmp_path):
    """Log out of a server of a configuration."""
    monkeypatch.setenv("SUREHAND_STATE", str(tmp_path / "state"))

    def logout(servers: dict[str, object], name: str):
        (tmp_path / "surehand.json").write_text(json.dumps({"mcpServers": servers}))
        return run("logout", name)

    return logout


@pytest.mark.parametrize("name", ["my notes", "my_notes", "https://notes.example.com/mcp"])
def test_a_server_is_found_by_its_name_namespace_or_url(logout, name):
    ran = logout({"my notes": REMOTE}, name)

    assert (ran.code, ran.out) == (0, "There was no sign-in to https://notes.example.com/mcp.\n")


def test_a_missing_variable_of_another_server_does_not_matter(logout):
    ran = logout({"notes": REMOTE, "other": {"url": "https://${NO_SUCH_VARIABLE}/mcp"}}, "notes")

    assert (ran.code, ran.err) == (0, "")


def test_an_unknown_server_is_reported_with_a_suggestion(logout):
    ran = logout({"my notes": REMOTE}, "my nots")

    assert (ran.code, ran.err) == (5, "error: There is no MCP server 'my nots'. Did you mean 'my notes'?\n")
