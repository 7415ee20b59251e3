"""A process that triggers an agent and works on the event is killed; the next one ends the run, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.worker_kills import kill_and_recover, run_program

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("parts", [2, pytest.param(12, marks=pytest.mark.long)])
def test_an_event_is_one_run_whenever_its_worker_dies(tmp_path: Path, parts: int) -> None:
    (tmp_path / "measured").mkdir()
    moments = run_program(tmp_path / "measured", str(tmp_path / "measured" / "store.db"))
    for part in range(1, parts + 1):
        folder = tmp_path / str(part)
        folder.mkdir()

        problems = kill_and_recover(folder, str(folder / "store.db"), part * moments // (parts + 1))

        assert problems == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(1, 11))
def test_the_same_holds_on_a_server(tmp_path: Path, schemas, part: int) -> None:
    name = schemas.empty()
    (tmp_path / "measured").mkdir()
    moments = run_program(tmp_path / "measured", str(tmp_path / "measured" / "store.db"))

    problems = kill_and_recover(tmp_path, schemas.address(name), part * moments // 11)

    assert problems == []
