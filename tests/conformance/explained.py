"""The scenarios that are not passed, each with its reason; every other one has to pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a scenario is not passed."""

    why: str
    checks: tuple[str, ...] = ()
    """Those of its checks that fail; none given means the one that bears the scenario's name."""
    at: str = ""
    """The revision under which it is so; empty for each."""

    def is_for(self, version: str) -> bool:
        return self.at in ("", version)

    def failing(self, scenario: str) -> tuple[str, ...]:
        return self.checks or (scenario,)


_DPOP = ("sep-1932-client-token-request-proof", "sep-1932-client-dpop-auth-scheme", "sep-1932-client-fresh-proof")
CLIENT: Mapping[str, Reason] = {
    "auth/dpop": Reason(
        "Tokens bound to a key (DPoP, SEP-1932) are an extension that the `mcp` library does not have.", checks=_DPOP
    ),
    "auth/dpop-nonce": Reason(
        "The same, with a nonce.", checks=(*_DPOP, "sep-1932-client-as-nonce", "sep-1932-client-rs-nonce")
    ),
    "auth/wif-jwt-bearer": Reason(
        "Signing in with a workload's own token (SEP-1933) is an extension that it does not have.",
        checks=("wif-grant-type", "wif-grant-fallback"),
    ),
}

CLIENT_NOT_RUN: Mapping[str, str] = {
    "sep-2640-client-*": "Skills (SEP-2640) are an extension for programs that load skills from servers; this is none.",
}
SERVER_NOT_RUN: Mapping[str, str] = {
    "sep-2640-skills-*": "Skills (SEP-2640) are an extension for servers of skills; this is none.",
    "tasks-status-notifications": "It is in the suite, but does not look at anything yet.",
}
PROXY_NOT_RUN: Mapping[str, str] = {
    "tasks-*": "With 2026-07-28 behind: there, tools do not say whether they may run as tasks, so none of them is one.",
    **SERVER_NOT_RUN,
}

_NO_PROMPTS = "A runtime has tools; it has no prompts."
_NO_FIXED = "The resources of a runtime are the outputs that it keeps; none has an address of the suite's."
_NO_LOG = "What tools write to a log stays in ours; the newer protocol is giving up the one of clients (SEP-2577)."
_NO_WATCH = "Outputs never change, so there is nothing to subscribe to."
_NO_MODEL = "Tools here do not use the client's model (sampling), which the newer protocol is giving up (SEP-2577)."
_NO_ROOTS = "Tools here do not ask for the client's folders (roots), which the newer protocol is giving up (SEP-2577)."

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
        "It asks during a prompt, and a runtime has none.", checks=("sep-2322-non-tool-incomplete",)
    ),
    "completion-complete": Reason("Only the arguments of prompts and resources are completed, and there are none."),
    "caching": Reason(
        "The list of prompts has no hints, as there is none.", checks=("sep-2549-prompts-list-caching-hints",)
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
        "It wants the client's model to be asked where no person can be.", checks=_CAPABILITIES
    ),
    "input-required-result-multiple-input-requests": Reason(
        "It asks a person, but a model and for folders as well.", checks=_SEVERAL
    ),
    "input-required-result-basic-list-roots": Reason(_NO_ROOTS, checks=_ROOTS),
    "server-sse-polling": Reason(
        "What was sent is not kept, so a stream that broke off is not taken up again. "
        "That is recommended, not required, and the newer protocol has given it up.",
        checks=("server-sse-priming-event", "server-sse-retry-field"),
    ),
}

LIBRARY: Mapping[str, Reason] = {}
OWN: Mapping[str, Reason] = {
    **_EVERYWHERE,
    "server-stateless": Reason(
        "A tool may need that the client has the tasks extension, but never that it has a model.",
        checks=("sep-2575-server-rejects-undeclared-capability",),
    ),
}

_NO_MODEL_BEHIND = "Our client does not lend its model to servers, so there is nothing to pass on (sampling, SEP-2577)."
PROXY: Mapping[str, Reason] = {
    **_EVERYWHERE,
    "tools-call-sampling": Reason(_NO_MODEL_BEHIND),
    "input-required-result-basic-sampling": Reason(_NO_MODEL_BEHIND, checks=_SAMPLING),
    "input-required-result-capability-check": Reason(_NO_MODEL_BEHIND, checks=_CAPABILITIES),
    "input-required-result-multiple-input-requests": Reason(_NO_MODEL_BEHIND, checks=_SEVERAL),
    "input-required-result-basic-list-roots": Reason(
        "A server behind is told that there are no folders, without asking anybody (roots, SEP-2577).", checks=_ROOTS
    ),
    "server-stateless": Reason(
        "The server behind refuses our client, which has no model, and that is how the tool fails.",
        checks=("sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"),
    ),
}
_NO_KEYS = "In the older protocol a question has no key, and so it gets another one than the suite looks for."
_NO_SUCH_TOOL = "Our client leaves out tools that run as tasks only, so the one behind says that it may."
PROXY_OF_OLDER: Mapping[str, Reason] = {
    "input-required-result-basic-elicitation": Reason(_NO_KEYS, checks=("sep-2322-elicitation-incomplete",)),
    "input-required-result-ignore-extra-params": Reason(_NO_KEYS, checks=("sep-2322-ignore-unexpected-params",)),
    "tasks-lifecycle": Reason(
        "A server behind that answers with an error has failed the tool, and not our server: "
        "the task is completed, with `isError`.",
        checks=("sep-2663-tasks-get-status-failed",),
    ),
    "tasks-mrtr-composition": Reason(_NO_SUCH_TOOL, checks=("sep-2663-mrtr-synchronous-before-task-creation",)),
    "tasks-mrtr-input": Reason(
        "In the older protocol one question is asked after the other, so there are never two to answer.",
        checks=("tasks-mrtr-partial-fulfillment",),
    ),
    "tasks-required-task-error": Reason(
        _NO_SUCH_TOOL, checks=("sep-2663-server-returns-missing-capability-when-required",)
    ),
}
PROXY_OF_NEWER: Mapping[str, Reason] = {}
