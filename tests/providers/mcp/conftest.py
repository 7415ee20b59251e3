from pathlib import Path

import pytest

from surehand.core.clock import Clock
from surehand.providers.mcp.connection import silence_timeout
from tests.providers.mcp.steady import ERAS, Steady


@pytest.fixture(autouse=True)
def places_of_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of servers is kept apart from the user's own."""
    monkeypatch.setenv("SUREHAND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SUREHAND_STATE", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code of a server is waited for for as long as a busy machine takes to tell it."""
    monkeypatch.setattr("surehand.providers.mcp.transports.stdio._EXIT_CODE_SECONDS", 20.0)


class Silence:
    """How long nothing has been heard of calls."""

    seconds = 0.0


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Silence:
    """The time of which calls have a limit to be silent: a test lets it pass, and no busy machine does."""
    passed = Silence()

    class ClockOfTheTest(Clock):
        now = staticmethod(lambda: passed.seconds)

    monkeypatch.setattr(silence_timeout, "Clock", ClockOfTheTest)
    return passed


@pytest.fixture(params=ERAS)
def steady(request: pytest.FixtureRequest, tmp_path: Path) -> Steady:
    """A server that speaks the newer protocol, and then one that speaks the older."""
    return Steady(tmp_path / "steady", request.param)


@pytest.fixture
def server(tmp_path: Path) -> Steady:
    """A server whose protocol does not matter."""
    return Steady(tmp_path / "steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests wait for processes that they start, and for several at once."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(60))
