"""One zygote for all runs of a worker, and a server for those who kill it."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest

from tests.crash.run import Harness
from tests.crash.server import Server
from tests.crash.zygote import Zygote
from tests.room import tmp_path as tmp_path


@pytest.fixture(autouse=True)
def patience() -> None:
    """On a busy machine these take longer than a loop that hangs may: their own limit is what counts."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


@pytest.fixture(scope="session")
def harness(zygote: Zygote) -> Harness:
    return Harness(zygote)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server
