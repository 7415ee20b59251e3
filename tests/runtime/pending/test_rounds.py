"""Rounds: which question of a pending call an answer is for."""

import asyncio
from typing import Any

import pytest

from surehand import Context, Failed, Pending, Provider, Runtime, Tool, tool


class Cleaner(Provider):
    """Asks before it deletes each of these, and has deleted those that somebody said yes to."""

    namespace = "disk"

    def __init__(self, *files: str) -> None:
        self._files, self.deleted = files, list[str]()

    async def tools(self) -> list[Tool[..., Any]]:
        return [tool.provided("clean", "Delete files.", effects={"write"})]

    async def invoke(self, call: Any, context: Context) -> Any:
        return self._ask(0)

    async def resume(self, call: Any, state: Any, answer: Any, context: Any) -> Any:
        if answer == "yes":
            self.deleted.append(self._files[state])
        return self._ask(state + 1)

    def _ask(self, number: int) -> Any:
        if number == len(self._files):
            return list(self.deleted)
        return Pending("input", message=f"Delete {self._files[number]}?", request={"number": number}, state=number)


@tool(effects={"write"}, confirm=True)
async def clean_all(ctx: Context) -> Any:
    """Clean whatever there is."""
    return await ctx.call("disk__clean")


@pytest.fixture(params=[None, "calls.db"])
def store(request, tmp_path):
    return None if request.param is None else tmp_path / request.param


def is_conflict(outcome: Any) -> bool:
    return isinstance(outcome, Failed) and outcome.code == "conflict"


async def test_a_yes_to_one_question_is_not_taken_for_the_next(store):
    disk = Cleaner("A", "B")
    async with Runtime(disk, store=store) as runtime:
        call_id = (await runtime.call("disk__clean")).call_id
        [first] = await runtime.pending()
        await runtime.settle(call_id, "no", round=first.round)
        late = await runtime.settle(call_id, "yes", round=first.round)
        [second] = await runtime.pending()
        outcome = await runtime.settle(call_id, "yes", round=second.round)

    assert is_conflict(late)
    assert "the question was answered already; another one is open" in late.message
    assert (first.round, second.round, second.message) == (1, 2, "Delete B?")
    assert (outcome.data, disk.deleted) == (["B"], ["B"])


async def test_an_answer_to_a_later_question_changes_nothing(store):
    disk = Cleaner("A", "B")
    async with Runtime(disk, store=store) as runtime:
        call_id = (await runtime.call("disk__clean")).call_id
        early = await runtime.settle(call_id, "yes", round=3)
        [open_] = await runtime.pending()

    assert is_conflict(early)
    assert early.message == "There is no question 3 yet; question 1 is open."
    assert (open_.round, disk.deleted) == (1, [])


async def test_of_a_call_that_waits_for_another_such_a_question_is_counted_as_it_was_asked_for(store):
    disk = Cleaner("A", "B")
    async with Runtime(disk, clean_all, store=store) as runtime:
        call_id = (await runtime.call("clean_all")).call_id
        await runtime.approve(call_id, round=1)
        early = await runtime.settle(call_id, "yes", round=4)
        standing = await runtime.status(call_id)

    assert is_conflict(early)
    assert standing is not None
    assert early.message == f"There is no question 4 yet; question {standing.round} is open."


async def test_the_same_yes_again_is_not_one_to_the_next_question_either(store):
    disk = Cleaner("A", "B")
    async with Runtime(disk, store=store) as runtime:
        call_id = (await runtime.call("disk__clean")).call_id
        await runtime.settle(call_id, "yes", round=1)
        again = await runtime.settle(call_id, "yes", round=1)
        other = await runtime.settle(call_id, "no", round=1)
        standing = await runtime.status(call_id)

    assert (again.waiting_for, again.message) == ("input", "Delete B?")
    assert is_conflict(other)
    assert standing.round == 2
    assert disk.deleted == ["A"]


