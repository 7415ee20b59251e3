"""The scenarios that fail, each with its reason. Every other scenario has to pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a scenario fails."""

    why: str
    checks: tuple[str, ...] = ()
    """The checks that fail; if empty, the check that has the scenario's name."""
    at: str = ""
    """The protocol version in which it fails; empty for all."""

    def is_for(self, version: str) -> bool:
        return self.at in ("", version)

    def failing(self, scenario: str) -> tuple[str, ...]:
        return self.checks or (scenario,)


_DPOP = ("sep-1932-client-token-request-proof", "sep-1932-client-dpop-auth-scheme", "sep-1932-client-fresh-proof")
CLIENT: Mapping[str, Reason] = {
    "auth/dpop": Reason(
        "Tokens that are bound to a key (DPoP, SEP-1932) are an extension that the MCP SDK does not support.",
        checks=_DPOP,
    ),
    "auth/dpop-nonce": Reason(
        "The same, with a nonce.", checks=(*_DPOP, "sep-1932-client-as-nonce", "sep-1932-client-rs-nonce")
    ),
    "auth/wif-jwt-bearer": Reason(
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
_NO_FIXED = "The resources of a runtime are its stored outputs; none has a URI that the suite reads."
_NO_LOG = (
    "Log messages of tools go to the server's log; logging to clients is deprecated in the modern protocol (SEP-2577)."
)
_NO_WATCH = "Outputs never change, so there is nothing to subscribe to."
_NO_MODEL = "Our tools do not use the client's model (sampling), which is deprecated in the modern protocol (SEP-2577)."
_NO_ROOTS = "Our tools do not ask for the client's folders (roots), which the modern protocol deprecates (SEP-2577)."

_SAMPLING = ("sep-2322-sampling-incomplete",)
_CAPABILITIES = ("sep-2322-respect-client-capabilities",)
_SEVERAL = ("sep-2322-multiple-inputs-incomplete",)
_ROOTS = ("sep-2322-list-roots-incomplete",)
_EVERYWHERE: Mapping[str, Reason] = {
    "prompts-list": Reason(_NO_PROMPTS),
    "prompts-get-simple": Reason(_NO_PROMPTS),
    "prompts-get-with-args": Reason(_NO_PROMPTS),
    "prompts-get-embedded-resource": Reason(_NO_PROMPTS),
    "prompts-get-with-image": Reason(_NO_PROMPTS),
    "input-required-result-non-tool-request": Reason(
        "The scenario asks during a prompt, and a runtime has no prompts.", checks=("sep-2322-non-tool-incomplete",)
    ),
    "completion-complete": Reason(
        "Completion is for arguments of prompts and resource templates, and a runtime has no prompts."
    ),
    "caching": Reason(
        "There is no list of prompts that could have cache hints.", checks=("sep-2549-prompts-list-caching-hints",)
    ),
    "resources-read-text": Reason(_NO_FIXED),
    "resources-read-binary": Reason(_NO_FIXED),
    "resources-templates-read": Reason(_NO_FIXED),
    "resources-subscribe": Reason(_NO_WATCH),
    "resources-unsubscribe": Reason(_NO_WATCH),
    "logging-set-level": Reason(_NO_LOG),
    "tools-call-with-logging": Reason(_NO_LOG),
    "tools-call-sampling": Reason(_NO_MODEL),
    "input-required-result-basic-sampling": Reason(_NO_MODEL, checks=_SAMPLING),
    "input-required-result-capability-check": Reason(
        "The scenario expects that the client's model is asked if no person can be.", checks=_CAPABILITIES
    ),
    "input-required-result-multiple-input-requests": Reason(
        "The scenario asks a person, but also the client's model, and for its folders.", checks=_SEVERAL
    ),
    "input-required-result-basic-list-roots": Reason(_NO_ROOTS, checks=_ROOTS),
    "server-sse-polling": Reason(
        "Sent messages are not stored, so a broken stream cannot be resumed. "
        "Resuming is recommended, not required, and the modern protocol has removed it.",
        checks=("server-sse-priming-event", "server-sse-retry-field"),
    ),
}

LIBRARY: Mapping[str, Reason] = {}
OWN: Mapping[str, Reason] = {
    **_EVERYWHERE,
    "server-stateless": Reason(
        "A tool may require that the client supports tasks, but never that it offers a model.",
        checks=("sep-2575-server-rejects-undeclared-capability",),
    ),
}

_NO_MODEL_BEHIND = (
    "Our client does not offer a model to servers, so no request of that kind is passed on (sampling, SEP-2577)."
)
PROXY: Mapping[str, Reason] = {
    **_EVERYWHERE,
    "tools-call-sampling": Reason(_NO_MODEL_BEHIND),
    "input-required-result-basic-sampling": Reason(_NO_MODEL_BEHIND, checks=_SAMPLING),
    "input-required-result-capability-check": Reason(_NO_MODEL_BEHIND, checks=_CAPABILITIES),
    "input-required-result-multiple-input-requests": Reason(_NO_MODEL_BEHIND, checks=_SEVERAL),
    "input-required-result-basic-list-roots": Reason(
        "Our client answers the server behind that there are no folders, without asking a person (roots, SEP-2577).",
        checks=_ROOTS,
    ),
    "server-stateless": Reason(
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
PROXY_OF_OLDER: Mapping[str, Reason] = {
    "input-required-result-basic-elicitation": Reason(_NO_KEYS, checks=("sep-2322-elicitation-incomplete",)),
    "input-required-result-ignore-extra-params": Reason(_NO_KEYS, checks=("sep-2322-ignore-unexpected-params",)),
    "tasks-lifecycle": Reason(
        "An error of the server behind is a failure of the tool, and not of our server: "
        "the task is completed, with `isError`.",
        checks=("sep-2663-tasks-get-status-failed",),
    ),
    "tasks-mrtr-composition": Reason(_NO_SUCH_TOOL, checks=("sep-2663-mrtr-synchronous-before-task-creation",)),
    "tasks-mrtr-input": Reason(
        "In the handshake protocol questions are asked one after the other, so there are never two to answer.",
        checks=("tasks-mrtr-partial-fulfillment",),
    ),
    "tasks-required-task-error": Reason(
        _NO_SUCH_TOOL, checks=("sep-2663-server-returns-missing-capability-when-required",)
    ),
}
PROXY_OF_NEWER: Mapping[str, Reason] = {}
