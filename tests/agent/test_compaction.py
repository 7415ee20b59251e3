"""Old parts of a conversation are shortened before the context of the model is full."""

from surehand import Runtime, tool
from surehand.agent.agent import Agent
from surehand.agent.compaction import count_characters
from surehand.agent.limits import Limits
from surehand.agent.models.scripted import ScriptedModel

WINDOW = 20_000


@tool(effects={"read"})
async def read(page: int) -> str:
    """Read a page."""
    return f"[start of {page}]" + "x" * 6_000 + f"[end of {page}]"


def requests_fit(model):
    return all(count_characters(request.messages) / 4 <= WINDOW for request in model.requests)


def results(request):
    return [message["content"] for message in request.messages if message["role"] == "tool"]


async def test_old_results_keep_their_head_and_tail_and_recent_ones_stay_whole(store):
    model = ScriptedModel(*[[("read", {"page": page})] for page in range(12)], "Read.")
    async with Runtime(read, store=store) as runtime:
        run = await Agent("reader", model=model, context_window=WINDOW).run("Read", runtime=runtime)

    shown = results(model.requests[-1])
    assert requests_fit(model)
    assert "characters left out" in shown[0]
    assert "[start of" in shown[0]
    assert "[end of" in shown[0]
    assert shown[-1] == f"[start of 11]{'x' * 6_000}[end of 11]"
    assert results_are_whole(run)


def results_are_whole(run):
    texts = [message["content"] for message in run.messages if message["role"] == "tool"]
    return all(len(text) > 6_000 for text in texts)


async def test_a_long_run_is_summarized_and_no_text_is_shortened_twice():
    model = ScriptedModel(*[[("read", {"page": page})] for page in range(60)], "Read.")
    agent = Agent("reader", model=model, tools=[read], context_window=WINDOW, limits=Limits(steps=100))

    run = await agent.run("Read all of it")

    assert run.status == "done"
    assert requests_fit(model)
    last = model.requests[-1].messages
    assert last[0] == {"role": "user", "content": "Read all of it"}
    assert "You called read" in last[1]["content"]
    for text in results(model.requests[-1]):
        assert text.count("characters left out") <= 1


async def test_one_answer_with_too_many_results_is_cut_to_fit():
    model = ScriptedModel([("read", {"page": page}) for page in range(30)], "Read.")
    run = await Agent("reader", model=model, tools=[read], context_window=WINDOW).run("Read")

    assert run.status == "done"
    assert requests_fit(model)
    assert len(results(model.requests[-1])) == 30


async def test_a_call_that_waits_is_never_shortened(store):
    ask = tool.client("ask", "Ask the person.", parameters={}, reply="later")
    model = ScriptedModel(
        [("ask", {}), ("read", {"page": 0})], *[[("read", {"page": page})] for page in range(1, 30)], "Read."
    )
    async with Runtime(read, ask, store=store) as runtime:
        agent = Agent("reader", model=model, context_window=WINDOW, limits=Limits(steps=50))
        run = await agent.run("Read", runtime=runtime)

    assert run.status == "waiting"
    [pending] = [text for text in results(model.requests[-1]) if '"status":"pending"' in text]
    assert run.waiting[0].call_id in pending
