"""`surehand login` and `surehand logout`, against a real authorization server."""

from __future__ import annotations

import json
import sys
import webbrowser

import click
import httpx2
import pytest

from surehand.cli.commands import login, logout
from surehand.cli.exit_codes import CommandExit
from tests.http.server import only_loopback
from tests.providers.mcp.oauth_server import read_token_files, run_oauth_server


@pytest.fixture(scope="module")
def servers():
    with run_oauth_server() as authority:
        yield authority


@pytest.fixture
def authority(servers, monkeypatch, tmp_path):
    only_loopback(monkeypatch)
    servers.reset()
    monkeypatch.setenv("SUREHAND_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(webbrowser, "open", _browse)
    servers_file = {"mcpServers": {"notes": {"url": servers.url, "auth": "oauth"}, "plain": {"url": servers.url}}}
    (tmp_path / "surehand.json").write_text(json.dumps(servers_file))
    return servers


def _browse(url):
    with httpx2.Client(follow_redirects=True, trust_env=False, timeout=30) as client:
        client.get(url)


def run(module, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        module.command.main([*arguments], standalone_mode=False, obj={"debug": False})


def kept(folder):
    return read_token_files(folder / "state" / "tokens")


def test_login_signs_in_and_logout_forgets(authority, tmp_path, capsys):
    run(login, "notes")
    signed_in = capsys.readouterr()
    run(login, "notes")
    run(logout, "notes")

    assert signed_in.out == f"Signed in to {authority.url} with tools (60 min, then it is renewed).\n"
    assert signed_in.err.startswith(f"Sign in here: {authority.issuer}/authorize?")
    assert authority.seen == ["registered", "signed in ada"]
    assert kept(tmp_path) == []
    assert capsys.readouterr().out.endswith(f"Forgot the sign-in to {authority.url}.\n")
    run(logout, "notes")
    assert "There was no sign-in" in capsys.readouterr().out


def test_each_user_signs_in_separately(authority, tmp_path, capsys):
    run(login, "notes")
    authority.person = "bob"
    run(login, "notes", "--user", "bob")

    assert {found["user"] for found in kept(tmp_path)} == {None, "bob"}
    assert "for bob" in capsys.readouterr().out
    run(logout, "notes", "--user", "bob")
    assert {found["user"] for found in kept(tmp_path)} == {None}


def test_login_accepts_a_url_that_is_in_the_configuration_or_not(authority, tmp_path, capsys):
    run(login, authority.url)
    (tmp_path / "surehand.json").unlink()
    run(login, authority.url)

    assert authority.seen == ["registered", "signed in ada"]
    assert capsys.readouterr().out.count("Signed in to") == 2


def test_a_refused_sign_in_and_an_unknown_server_are_reported(authority):
    authority.refuses = True
    with pytest.raises(CommandExit, match=r"refused \(access_denied\)") as refused:
        run(login, "notes")
    with pytest.raises(CommandExit, match="Did you mean 'notes'") as unknown:
        run(login, "note")
    with pytest.raises(CommandExit, match="no `auth: oauth`") as open_to_all:
        run(login, "plain")
    with pytest.raises(click.UsageError):
        run(login)

    assert (refused.value.code, unknown.value.code, open_to_all.value.code) == (4, 5, 2)
    assert all("access-" not in str(error.value) for error in (refused, unknown, open_to_all))


def test_login_to_a_server_without_sign_in_is_reported(authority, capsys):
    with pytest.raises(CommandExit, match="does not ask anybody to sign in") as ended:
        run(login, f"{authority.issuer}/.well-known/oauth-authorization-server")

    assert ended.value.code == 2
