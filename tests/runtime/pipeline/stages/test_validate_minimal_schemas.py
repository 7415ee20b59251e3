"""The stage `validate` with raw schemas that lack the usual keywords."""

from surehand import Done, Runtime, tool


async def test_a_parameter_that_takes_anything_may_be_described_by_true() -> None:
    made = tool(name="take", description="Take it.", parameters={"type": "object", "properties": {"x": True}})
    async with Runtime(made(lambda x=None: x), policy=[{"tools": "*", "decision": "ask"}]) as runtime:
        waiting = await runtime.call("take", {"x": [1]})
        assert await runtime.approve(waiting.call_id) == Done([1])


async def test_arguments_that_were_cut_off_are_refused_by_a_tool_that_takes_none() -> None:
    made = tool(name="go", description="Go.", parameters={"type": "object", "additionalProperties": False})
    async with Runtime(made(lambda: "gone")) as runtime:
        assert (await runtime.call("go", '{"a": 1')).code == "invalid_arguments"
