"""Async tests run on plain asyncio, each on a loop of its own, and leave no task behind."""

import asyncio
import gc
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from inspect import iscoroutinefunction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.room import ROOM
from tests.room import tmp_path_on_disk as tmp_path_on_disk

gc.disable()  # while thousands of tests are collected, there is nothing to collect
_OVER = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--remember", action="store_true", help="give every runtime a store in a file of its own")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--remember"):
        from tests.remember import everywhere

        everywhere()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.option.markexpr == "not long":
        terminalreporter.write_line("The long tests are left out: scripts/test-long runs them.")


def pytest_collection_finish() -> None:
    gc.enable()
    gc.set_threshold(10_000, 20, 20)  # what most tests leave is not worth looking for after each of them
    freeze()


def pytest_runtest_logfinish() -> None:
    if next(_OVER) % 300 == 0:
        freeze()


def freeze() -> None:
    """The thousands of tests, their imports and what is kept of each need not be looked through again and again."""
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """A property is many tests, and the first of a clone makes tables of all characters; others wait for programs."""
    used = {"ready", "postgres"}.intersection(getattr(item, "fixturenames", ()))
    if (used or hasattr(getattr(item, "obj", None), "hypothesis")) and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(60))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    # A property test is async inside: hypothesis runs the inner function once per example.
    if (given := getattr(pyfuncitem.obj, "hypothesis", None)) and iscoroutinefunction(given.inner_test):
        given.inner_test = on_a_loop(given.inner_test)
    elif iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = on_a_loop(pyfuncitem.obj)


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(leaving_no_task(test(*args, **kwargs)))

    return run


def of_sse(task: asyncio.Task[Any]) -> bool:
    """Whether sse_starlette has started it with the first event stream of a loop, for as long as the loop runs."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and code.co_name == "_shutdown_watcher" and "sse_starlette" in code.co_filename


async def leaving_no_task(test: Coroutine[Any, Any, None]) -> None:
    await test
    if left := {each for each in asyncio.all_tasks() if each is not asyncio.current_task() and not of_sse(each)}:
        pytest.fail(f"The test left tasks running: {', '.join(sorted(map(described, left)))}.", pytrace=False)


def described(task: asyncio.Task[Any]) -> str:
    return f"{task.get_name()} ({getattr(task.get_coro(), '__qualname__', task.get_coro())})"


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """How to start `surehand` as a process of its own that need not import anything first."""
    from tests.command import becoming

    with becoming(str(tmp_path_factory.mktemp("ready") / "socket")) as command:
        yield command


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A real PostgreSQL server of our own, in a temporary folder, reached over its socket."""
    from tests.postgres import serving

    folder = Path(tempfile.mkdtemp(prefix="surehand-pg-", dir=ROOM))
    server = serving(folder)
    # The machine itself is never switched off here, and waiting for its disk would take most of the time.
    server.psql("ALTER SYSTEM SET fsync = off")
    # Readers of the journal stop before the oldest open transaction, and that could be one of the server's own.
    server.psql("ALTER SYSTEM SET autovacuum = off")
    server.psql("SELECT pg_reload_conf()")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def schemas(postgres: Any) -> Iterator[Any]:
    """Empty schemas on that server."""
    from tests.postgres import Schemas

    schemas = Schemas(postgres)
    yield schemas
    schemas.close()
