"""A shared queue in a configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from surehand import DefinitionError, Queue
from surehand.assemble import assemble
from surehand.config.config import read_config
from surehand.config.errors import ConfigError


def written(folder: Path, text: str) -> Path:
    path = folder / "surehand.yaml"
    path.write_text(text, encoding="utf-8")
    return path


async def test_a_queue_may_be_shared(tmp_path: Path) -> None:
    text = "store: calls.db\nqueues: {github: {concurrent: 3, rate: 30/min, shared: true}, own: {concurrent: 1}}\n"
    config = read_config(written(tmp_path, text))

    assert config.queues == {"github": Queue(3, "30/min", shared=True), "own": Queue(1)}
    async with assemble(config) as runtime:
        assert list(runtime.queues()) == ["github", "own"]
        assert list(runtime._parts.queues.shared_queues) == ["github"]


async def test_a_shared_queue_needs_a_store_there_too(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--remember"):
        pytest.skip("every runtime has a store there")
    config = read_config(written(tmp_path, "queues: {github: {concurrent: 3, shared: true}}\n"))

    with pytest.raises(DefinitionError, match="The queue 'github' is shared, but the runtime has no store"):
        async with assemble(config):
            pass


def test_shared_is_true_or_false(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="shared must be true or false"):
        read_config(written(tmp_path, "queues: {github: {concurrent: 3, shared: often}}\n"))
