"""Fixtures of the tests of MCP servers: private cache folders, a clock for silence, and scripted servers."""

from pathlib import Path

import pytest

from surehand.core.clock import Clock
from surehand.providers.mcp.connection import silence_timeout
from tests.providers.mcp.steady_server import ERAS, SteadyServer


@pytest.fixture(autouse=True)
def private_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use cache and state folders of the test, not those of the user."""
    monkeypatch.setenv("SUREHAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SUREHAND_STATE", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def patient_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for the exit code of a server: the machine may be busy."""
    monkeypatch.setattr("surehand.providers.mcp.transports.stdio._EXIT_CODE_TIMEOUT_SECONDS", 20.0)


class Silence:
    """A clock of silence that a test advances."""

    seconds = 0.0


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Silence:
    """The clock of the silence timeout: only the test advances it, so that a busy machine does not."""
    passed = Silence()

    class ClockOfTheTest(Clock):
        now = staticmethod(lambda: passed.seconds)

    monkeypatch.setattr(silence_timeout, "Clock", ClockOfTheTest)
    return passed


@pytest.fixture(params=ERAS)
def steady(request: pytest.FixtureRequest, tmp_path: Path) -> SteadyServer:
    """A server of the modern protocol, and then one of the handshake protocol."""
    return SteadyServer(tmp_path / "steady", request.param)


@pytest.fixture
def server(tmp_path: Path) -> SteadyServer:
    """A server whose protocol does not matter."""
    return SteadyServer(tmp_path / "steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests wait for processes that they start, and for several at once."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(60))
