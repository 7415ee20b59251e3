"""A program with runaway server processes and calls in flight, which the test kills: arguments `FOLDER WORD`."""

import asyncio
import sys
from pathlib import Path

from surehand import Runtime, mcp
from tests.providers.mcp.peers import PLAIN
from tests.providers.mcp.steady_server import SteadyServer, wait_until


async def main(folder: Path, word: str) -> None:
    mark = {"MARK": word}
    steady = SteadyServer(folder / "steady")
    family = mcp.stdio(*PLAIN, "family", "stubborn", namespace="family", manifest=False, env=mark)
    async with Runtime(steady.provider(env=mark), family) as runtime:
        assert (await runtime.call("family__pid")).ok
        calls = [asyncio.create_task(runtime.call("steady__wait", {"text": str(n)})) for n in range(20)]
        await wait_until(lambda: len(steady.effects) == 20, 30)
        print("ready", flush=True)
        await asyncio.gather(*calls)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
