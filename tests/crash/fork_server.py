"""A fork server: imports everything once, then forks a process per plan. It has no thread and no event loop itself."""

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

from tests.crash.agent_driver import PORT_VARIABLE
from tests.crash.process import ProcessPlan, run_plan, warm_up
from tests.crash.run_log import RunLog

ROOT = Path(__file__).parents[2]


class ForkServer:
    """Client of the fork server: starts it, and sends it plans."""

    def __init__(self) -> None:
        self._numbers = count()
        self._model = _start_module("tests.crash.model_server")
        assert self._model.stdout is not None
        self._process = _start_module(
            "tests.crash.fork_server", **{PORT_VARIABLE: self._model.stdout.readline().strip()}
        )

    def run(self, plan: ProcessPlan, survivor: ProcessPlan | None = None) -> list[int]:
        """The exit codes: 0, or minus the signal that killed a process. `survivor` starts first and is not killed."""
        if survivor is None:
            return self._request("sequential", [plan])
        return self._request("concurrent", [plan, survivor])

    def run_sequentially(self, plans: list[ProcessPlan]) -> list[int]:
        """Run all plans in one process, one after the other; returns an exit code per plan.

        Another process goes on with the plans after one that has failed.
        """
        codes: list[int] = []
        while len(codes) < len(plans):
            rest = plans[len(codes) :]
            ends_before = list(map(_count_ends, rest))
            [code] = self._request("sequential", rest)
            has_ended = [_count_ends(plan) > before for plan, before in zip(rest, ends_before, strict=True)]
            ended = has_ended.index(False) if False in has_ended else len(rest)
            codes += [0] * ended + [code] * (ended < len(rest))
        return codes

    def _request(self, mode: str, plans: list[ProcessPlan]) -> list[int]:
        number = next(self._numbers)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"number": number, "mode": mode, "plans": [asdict(plan) for plan in plans]}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        while True:  # an interrupted test may have left an earlier answer unread
            answer = json.loads(self._process.stdout.readline())
            if answer["number"] == number:
                return [int(code) for code in answer["codes"]]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()
        self._model.communicate()


def _count_ends(plan: ProcessPlan) -> int:
    """How many processes have run this part of a scenario to its end."""
    return len(RunLog(Path(plan.folder)).lines(f"points-{plan.part}"))


def _start_module(name: str, **environment: str) -> subprocess.Popen[str]:
    """Start a module as a process that ends when its stdin is closed, and not by Ctrl-C in the terminal."""
    return subprocess.Popen(
        [sys.executable, "-m", name],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def serve() -> None:
    """Fork a process for each request on stdin, until stdin is closed."""
    warm_up()
    gc.collect()
    gc.freeze()  # otherwise the collector writes to shared pages, and every child copies them
    for line in sys.stdin:
        request = json.loads(line)
        plans = [ProcessPlan(**each) for each in request["plans"]]
        if request["mode"] == "concurrent":
            codes = _run_concurrently(*plans)
        else:
            codes = [_wait_for_exit(_fork(*plans, pin_to_core=True), plans[0])]
        print(json.dumps({"number": request["number"], "codes": codes}), flush=True)


def _run_concurrently(plan: ProcessPlan, survivor: ProcessPlan) -> list[int]:
    survivor_pid = _fork(survivor)
    folder = Path(survivor.folder)
    while not (folder / "ready").exists() and not os.waitpid(survivor_pid, os.WNOHANG)[0]:
        time.sleep(0.001)
    code = _wait_for_exit(_fork(plan), plan)
    (folder / "dead").touch()
    return [code, _wait_for_exit(survivor_pid, survivor)]


def _fork(*plans: ProcessPlan, pin_to_core: bool = False) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        if pin_to_core and hasattr(os, "sched_setaffinity"):
            # The GIL lets one thread run at a time, and waking a thread on another core costs more than its work.
            os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
        for plan in plans:
            run_plan(plan)
        code = 0
    except BaseException:  # noqa: BLE001 - the child must never return into the loop of the fork server
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait_for_exit(child: int, plan: ProcessPlan) -> int:
    if plan.kill_after_seconds is not None:
        time.sleep(plan.kill_after_seconds)
        os.kill(child, signal.SIGKILL)  # not waited for yet, so the process id cannot have been reused
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    serve()
