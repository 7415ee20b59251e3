"""Attacks of a model that has file tools and commands in the folder of the program, with a server beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from surehand import Runtime, files, mcp, shell
from tests.attack.cases.mcp import worst_lag
from tests.attack.runner import attack

MAX_LOOP_LAG_SECONDS = 1.0
NAME_COUNT = 100_000
SERVER = "import helper\ntry:\n    import accelerator\nexcept ImportError:\n    pass\n"


@contextmanager
def workspace_folder() -> Iterator[Path]:
    """An empty folder on a disk: no sandbox shows one of /dev."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


@attack("workspace", "A command that makes a hundred thousand names does not keep the event loop busy.")
async def flood_of_names(_: Path) -> str:
    with workspace_folder() as folder:
        return await _make_names(folder)


async def _make_names(folder: Path) -> str:
    sys.path.append(str(folder))
    try:
        async with Runtime(files(folder), shell(folder)) as runtime, worst_lag() as worst:
            command = f"python3 -c \"\nfor i in range({NAME_COUNT}): open(f'n{{i}}', 'w').close()\n\"; sleep 1"
            outcome = await runtime.call("bash", {"command": command})
    finally:
        sys.path.remove(str(folder))
    assert outcome.ok, outcome.text
    assert worst[0] <= MAX_LOOP_LAG_SECONDS, f"{worst[0]:.2f} s"
    return f"the loop stood still for {worst[0]:.2f} s at most"


@attack("workspace", "No module of the standard library can be put beside a server, in any form.", limit_seconds=300)
async def plant_every_module_beside_a_server(_: Path) -> str:
    with workspace_folder() as folder:
        return await _plant_modules(folder)


async def _plant_modules(folder: Path) -> str:
    servers = folder / "servers"
    servers.mkdir()
    (servers / "server.py").write_text(SERVER)
    (servers / "helper.py").write_text("")
    server = mcp.stdio(sys.executable, str(servers / "server.py"), namespace="local")
    names = sorted({*sys.stdlib_module_names, "accelerator", "pydantic", "mcp"})
    forms = ("{}.py", "{}/__init__.py", "{}.pyc", "{}.abi3.so", "{}-1.0.DIST-INFO/entry_points.txt")
    async with Runtime(files(folder), shell(folder), server) as runtime:
        for name in names:
            for form in forms:
                path = f"servers/{form.format(name)}"
                outcome = await runtime.call("write", {"file_path": path, "content": "x"})
                assert not outcome.ok, path
        for name in names[:: len(names) // 20]:
            outcome = await runtime.call("bash", {"command": f"echo x > servers/{name}.py"})
            assert not outcome.ok, name
            assert not (servers / f"{name}.py").exists(), name
    return f"{len(names) * len(forms)} files"
