"""The task log, and the tools that read it and archived sessions."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from surehand import Runtime
from surehand.builtin.agent.task_log import TaskLog
from surehand.builtin.agent.tasks import sessions, tasks

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

NOON = 1_806_494_400.0  # 2027-03-31 12:00 UTC
DAY = "2027-03-31"


def now() -> float:
    return NOON


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_task_is_listed_and_replayed(tmp_path):
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t1", "Book a flight", messages=[{"role": "user", "content": "Book a flight"}])
        await log.append("t1", "REASON_DONE", messages=[{"role": "assistant", "content": "To where?"}])
        await log.create("t2", "Water the plants")
        await log.append(
            "t1", "TASK_COMPLETED", {"result": "Booked."}, messages=[{"role": "assistant", "content": "Booked."}]
        )
        await log.create("t3", "Sing")
        await log.append("t3", "TASK_FAILED", {"error": "no voice"})
        async with Runtime(tasks(tmp_path, now=now)) as runtime:
            listed = await runtime.call("task_list")
            replayed = await runtime.call("task_replay", {"taskId": "t1"})

    assert listed.data == [
        {"taskId": "t1", "inputText": "Book a flight", "status": "completed", "createdAt": int(NOON * 1000)},
        {"taskId": "t2", "inputText": "Water the plants", "status": "in_progress", "createdAt": int(NOON * 1000)},
        {"taskId": "t3", "inputText": "Sing", "status": "failed", "createdAt": int(NOON * 1000)},
    ]
    assert [message["content"] for message in replayed.data] == ["Book a flight", "To where?", "Booked."]


async def test_the_files_are_laid_out_by_day(tmp_path):
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t1", "Sing", source="mail")
        noted = json.loads((tmp_path / "tasks/pending.json").read_text())
        await log.append("t1", "TASK_COMPLETED")

    assert noted == [{"taskId": "t1", "ts": int(NOON * 1000)}]
    assert json.loads((tmp_path / "tasks/pending.json").read_text()) == []
    assert lines(tmp_path / "tasks/index.jsonl") == [{"taskId": "t1", "date": DAY}]
    first, last = lines(tmp_path / f"tasks/{DAY}/t1.jsonl")
    assert first == {
        "ts": int(NOON * 1000),
        "event": "TASK_CREATED",
        "taskId": "t1",
        "data": {"inputText": "Sing", "source": "mail", "newMessages": []},
    }
    assert last["event"] == "TASK_COMPLETED"


async def test_a_task_that_runs_past_midnight_stays_in_one_file(tmp_path):
    moment = [NOON]
    async with TaskLog(tmp_path, now=lambda: moment[0]) as log:
        await log.create("t1", "Sleep")
        moment[0] += 86_400
        await log.append("t1", "TASK_COMPLETED")
        await log.append("t1", "REFLECTION_COMPLETE")

    assert len(lines(tmp_path / f"tasks/{DAY}/t1.jsonl")) == 3


async def test_a_restart_marks_unfinished_tasks_as_failed(tmp_path):
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t1", "Sing")
        await log.create("t2", "Dance")
        await log.append("t2", "TASK_COMPLETED")
    async with TaskLog(tmp_path, now=now) as log:
        assert log.interrupted == ("t1",)
        assert log.pending == ()
    async with TaskLog(tmp_path, now=now) as log:
        assert log.interrupted == ()
    async with Runtime(tasks(tmp_path, now=now)) as runtime:
        listed = (await runtime.call("task_list")).data

    assert {task["taskId"]: task["status"] for task in listed} == {"t1": "failed", "t2": "completed"}
    assert [line["event"] for line in lines(tmp_path / f"tasks/{DAY}/t1.jsonl")] == ["TASK_CREATED", "TASK_FAILED"]


CRASH = """
import asyncio, json, os, sys
from surehand.builtin.agent.task_log import TaskLog

def dies(real, at, calls=[0]):
    def step(*args, **kwargs):
        calls[0] += 1
        if calls[0] == at:
            os._exit(9)
        return real(*args, **kwargs)
    return step

async def story(folder, at):
    async with TaskLog(folder) as log:
        for name in ("fsync", "rename", "write"):
            setattr(os, name, dies(getattr(os, name), at))
        await log.create("t1", "Sing", messages=["la"])
        await log.append("t1", "REASON_DONE", messages=["la la"])
        await log.append("t1", "TASK_COMPLETED")
        open(folder + "/finished", "w").close()

for at in range(1, 100):
    if not (child := os.fork()):
        asyncio.run(story(os.path.join(sys.argv[1], str(at)), at))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
