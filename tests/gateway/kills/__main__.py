"""`python -m tests.gateway.kills`: kill a gateway many times under load, and print what was counted."""

import argparse
import asyncio
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.gateway.kills.run_kills import KillReport, run_kills


def main() -> int:
    """Run the experiment; 1 if anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(run_kills(Path(folder), options.kills, options.seed))
    for name, value in asdict(report).items():
        print(f"{name.replace('_', ' '):<22} {value:>8}")
    return 0 if is_clean(report) else 1


def is_clean(report: KillReport) -> bool:
    """Whether nothing was lost, doubled or missed."""
    names = (
        "lost_effects", "doubled_effects", "lost_ends", "doubled_ends", "differing_readers", "missed_events",
        "lost_call_ends",
    )  # fmt: skip
    return not any(getattr(report, name) for name in names)


if __name__ == "__main__":
    sys.exit(main())
