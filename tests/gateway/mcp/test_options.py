"""The options of a server."""

import subprocess
import sys

import pytest

from surehand import DefinitionError, Runtime, __version__, gateway
from surehand.core.extras import install_command


def test_without_options_name_and_version_are_those_of_the_package():
    server = gateway.mcp.server(Runtime())

    assert (server.name, server.version) == ("surehand", __version__)


@pytest.mark.parametrize("name", ["server", "serve", "app", "listen"])
def test_without_the_extra_the_error_names_the_install_command(name):
    absent = "import sys; sys.modules['mcp'] = sys.modules['uvicorn'] = None"
    asked = f"{absent}\nfrom surehand import gateway; gateway.mcp.{name}"
    ended = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)

    missing = "uvicorn" if name == "listen" else "mcp"
    extras = ("mcp", "server") if name in ("app", "listen") else ("mcp",)
    fix = install_command(*extras)
    expected = f"surehand.core.errors.DefinitionError: Serving over MCP needs {missing}. Fix: {fix}"
    assert ended.stderr.splitlines()[-1] == expected


def test_options_are_keyword_arguments():
    server = gateway.mcp.server(Runtime(), name="shop", version="1.2", page=7, user="ada", short_names=True)

    assert (server.name, server.version) == ("shop", "1.2")
    assert (server.served_runtime.options.page, server.served_runtime.options.user) == (7, "ada")


@pytest.mark.parametrize(("name", "meant"), [("pages", "page"), ("shortnames", "short_names"), ("tool_set", "toolset")])
def test_an_unknown_option_is_refused_with_the_nearest_name(name, meant):
    with pytest.raises(DefinitionError, match=f"did you mean '{meant}'"):
        gateway.mcp.server(Runtime(), **{name: 1})


@pytest.mark.parametrize(("name", "meant"), [("tokens", "token"), ("host", "hosts"), ("origin", "origins")])
def test_an_option_of_the_app_is_suggested_too(name, meant):
    with pytest.raises(DefinitionError, match=f"did you mean '{meant}'"):
        gateway.mcp.app(Runtime(), **{name: "x"})


@pytest.mark.parametrize("page", [0, -1, 1.5, "10", True, None])
def test_a_page_has_at_least_one_entry(page):
    with pytest.raises(DefinitionError, match="page="):
        gateway.mcp.server(Runtime(), page=page)


@pytest.mark.parametrize("option", ["name", "version", "toolset", "user"])
def test_string_options_must_be_strings(option):
    with pytest.raises(DefinitionError, match=f"{option} must be a string, got 3"):
        gateway.mcp.server(Runtime(), **{option: 3})


@pytest.mark.parametrize("value", [None, "yes", 1])
def test_short_names_must_be_a_bool(value):
    with pytest.raises(DefinitionError, match="short_names must be a bool"):
        gateway.mcp.server(Runtime(), short_names=value)


@pytest.mark.parametrize("name", ["", None])
def test_the_name_must_not_be_empty(name):
    with pytest.raises(DefinitionError, match="name="):
        gateway.mcp.server(Runtime(), name=name)


def test_nothing_but_a_runtime_is_served():
    with pytest.raises(DefinitionError, match="Runtime"):
        gateway.mcp.server([])


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError):
        gateway.mcp.client  # noqa: B018
    with pytest.raises(AttributeError):
        gateway.grpc  # noqa: B018
