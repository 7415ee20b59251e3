"""Our own server: a `Runtime` with the tools that the suite expects, as an application would define them."""

from __future__ import annotations

from starlette.applications import Starlette

from surehand import Runtime, gateway
from tests.conformance.fixture_answers import ANSWERS, Changing
from tests.conformance.fixture_jobs import JOBS
from tests.conformance.fixture_questions import Questions


def app() -> Starlette:
    """Over streamable HTTP, at `/mcp`; tools of providers go by their own names."""
    return gateway.mcp.app(Runtime(*ANSWERS, *JOBS, Changing(), Questions()), short_names=True)
