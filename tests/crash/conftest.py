"""Fixtures of the crash tests: one fork server per pytest worker, and a PostgreSQL server that can be killed."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest

from tests.crash.fork_server import ForkServer
from tests.crash.harness import Harness
from tests.crash.killable_postgres import KillablePostgres
from tests.temp_folders import tmp_path as tmp_path


@pytest.fixture(autouse=True)
def disable_faulthandler_timeout() -> None:
    """These tests may take longer than the faulthandler's limit on a busy machine; their own timeout applies."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as fork_server:
        yield fork_server


@pytest.fixture(scope="session")
def harness(fork_server: ForkServer) -> Harness:
    return Harness(fork_server)


@pytest.fixture(scope="session")
def server() -> Iterator[KillablePostgres]:
    with KillablePostgres() as server:
        yield server
