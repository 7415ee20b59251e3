"""Our client in the official suite's scenarios. It does what an application does: all goes through a `Runtime`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from tempfile import TemporaryDirectory
from typing import Any

from surehand import Done, Outcome, Pending, Runtime, ToolError, mcp
from tests.conformance.identities import identity
from tests.conformance.suite import Given

NAMESPACE = "suite"
ARGUMENTS: dict[str, Mapping[str, Any]] = {
    "add_numbers": {"a": 5, "b": 3},
    "lookup_user": {"id": "ada"},
    "valid_tool": {"region": "us-west1"},
}
"""What the tools of some scenarios need; the others are called without."""

REFUSED = frozenset(
    f"auth/{name}"
    for name in (
        *("iss-normalized", "iss-supported-missing", "iss-unexpected", "iss-wrong-issuer"),
        *("metadata-issuer-mismatch", "resource-mismatch", "scope-retry-limit"),
    )
)
"""Where something is wrong with the server, so that a client has to give up."""


async def play(given: Given) -> str:
    """What the scenario wants; a server that should have been refused, and was not, is an error."""
    if given.scenario not in REFUSED:
        return await used(given)
    try:
        told = await used(given)
    except ToolError as error:
        return f"Refused, as it should be: {error}"
    raise AssertionError(f"nothing was refused: {told}")


async def used(given: Given) -> str:
    """List the server's tools and call each of them; then answer all that was asked."""
    with TemporaryDirectory(prefix="surehand-conformance-") as folder:
        auth = await identity(given, folder)
        server = mcp.http(given.url, namespace=NAMESPACE, auth=auth, manifest=False, required=True)
        async with Runtime(server) as runtime:
            outcomes = [await runtime.call(name, arguments) for name, arguments in _calls(given, runtime)]
            return "; ".join([await _ended(runtime, outcome) for outcome in outcomes]) or "no tools"


def _calls(given: Given, runtime: Runtime) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "toolCalls" in given.context:
        for call in given.context["toolCalls"]:
            # A null where the schema wants something else is refused before it is sent; it is left out instead.
            values = {name: value for name, value in call["arguments"].items() if value is not None}
            yield f"{NAMESPACE}__{call['name']}", values
        return
    shown = {tool["name"].removeprefix(f"{NAMESPACE}__"): tool["inputSchema"] for tool in runtime.describe("mcp")}
    for name in shown:
        if name == "json_schema_echo":
            yield f"{NAMESPACE}__{name}", {"schema": shown["json_schema_2020_12_tool"]}
        elif name != "json_schema_2020_12_tool":  # it is there to be listed
            yield f"{NAMESPACE}__{name}", ARGUMENTS.get(name, {})


async def _ended(runtime: Runtime, outcome: Outcome) -> str:
    while isinstance(outcome, Pending):
        outcome = await runtime.settle(outcome.call_id, True)  # a form is sent as it is filled in
    assert isinstance(outcome, Done), f"{outcome}"
    return outcome.text
