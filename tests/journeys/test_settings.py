"""Settings: a file as other programs write it governs the calls of a runtime."""

import asyncio
import json
from pathlib import Path

from surehand import Failed, tool
from surehand.assemble import assemble
from surehand.config.config import read_config
from surehand.testing import settle

SETTINGS = {
    "defaults": {"toolTimeout": 50, "toolResponseMaxBytes": 1_000, "maxConcurrentTools": 2},
    "queues": {"bank": {"concurrent": 1}},
}


async def test_limits_written_in_camel_case_and_milliseconds_hold_for_every_call(tmp_path: Path) -> None:
    running, most, open_gate = 0, 0, asyncio.Event()

    @tool(timeout="1m")
    async def work() -> None:
        """Work until let go."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await open_gate.wait()
        running -= 1

    @tool
    async def hang() -> None:
        """Never answer."""
        await asyncio.Event().wait()

    @tool(timeout="1m")
    async def big() -> str:
        """Give much."""
        return "x" * 1_001

    file = tmp_path / "surehand.json"
    file.write_text(json.dumps(SETTINGS))
    async with assemble(read_config(file), work, hang, big) as runtime:
        slow, large = await runtime.call("hang"), await runtime.call("big")
        calls = [asyncio.create_task(runtime.call("work")) for _ in range(5)]
        await settle()
        open_gate.set()
        await asyncio.gather(*calls)

    assert isinstance(slow, Failed)
    assert slow.text == "(tool failed: hang timed out after 0.05 s.)"
    assert json.loads(large.text)["tool_output"]["bytes"] == 1_001
    assert most == 2
