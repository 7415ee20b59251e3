"""Zygote: imports everything once, then forks a process per life, on command. It has no thread and no loop itself."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.crash.process import Life, live, warm

ROOT = Path(__file__).parents[2]


class Zygote:
    """The other end: starts it, and has it fork."""

    def __init__(self) -> None:
        self._numbers = count()
        command = [sys.executable, "-m", "tests.crash.zygote"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, life: Life, beside: Life | None = None) -> list[int]:
        """How each process ended: 0, or minus the signal that killed it. `beside` starts first and survives."""
        return self._ordered("in turn", [life]) if beside is None else self._ordered("side by side", [life, beside])

    def run_in_turn(self, lives: list[Life]) -> list[int]:
        """How the one process ended that lived all of these, one after the other; told once for each of them."""
        return self._ordered("in turn", lives) * len(lives)

    def _ordered(self, how: str, lives: list[Life]) -> list[int]:
        number = next(self._numbers)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"number": number, "how": how, "lives": [asdict(life) for life in lives]}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        while True:  # a test that was interrupted may have left an answer behind
            answer = json.loads(self._process.stdout.readline())
            if answer["number"] == number:
                return [int(code) for code in answer["codes"]]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def serve() -> None:
    """Fork on command until nobody commands any more."""
    warm()
    gc.collect()
    gc.freeze()  # children would copy what the collector touches
    for line in sys.stdin:
        order = json.loads(line)
        lives = [Life(**each) for each in order["lives"]]
        codes = _beside(*lives) if order["how"] == "side by side" else [_ended(_forked(*lives, alone=True), lives[0])]
        print(json.dumps({"number": order["number"], "codes": codes}), flush=True)


def _beside(life: Life, survivor: Life) -> list[int]:
    other = _forked(survivor)
    folder = Path(survivor.folder)
    while not (folder / "ready").exists() and not os.waitpid(other, os.WNOHANG)[0]:
        time.sleep(0.001)
    code = _ended(_forked(life), life)
    (folder / "dead").touch()
    return [code, _ended(other, survivor)]


def _forked(*lives: Life, alone: bool = False) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        if alone and hasattr(os, "sched_setaffinity"):
            # Its threads take turns anyway, and to wake one on another core costs more than what it is woken for.
            os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
        for life in lives:
            live(life)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the child must not go on as a second zygote
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _ended(child: int, life: Life) -> int:
    if life.after is not None:
        time.sleep(life.after)
        os.kill(child, signal.SIGKILL)  # it is ours, and nobody has waited for it yet: the number is still its own
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    serve()
