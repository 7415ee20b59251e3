"""The scenarios that fail, each with the reason. Every other scenario must pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """Why a scenario fails, and which of its checks."""

    why: str
    checks: tuple[str, ...] = ()
    """The checks that fail; if empty, the check that has the scenario's name."""
    revision: str = ""
    """The protocol version in which it fails; empty for all."""

    def applies_to(self, version: str) -> bool:
        return self.revision in ("", version)

    def expected_checks(self, scenario: str) -> tuple[str, ...]:
        return self.checks or (scenario,)


_DPOP = ("sep-1932-client-token-request-proof", "sep-1932-client-dpop-auth-scheme", "sep-1932-client-fresh-proof")
CLIENT: Mapping[str, ExpectedFailure] = {
    "auth/dpop": ExpectedFailure(
        "Tokens that are bound to a key (DPoP, SEP-1932) are an extension that the MCP SDK does not support.",
        checks=_DPOP,
    ),
    "auth/dpop-nonce": ExpectedFailure(
        "The same, with a nonce.", checks=(*_DPOP, "sep-1932-client-as-nonce", "sep-1932-client-rs-nonce")
    ),
    "auth/wif-jwt-bearer": ExpectedFailure(
        "Authorization with a workload's own token (SEP-1933) is an extension that the MCP SDK does not support.",
        checks=("wif-grant-type", "wif-grant-fallback"),
    ),
}

CLIENT_NOT_RUN: Mapping[str, str] = {
    "sep-2640-client-*": "Skills (SEP-2640) are an extension for clients that load skills from servers; ours does not.",
}
SERVER_NOT_RUN: Mapping[str, str] = {
    "sep-2640-skills-*": "Skills (SEP-2640) are an extension for servers that offer skills; ours does not.",
    "tasks-status-notifications": "The scenario is in the suite, but has no checks yet.",
}
PROXY_NOT_RUN: Mapping[str, str] = {
    "tasks-*": "With 2026-07-28 behind: its tools do not declare whether they may run as tasks, so none does.",
    **SERVER_NOT_RUN,
}

_NO_PROMPTS = "A runtime has tools; it has no prompts."
_NO_FIXED_RESOURCES = "The resources of a runtime are its stored outputs; none has a URI that the suite reads."
_NO_LOG = (
    "Log messages of tools go to the server's log; logging to clients is deprecated in the modern protocol (SEP-2577)."
)
_NO_SUBSCRIPTIONS = "Outputs never change, so there is nothing to subscribe to."
_NO_MODEL = "Our tools do not use the client's model (sampling), which is deprecated in the modern protocol (SEP-2577)."
_NO_ROOTS = "Our tools do not ask for the client's folders (roots), which the modern protocol deprecates (SEP-2577)."

_SAMPLING = ("sep-2322-sampling-incomplete",)
_CAPABILITIES = ("sep-2322-respect-client-capabilities",)
_MULTIPLE_INPUTS = ("sep-2322-multiple-inputs-incomplete",)
_ROOTS = ("sep-2322-list-roots-incomplete",)
_EVERY_SERVER: Mapping[str, ExpectedFailure] = {
    "prompts-list": ExpectedFailure(_NO_PROMPTS),
    "prompts-get-simple": ExpectedFailure(_NO_PROMPTS),
    "prompts-get-with-args": ExpectedFailure(_NO_PROMPTS),
    "prompts-get-embedded-resource": ExpectedFailure(_NO_PROMPTS),
    "prompts-get-with-image": ExpectedFailure(_NO_PROMPTS),
    "input-required-result-non-tool-request": ExpectedFailure(
        "The scenario asks during a prompt, and a runtime has no prompts.", checks=("sep-2322-non-tool-incomplete",)
    ),
    "completion-complete": ExpectedFailure(
        "Completion is for arguments of prompts and resource templates, and a runtime has no prompts."
    ),
    "caching": ExpectedFailure(
        "There is no list of prompts that could have cache hints.", checks=("sep-2549-prompts-list-caching-hints",)
    ),
    "resources-read-text": ExpectedFailure(_NO_FIXED_RESOURCES),
    "resources-read-binary": ExpectedFailure(_NO_FIXED_RESOURCES),
    "resources-templates-read": ExpectedFailure(_NO_FIXED_RESOURCES),
    "resources-subscribe": ExpectedFailure(_NO_SUBSCRIPTIONS),
    "resources-unsubscribe": ExpectedFailure(_NO_SUBSCRIPTIONS),
    "logging-set-level": ExpectedFailure(_NO_LOG),
    "tools-call-with-logging": ExpectedFailure(_NO_LOG),
    "tools-call-sampling": ExpectedFailure(_NO_MODEL),
    "input-required-result-basic-sampling": ExpectedFailure(_NO_MODEL, checks=_SAMPLING),
    "input-required-result-capability-check": ExpectedFailure(
        "The scenario expects that the client's model is asked if no person can be.", checks=_CAPABILITIES
    ),
    "input-required-result-multiple-input-requests": ExpectedFailure(
        "The scenario asks a person, but also the client's model, and for its folders.", checks=_MULTIPLE_INPUTS
    ),
    "input-required-result-basic-list-roots": ExpectedFailure(_NO_ROOTS, checks=_ROOTS),
    "server-sse-polling": ExpectedFailure(
        "Sent messages are not stored, so a broken stream cannot be resumed. "
        "Resuming is recommended, not required, and the modern protocol has removed it.",
        checks=("server-sse-priming-event", "server-sse-retry-field"),
    ),
}

