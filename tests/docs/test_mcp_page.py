"""The reference of MCP servers says what the code does."""

import inspect
import re
from ast import literal_eval
from dataclasses import MISSING, fields
from pathlib import Path
from typing import get_args

import pytest

from surehand import mcp
from surehand.core import sanitize
from surehand.providers.mcp.addresses import http
from surehand.providers.mcp.addresses.address import DEFAULT_MAX_FRAME_BYTES, ServerAddress
from surehand.providers.mcp.connection import backoff, connection, elicitation, health, tool_call, tools_list
from surehand.providers.mcp.options import ServerOptions
from surehand.providers.mcp.provider import ServerReport
from surehand.providers.mcp.tools import manifest
from surehand.providers.mcp.transports import stderr_log, stdio

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "mcp.md").read_text(encoding="utf-8")
NAMES = (DOCS / "reference" / "names.md").read_text(encoding="utf-8")


def rows(heading: str, page: str = PAGE) -> list[list[str]]:
    """The rows of the table whose first column is called so."""
    table = page.partition(f"| {heading} |")[2].partition("\n\n")[0]
    lines = [line for line in table.splitlines()[2:] if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def row(heading: str, start: str) -> str:
    [found] = [cells for cells in rows(heading) if cells[0].startswith(start)]
    return " ".join(found)


def test_every_option_stands_with_its_default_and_unit():
    told = {name.strip("`"): literal_eval(default.strip("`")) for name, default, *_ in rows("option")}

    assert told == {field.name: field.default for field in fields(ServerOptions) if field.default is not MISSING}
    assert all(len(cells) == 4 and all(cells) for cells in rows("option"))


def test_every_function_stands_with_its_parameters():
    told = {re.match(r"`mcp\.(\w+)\(", cells[0])[1]: cells[0] for cells in rows("function")}
    made = [name for name in mcp.__all__ if "Server" in str(inspect.signature(getattr(mcp, name)).return_annotation)]

    assert sorted(told) == sorted(made)
    for name, told_of in told.items():
        taken = set(inspect.signature(getattr(mcp, name)).parameters)
        assert taken <= set(re.findall(r"\w+", told_of)), name


def test_every_name_of_the_module_has_a_row():
    assert sorted(cells[0].strip("`") for cells in rows("inside `mcp`", NAMES)) == sorted(
        f"mcp.{n}" for n in mcp.__all__
    )


def test_every_state_stands_in_its_order_and_every_field_of_a_report_is_named():
    assert [cells[0].strip("`") for cells in rows("state")] == list(get_args(connection.ConnectionState))
    assert {field.name for field in fields(ServerReport)} <= set(re.findall(r"\w+", PAGE.partition("## States")[2]))


def test_every_reason_of_a_server_that_is_down_is_told():
    code = inspect.getsource(connection)

    assert sorted(cells[0].strip("`") for cells in rows("reason")) == sorted(set(re.findall(r'"(mcp_\w+)"', code)))


@pytest.mark.parametrize(
    ("start", "numbers"),
    [
        ("coming up", [ServerAddress.connection_timeout_seconds, http.SIGN_IN_TIMEOUT_SECONDS]),
        ("an answer to a probe", [health.PROBE_TIMEOUT_SECONDS]),
        ("pauses", [*backoff.BACKOFF_DELAYS_SECONDS, backoff.STABLE_AFTER_SECONDS]),
        ("ending", [stdio.EXIT_TIMEOUT_SECONDS, stdio.TERMINATE_TIMEOUT_SECONDS]),
        ("questions", [tool_call.MAX_QUESTION_ROUNDS, elicitation.MAX_REQUESTS_AT_ONCE, elicitation.MAX_FORM_FIELDS]),
        ("tools", [tools_list.MAX_LIST_ITEMS, sanitize.MAX_TEXT_CHARS]),
        ("lines", [stderr_log.MAX_KEPT_LINES, stderr_log._MAX_LINES_PER_SECOND]),
    ],
)
def test_the_limits_are_those_of_the_code(start, numbers):
    told = re.findall(r"\d[\d,.]*(?<=\d)", row("what", start))

    assert [float(number.replace(",", "")) for number in told] == numbers


def test_sizes_and_places_are_those_of_the_code(monkeypatch, tmp_path):
    monkeypatch.setenv("SUREHAND_CACHE", str(tmp_path))

    assert f"{DEFAULT_MAX_FRAME_BYTES >> 20} MiB" in PAGE
    assert f"{manifest.MAX_MANIFEST_AGE_SECONDS / 86_400:g} days" in PAGE
    assert manifest.cache_directory() == tmp_path