print(at)
"""


@pytest.mark.timeout(30)
def test_after_a_crash_at_any_step_the_log_is_readable_and_the_task_ended(tmp_path):
    ran = subprocess.run([sys.executable, "-c", CRASH, str(tmp_path)], capture_output=True, text=True, check=True)
    steps = int(ran.stdout)

    for step in range(1, steps + 1):
        asyncio.run(judged(tmp_path / str(step), finished=(tmp_path / str(step) / "finished").exists()))
    assert 15 < steps < 99


async def judged(folder: Path, *, finished: bool) -> None:
    async with TaskLog(folder) as log:
        assert log.pending == ()
    [file] = list(folder.glob("tasks/*/t1.jsonl")) or [None]
    if file is None:  # it had not begun
        return
    ends = [line for line in lines(file) if line["event"] in ("TASK_COMPLETED", "TASK_FAILED")]
    assert len(ends) == 1
    assert not finished or ends[0]["event"] == "TASK_COMPLETED"
    async with Runtime(tasks(folder)) as runtime:
        assert (await runtime.call("task_replay", {"taskId": "t1"})).ok


async def test_a_line_that_was_cut_off_does_not_damage_the_next(tmp_path):
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t1", "Sing", messages=["one"])
    for path in (tmp_path / f"tasks/{DAY}/t1.jsonl", tmp_path / "tasks/index.jsonl"):
        path.write_text(path.read_text() + '{"ts": 1, "event": "REAS')
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t2", "Dance", messages=["two"])
        async with Runtime(tasks(tmp_path, now=now)) as runtime:
            assert (await runtime.call("task_replay", {"taskId": "t1"})).data == ["one"]
            assert (await runtime.call("task_replay", {"taskId": "t2"})).data == ["two"]
            assert [task["status"] for task in (await runtime.call("task_list")).data] == ["failed", "in_progress"]


FULL = """
import asyncio, resource, sys
from surehand.builtin.agent.task_log import TaskLog
async def main():
    async with TaskLog(sys.argv[1]) as log:
        await log.create("t1", "Sing")
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
        written = 0
        try:
            while True:
                await log.append("t1", "REASON_DONE", messages=["la " * 30])
                written += 1
        except OSError:
            print(written, flush=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await log.append("t1", "TASK_COMPLETED")
asyncio.run(main())
"""


@pytest.mark.timeout(30)
def test_a_full_disk_leaves_whole_lines_behind(tmp_path):
    ran = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    [file] = tmp_path.glob("tasks/*/t1.jsonl")
    events = [line["event"] for line in lines(file)]

    assert int(ran.stdout) > 1
    assert events == ["TASK_CREATED", *["REASON_DONE"] * int(ran.stdout), "TASK_COMPLETED"]


async def test_invalid_text_does_not_make_a_task_unreadable(tmp_path):
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t1", "half \ud800", messages=["half \udfff"])
        with (tmp_path / f"tasks/{DAY}/t1.jsonl").open("a") as file:
            file.write('{"event": "REASON_DONE", "data": {"newMessages": ["\\ud800", NaN]}}\n')
        async with Runtime(tasks(tmp_path, now=now)) as runtime:
            listed = await runtime.call("task_list")
            replayed = await runtime.call("task_replay", {"taskId": "t1"})

    assert listed.data[0]["inputText"] == "half ?"
    assert replayed.data == ["half ?"]


@pytest.mark.parametrize("noted", ["", "{", "[1]", '{"a": 1}', '[{"taskId": "t1"}]', '[{"taskId": "../x", "ts": 1}]'])
async def test_a_broken_list_of_pending_tasks_is_rebuilt(tmp_path, noted):
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t1", "Sing")
        await log.create("t2", "Dance")
        await log.append("t2", "TASK_COMPLETED")
    (tmp_path / "tasks/pending.json").write_text(noted)
    async with TaskLog(tmp_path, now=now) as log:
        assert set(log.interrupted) <= {"t1"}
        await log.create("t3", "Read")

    assert json.loads((tmp_path / "tasks/pending.json").read_text()) == [{"taskId": "t3", "ts": int(NOON * 1000)}]


async def test_a_folder_has_one_writer(tmp_path):
    async with TaskLog(tmp_path):
        with pytest.raises(RuntimeError, match="Another TaskLog"):
            await TaskLog(tmp_path).__aenter__()
    async with TaskLog(tmp_path) as log:
        await log.create("t1", "Sing")
    with pytest.raises(RuntimeError, match="not open"):
        await log.create("t2", "Dance")


async def test_concurrent_tasks_are_all_recorded(tmp_path):
    async with TaskLog(tmp_path, now=now) as log:
        await asyncio.gather(*(log.create(f"t{n}", "Sing") for n in range(20)))
        await asyncio.gather(*(log.append(f"t{n}", "TASK_COMPLETED") for n in range(0, 20, 2)))
        assert sorted(log.pending) == sorted(f"t{n}" for n in range(1, 20, 2))
        async with Runtime(tasks(tmp_path, now=now)) as runtime:
            statuses = [task["status"] for task in (await runtime.call("task_list")).data]

    assert (statuses.count("completed"), statuses.count("in_progress")) == (10, 10)


@pytest.mark.parametrize("task_id", ["", "../t1", "a/b", ".hidden", "a\0b", "t" * 200, "a b", "ä"])
async def test_an_id_that_is_no_file_name_is_refused(tmp_path, task_id):
    async with TaskLog(tmp_path) as log:
        with pytest.raises(ValueError, match="`task_id` must"):
            await log.create(task_id, "Sing")


async def test_a_task_is_created_once_and_before_other_events(tmp_path):
    async with TaskLog(tmp_path) as log:
        await log.create("t1", "Sing")
        with pytest.raises(ValueError, match="already"):
            await log.create("t1", "Sing")
        with pytest.raises(ValueError, match="create"):
            await log.append("t2", "TASK_COMPLETED")


@pytest.mark.parametrize("date", ["2027-13-01", "yesterday", "../..", "2027-03-31/..", "20270331", "2027-3-31", ""])
async def test_an_invalid_date_is_refused(tmp_path, date):
    async with Runtime(tasks(tmp_path)) as runtime:
        assert (await runtime.call("task_list", {"date": date})).code == "invalid_arguments"


async def test_a_day_without_tasks_lists_none(tmp_path):
    async with Runtime(tasks(tmp_path)) as runtime:
        assert (await runtime.call("task_list")).data == []
        assert (await runtime.call("task_list", {"date": "1999-12-31"})).data == []


@pytest.mark.parametrize("task_id", ["t9", "", "../../secret", f"{DAY}/t1", "t1\0", ".."])
async def test_a_task_that_is_not_in_the_index_is_not_found(tmp_path, task_id):
    (tmp_path / "secret.jsonl").write_text('{"data": {"newMessages": ["secret"]}}\n')
    async with TaskLog(tmp_path, now=now) as log, Runtime(tasks(tmp_path)) as runtime:
        await log.create("t1", "Sing")
        outcome = await runtime.call("task_replay", {"taskId": task_id})

    assert outcome.code == "not_found"
    assert outcome.message == f'Task "{task_id}" not found in index'


async def test_an_index_cannot_point_outside_the_folder(tmp_path):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "secret.jsonl").write_text('{"data": {"newMessages": ["secret"]}}\n')
    index = [{"taskId": "secret", "date": ".."}, {"taskId": "../secret", "date": "."}]
    (tmp_path / "tasks/index.jsonl").write_text("".join(json.dumps(line) + "\n" for line in index))
    async with Runtime(tasks(tmp_path)) as runtime:
        for task_id in ("secret", "../secret"):
            assert (await runtime.call("task_replay", {"taskId": task_id})).code == "not_found"


async def test_broken_and_foreign_logs_are_left_out(tmp_path):
    async with TaskLog(tmp_path, now=now) as log:
        await log.create("t1", "Sing")
        day = tmp_path / "tasks" / DAY
        (day / "a.jsonl").write_text("no json\n")
        (day / "b.jsonl").write_text('{"event": "TASK_CREATED", "data": []}\n[1]\n"TASK_CREATED"\n')
        (day / "c.jsonl").write_text("[" * 10_000 + '"TASK_"')
        (day / "d.jsonl").symlink_to("/etc/hostname")
        (day / "e.jsonl").mkdir()
        os.mkfifo(day / "f.jsonl")
        async with Runtime(tasks(tmp_path, now=now)) as runtime:
            assert [task["taskId"] for task in (await runtime.call("task_list")).data] == ["t1"]


async def test_an_archive_of_the_session_is_read(tmp_path):
    (tmp_path / "20270330.jsonl").write_text('{"role": "user"}\n')
    async with Runtime(sessions(tmp_path)) as runtime:
        assert (await runtime.call("session_archive_read", {"file": "20270330.jsonl"})).data == '{"role": "user"}\n'
        assert (await runtime.call("session_archive_read", {"file": "20270329.jsonl"})).code == "not_found"


@pytest.mark.parametrize(
    "name",
    ["current.jsonl", "CURRENT.jsonl", "./current.jsonl", "../secret.jsonl", "a/b.jsonl", "/etc/passwd", "secret", "",
     "..", "soft.jsonl", "hard.jsonl", "out.jsonl", "a\0.jsonl", ".hidden.jsonl", "current.jsonl/", "Current.JSONL"],
)  # fmt: skip
async def test_the_current_session_and_other_files_cannot_be_read(tmp_path, name):
    folder = tmp_path / "session"
    folder.mkdir()
    (tmp_path / "secret.jsonl").write_text("secret")
    (folder / "current.jsonl").write_text("secret")
    (folder / "CURRENT.jsonl").write_text("secret")
    (folder / "soft.jsonl").symlink_to("current.jsonl")
    os.link(folder / "current.jsonl", folder / "hard.jsonl")
    (folder / "out.jsonl").symlink_to(tmp_path / "secret.jsonl")
    async with Runtime(sessions(folder)) as runtime:
        outcome = await runtime.call("session_archive_read", {"file": name})

    assert outcome.code in ("denied", "invalid_arguments")
    assert "secret\n" not in outcome.text