SDK: Mapping[str, ExpectedFailure] = {}
OWN: Mapping[str, ExpectedFailure] = {
    **_EVERY_SERVER,
    "server-stateless": ExpectedFailure(
        "A tool may require that the client supports tasks, but never that it offers a model.",
        checks=("sep-2575-server-rejects-undeclared-capability",),
    ),
}

_NO_MODEL_BEHIND = (
    "Our client does not offer a model to servers, so no request of that kind is passed on (sampling, SEP-2577)."
)
PROXY: Mapping[str, ExpectedFailure] = {
    **_EVERY_SERVER,
    "tools-call-sampling": ExpectedFailure(_NO_MODEL_BEHIND),
    "input-required-result-basic-sampling": ExpectedFailure(_NO_MODEL_BEHIND, checks=_SAMPLING),
    "input-required-result-capability-check": ExpectedFailure(_NO_MODEL_BEHIND, checks=_CAPABILITIES),
    "input-required-result-multiple-input-requests": ExpectedFailure(_NO_MODEL_BEHIND, checks=_MULTIPLE_INPUTS),
    "input-required-result-basic-list-roots": ExpectedFailure(
        "Our client answers the server behind that there are no folders, without asking a person (roots, SEP-2577).",
        checks=_ROOTS,
    ),
    "server-stateless": ExpectedFailure(
        "The server behind refuses our client, which offers no model, so the tool fails with that error.",
        checks=("sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"),
    ),
}
_NO_KEYS = (
    "In the handshake protocol a question has no key, so it gets another key than the one that the suite expects."
)
_NO_SUCH_TOOL = (
    "Our client leaves out tools that run only as tasks, so the tool behind declares that it may run as one."
)
PROXY_OF_HANDSHAKE: Mapping[str, ExpectedFailure] = {
    "input-required-result-basic-elicitation": ExpectedFailure(_NO_KEYS, checks=("sep-2322-elicitation-incomplete",)),
    "input-required-result-ignore-extra-params": ExpectedFailure(
        _NO_KEYS, checks=("sep-2322-ignore-unexpected-params",)
    ),
    "tasks-lifecycle": ExpectedFailure(
        "An error of the server behind is a failure of the tool, and not of our server: "
        "the task is completed, with `isError`.",
        checks=("sep-2663-tasks-get-status-failed",),
    ),
    "tasks-mrtr-composition": ExpectedFailure(
        _NO_SUCH_TOOL, checks=("sep-2663-mrtr-synchronous-before-task-creation",)
    ),
    "tasks-mrtr-input": ExpectedFailure(
        "In the handshake protocol questions are asked one after the other, so there are never two to answer.",
        checks=("tasks-mrtr-partial-fulfillment",),
    ),
    "tasks-required-task-error": ExpectedFailure(
        _NO_SUCH_TOOL, checks=("sep-2663-server-returns-missing-capability-when-required",)
    ),
}
PROXY_OF_MODERN: Mapping[str, ExpectedFailure] = {}
