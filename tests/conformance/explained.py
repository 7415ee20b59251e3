"""The scenarios that our client does not pass, each with its reason; every other one has to pass."""

from __future__ import annotations

EXPLAINED: dict[str, str] = {
    "auth/dpop": "Tokens bound to a key (DPoP, SEP-1932) are an extension that the `mcp` library does not have.",
    "auth/dpop-nonce": "The same, with a nonce.",
    "auth/wif-jwt-bearer": "Signing in with a workload's own token (SEP-1933) is an extension that it does not have.",
}

NOT_RUN: dict[str, str] = {
    "sep-2640-client-*": "Skills (SEP-2640) are an extension for programs that load skills from servers; this is none.",
}
