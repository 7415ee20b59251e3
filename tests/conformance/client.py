"""Our client in the scenarios of the official suite. It works like an application: through a `Runtime`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from tempfile import TemporaryDirectory
from typing import Any

from surehand import Done, Outcome, Pending, Runtime, ToolError, mcp
from tests.conformance.client_auth import client_auth
from tests.conformance.suite import ScenarioInput

NAMESPACE = "suite"
ARGUMENTS_BY_TOOL: dict[str, Mapping[str, Any]] = {
    "add_numbers": {"a": 5, "b": 3},
    "lookup_user": {"id": "ada"},
    "valid_tool": {"region": "us-west1"},
}
"""Arguments of tools that need some; the other tools are called without arguments."""

MUST_REFUSE = frozenset(
    f"auth/{name}"
    for name in (
        *("iss-normalized", "iss-supported-missing", "iss-unexpected", "iss-wrong-issuer"),
        *("metadata-issuer-mismatch", "resource-mismatch", "scope-retry-limit"),
    )
)
"""Scenarios whose server is faulty, so that the client must refuse to use it."""


async def play_scenario(scenario_input: ScenarioInput) -> str:
    """Play one scenario. It is an error if the client uses a server that it must refuse."""
    if scenario_input.scenario not in MUST_REFUSE:
        return await call_every_tool(scenario_input)
    try:
        results = await call_every_tool(scenario_input)
    except ToolError as error:
        return f"Refused as expected: {error}"
    raise AssertionError(f"the client should have refused the server: {results}")


async def call_every_tool(scenario_input: ScenarioInput) -> str:
    """List the server's tools, call each of them, and answer every elicitation."""
    with TemporaryDirectory(prefix="surehand-conformance-") as folder:
        auth = await client_auth(scenario_input, folder)
        server = mcp.http(scenario_input.url, namespace=NAMESPACE, auth=auth, manifest=False, required=True)
        async with Runtime(server) as runtime:
            outcomes = [await runtime.call(name, arguments) for name, arguments in _calls(scenario_input, runtime)]
            return "; ".join([await _settle(runtime, outcome) for outcome in outcomes]) or "no tools"


def _calls(scenario_input: ScenarioInput, runtime: Runtime) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if "toolCalls" in scenario_input.context:
        for call in scenario_input.context["toolCalls"]:
            # Leave nulls out: our client refuses a null that does not match the schema before it sends it.
            values = {name: value for name, value in call["arguments"].items() if value is not None}
            yield f"{NAMESPACE}__{call['name']}", values
        return
    schemas = {tool["name"].removeprefix(f"{NAMESPACE}__"): tool["inputSchema"] for tool in runtime.describe("mcp")}
    for name in schemas:
        if name == "json_schema_echo":
            yield f"{NAMESPACE}__{name}", {"schema": schemas["json_schema_2020_12_tool"]}
        elif name != "json_schema_2020_12_tool":  # the scenario only checks how it is listed
            yield f"{NAMESPACE}__{name}", ARGUMENTS_BY_TOOL.get(name, {})


async def _settle(runtime: Runtime, outcome: Outcome) -> str:
    while isinstance(outcome, Pending):
        outcome = await runtime.settle(outcome.call_id, True)  # submits the form with its default values
    assert isinstance(outcome, Done), f"{outcome}"
    return outcome.text