async def test_an_answer_that_does_not_say_to_which_question_is_to_the_open_one(store):
    disk = Cleaner("A", "B")
    async with Runtime(disk, store=store) as runtime:
        call_id = (await runtime.call("disk__clean")).call_id
        await runtime.settle(call_id, "no")
        outcome = await runtime.settle(call_id, "yes")

    assert outcome.data == ["B"]


async def test_approving_and_rejecting_are_to_one_question_as_well(store):
    @tool(effects={"write"}, confirm=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    async with Runtime(pay, store=store) as runtime:
        [one, two] = [(await runtime.call("pay")).call_id for _ in range(2)]
        wrong = [await runtime.approve(one, round=2), await runtime.reject(two, round=2)]
        right = [await runtime.approve(one, round=1), await runtime.reject(two, round=1)]
        again = [await runtime.approve(one, round=1), await runtime.reject(two, round=1)]
        other = [await runtime.approve(one, round=2), await runtime.reject(two, round=2)]

    assert all(map(is_conflict, wrong))
    assert right[0].data == "paid"
    assert right[1].code == "rejected"
    assert again == right
    assert all(map(is_conflict, other))


async def test_of_concurrent_answers_one_counts_and_only_for_its_question(tmp_path):
    files = [str(number) for number in range(6)]
    disks = [Cleaner(*files), Cleaner(*files)]
    async with Runtime(disks[0], store=tmp_path / "s.db") as here, Runtime(disks[1], store=tmp_path / "s.db") as there:
        call_id = (await here.call("disk__clean")).call_id
        for round in range(1, len(files) + 1):
            given = [each.settle(call_id, f"yes {who}", round=round) for who in "ab" for each in (here, there)]
            outcomes = await asyncio.gather(*given)
            standing = await here.status(call_id)
            assert standing.round == (round + 1 if round < len(files) else 0)
            assert any(map(is_conflict, outcomes))


async def test_a_refused_answer_is_in_the_audit(tmp_path):
    async with Runtime(Cleaner("A", "B"), store=tmp_path / "s.db") as runtime:
        call_id = (await runtime.call("disk__clean")).call_id
        await runtime.settle(call_id, "no", round=1)
        await runtime.settle(call_id, "yes", round=1, by="Ann")
        [row] = await runtime.store.database.read("SELECT by_whom, detail FROM audit WHERE kind = 'refused'")

    assert row["by_whom"] == "Ann"
    assert "conflict" in row["detail"]


# A call that waits for another one


async def test_the_questions_of_a_call_that_is_waited_for_count_on(store):
    disk = Cleaner("A", "B")
    async with Runtime(disk, clean_all, store=store) as runtime:
        call_id = (await runtime.call("clean_all")).call_id
        stood = [await runtime.status(call_id)]
        for answer in (runtime.approve(call_id, round=1), runtime.settle(call_id, "no", round=2)):
            await answer
            stood.append(await runtime.status(call_id))
        outcome = await runtime.settle(call_id, "yes", round=3)

    assert [each.round for each in stood] == [1, 2, 3]
    assert {each.outcome.call_id for each in stood} == {call_id}
    assert [each.question.tool for each in stood] == ["clean_all", "disk__clean", "disk__clean"]
    assert [each.outcome.message for each in stood[1:]] == ["Delete A?", "Delete B?"]
    assert (outcome.data, disk.deleted) == (["B"], ["B"])


async def test_a_yes_to_an_earlier_question_of_either_is_not_taken_for_the_open_one(store):
    disk = Cleaner("A", "B")
    async with Runtime(disk, clean_all, store=store) as runtime:
        call_id = (await runtime.call("clean_all")).call_id
        await runtime.approve(call_id, round=1)
        early = [await runtime.settle(call_id, "yes", round=1)]
        await runtime.settle(call_id, "no", round=2)
        early += [await runtime.settle(call_id, "yes", round=round) for round in (1, 2, 4)]

    assert all(map(is_conflict, early))
    assert disk.deleted == []
