"""The reference of serving over MCP says what the code does."""

import inspect
import re
from ast import literal_eval
from dataclasses import fields
from pathlib import Path

import pytest

from surehand import Runtime, gateway
from surehand.gateway.mcp import (
    display_text,
    notifications,
    progress,
    request_limits,
    resources,
    runtime_server,
    tool_calls,
)
from surehand.gateway.mcp.http import authentication, request_monitor, sessions
from surehand.gateway.mcp.http.connection_table import ConnectionLimits
from surehand.gateway.mcp.options import ServeOptions
from surehand.gateway.mcp.stdio import limits as stdio_limits
from surehand.gateway.mcp.tasks import retention, running_tasks, subscriptions, task_handlers, wire_format
from surehand.jsonrpc.limits import BYTES_PER_VALUE, CLIENT_MESSAGE_LIMITS

HTTP = ConnectionLimits()
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "mcp-server.md").read_text(encoding="utf-8")
NAMES = (Path(__file__).parents[2] / "docs" / "reference" / "names.md").read_text(encoding="utf-8")


def rows(heading: str, page: str = PAGE) -> list[list[str]]:
    """The rows of the table whose first column is called so."""
    table = page.partition(f"| {heading} |")[2].partition("\n\n")[0]
    lines = [line for line in table.splitlines()[2:] if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def limit(start: str) -> str:
    limits = rows("what", PAGE.partition("## Limits")[2])
    [found] = [" ".join(cells) for cells in limits if cells[0].startswith(start)]
    return found


def test_every_option_stands_with_its_default():
    told = {name.strip("`"): literal_eval(default.strip("`")) for name, default, *_ in rows("option")}

    assert told == {field.name: field.default for field in fields(ServeOptions)}


def test_every_function_stands_with_its_parameters():
    told = {re.search(r"gateway\.mcp\.(\w+)\(", cells[0])[1]: cells[0] for cells in rows("function")}

    assert sorted(told) == sorted(gateway.mcp.__all__)
    for name, told_of in told.items():
        taken = set(inspect.signature(getattr(gateway.mcp, name)).parameters)
        assert taken <= set(re.findall(r"\w+", told_of)), name


def test_every_parameter_of_the_app_is_told():
    taken = [name for name in inspect.signature(gateway.mcp.app).parameters if name not in ("runtime", "options")]

    assert [cells[0].strip("`") for cells in rows("of `app`")] == taken


def test_every_name_of_the_module_has_a_row():
    told = sorted(cells[0].strip("`") for cells in rows("inside `gateway`", NAMES))

    names = {f"gateway.{name}" for name in gateway.__all__} - {"gateway.mcp"}
    assert told == sorted(names | {f"gateway.mcp.{name}" for name in gateway.mcp.__all__})


def test_every_method_that_is_served_is_in_the_table():
    served = gateway.mcp.server(Runtime())._request_handlers
    told = re.findall(r"`([\w/]+)`", " ".join(cells[0] for cells in rows("method")))

    assert sorted(set(told) - {"initialize", "notifications/cancelled"}) == sorted(served)


def test_the_statuses_of_a_task_are_those_of_the_code():
    told = [cells[0].strip("`") for cells in rows("`status`")]

    assert set(re.findall(r'"status": "(\w+)"', inspect.getsource(wire_format))) == set(told)


@pytest.mark.parametrize(
    ("start", "numbers"),
    [
        (
            "bytes of a message",
            [request_limits.MAX_MESSAGE_BYTES >> 20, CLIENT_MESSAGE_LIMITS.max_initialize_bytes >> 10],
        ),
        ("values of a message", [CLIENT_MESSAGE_LIMITS.max_values]),
        ("characters of an id", [CLIENT_MESSAGE_LIMITS.max_id_length]),
        ("bytes of an output", [resources.MAX_READ_BYTES >> 20]),
        ("requests of a connection", [request_limits.MAX_IN_FLIGHT_REQUESTS, request_limits.MAX_IN_FLIGHT_BYTES >> 20]),
        ("bytes of one user's requests", [request_limits.MAX_IN_FLIGHT_BYTES >> 20]),
        (
            "sessions",
            [sessions.MAX_SESSIONS, sessions.MAX_SESSIONS_PER_USER, sessions.SESSION_IDLE_TIMEOUT_SECONDS / 60],
        ),
        (
            "streams",
            [
                runtime_server.MAX_SUBSCRIPTION_STREAMS,
                subscriptions.MAX_STREAMS_PER_USER,
                subscriptions.MAX_TASKS_PER_STREAM,
            ],
        ),
        ("tasks that run", [running_tasks.MAX_RUNNING_TASKS, running_tasks.MAX_RUNNING_TASKS_PER_USER]),
        (
            "tasks that are kept",
            [
                retention.MAX_RETAINED_TASKS,
                retention.MAX_RETAINED_TASKS_PER_USER,
                retention.MAX_RETAINED_BYTES_PER_USER >> 20,
            ],
        ),
        (
            "calls of one user",
            [runtime_server.MAX_PENDING_CALLS_PER_USER, runtime_server.MAX_PENDING_BYTES_PER_USER >> 20],
        ),
        ("reports", [progress.MAX_QUEUED_REPORTS]),
        ("questions", [tool_calls.MAX_QUESTION_ROUNDS]),
        ("characters of a message", [display_text.MAX_MESSAGE_LENGTH]),
        (
            "characters of one argument",
            [
                display_text.MAX_ARGUMENT_LENGTH,
                display_text.MAX_ALL_ARGUMENTS_LENGTH,
                display_text.MAX_OMITTED_ARGUMENTS_LENGTH,
            ],
        ),
        ("seconds in which a client", [stdio_limits.WRITE_TIMEOUT_SECONDS]),
        ("seconds in which an async", [authentication.TOKEN_CHECK_TIMEOUT_SECONDS]),
        ("connections over HTTP", [HTTP.max_connections]),
        ("bytes of the head", [HTTP.max_head_bytes >> 10, request_monitor.MAX_HEADERS]),
        ("seconds for the head", [HTTP.head_timeout, HTTP.body_timeout, HTTP.write_timeout, HTTP.keep_alive_timeout]),
    ],
)
def test_the_limits_are_those_of_the_code(start, numbers):
    assert [float(each) for each in re.findall(r"\d+", limit(start).replace(",", ""))] == numbers


def test_times_are_those_of_the_code():
    assert f"within {task_handlers.IMMEDIATE_RESULT_SECONDS * 1000:g} ms" in PAGE
    assert f"within {notifications.CHANGE_BATCH_SECONDS * 1000:g} ms" in PAGE
    assert f"else {retention.MAX_RETENTION_SECONDS / 60:g} minutes" in PAGE
    assert f"{retention.MIN_RETENTION_SECONDS:g} seconds at least" in " ".join(PAGE.split())
    assert f"and {BYTES_PER_VALUE} for each value" in " ".join(PAGE.split())
    assert f"{stdio_limits.MAX_WAITING_BYTES >> 20} MiB of them" in " ".join(PAGE.split())
    assert resources.OUTPUT_CACHE_MILLISECONDS == 24 * 3_600_000
