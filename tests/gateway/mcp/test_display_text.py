"""The text of an approval shows the whole call, however a call tries to hide a part of it."""

from typing import Any

import pytest

from surehand import Context, Pending, Provider, Runtime, Tool, tool
from tests.gateway.mcp.raw_client import FORMS_AND_URLS, WITH_TASKS, raw_client

INVISIBLE = "\x1b\x07\r\x9b\x85\u200b\u200e\u202e\u2028\u2066\ufeff\U000e0041"


@tool(effects={"write"}, confirm=True)
async def send(body: str = "", to: str = "", files: list[str] | None = None) -> str:
    """Send a letter."""
    return "sent"


take = tool.client(
    "take", "Take anything.", parameters={"type": "object"}, reply="later", effects={"write"}, confirm=True
)


FIELDS_WITH_DEFAULTS = {f"field{number}": {"type": "string", "default": "x" * 900} for number in range(30)}
many = tool.client(
    "many", "Take many things.", parameters={"type": "object", "properties": {"body": {}, **FIELDS_WITH_DEFAULTS}},
    reply="later", effects={"write"}, confirm=True,
)  # fmt: skip


@tool(effects={"write"}, confirm=True, confirm_message=lambda args, ctx: f"Run {args['command']}?",
      preview=lambda args, ctx: args["command"])  # fmt: skip
async def shell(command: str) -> str:
    """Run a command."""
    return "ran"


async def asked(name: str, **arguments: Any) -> str:
    """The question that a person is asked about a call."""
    async with raw_client(Runtime(send, take, many, shell)) as client:
        asks = await client.call(name, arguments)
    return asks["inputRequests"]["approve"]["params"]["message"]


async def test_each_argument_is_on_a_line_of_its_own():
    message = await asked("send", body="Dear\nAnn", to="ann@example.com", files=["a", "b"])

    assert message.splitlines() == [
        "Allow send to execute?",
        "",
        "This would run: send",
        r"  body: Dear\nAnn",
        "  to: ann@example.com",
        '  files: ["a", "b"]',
    ]


async def test_the_defaults_that_hold_are_shown_after_what_was_sent():
    message = await asked("send", to="ann@example.com")

    assert message.splitlines()[2:] == [
        "This would run: send",
        "  to: ann@example.com",
        "Not sent, so by default:",
        '  body: ""',
    ]


async def test_a_call_without_arguments_shows_its_defaults():
    lines = (await asked("send")).splitlines()

    assert lines[2:4] == ["This would run: send, without arguments.", "Not sent, so by default:"]
    assert len(lines) == 6


async def test_no_default_displaces_a_sent_argument():
    lines = (await asked("many", body="x" * 1_400)).splitlines()

    assert lines[3] == f"  body: {'x' * 1_400}"
    assert lines[-1].startswith("NOT ALL IS SHOWN: the values of ")


async def test_an_argument_cannot_pass_for_a_default():
    lines = (await asked("take", **{"Not sent, so by default:": "1", "a": "2\nNot sent, so by default:"})).splitlines()

    assert not [each for each in lines if each.startswith("Not sent")]


async def test_a_long_argument_hides_no_other_and_not_its_own_end():
    message = await asked("send", body="hello " * 1_500 + "and goodbye", to="eve@example.com", files=["/etc/shadow"])

    assert "  to: eve@example.com\n" in message
    assert "/etc/shadow" in message
    assert "and goodbye\n" in message
    assert "... (7,511 characters left out) ..." in message
    assert len(message) < 2_000


async def test_control_and_invisible_characters_are_escaped():
    message = await asked("send", body=f"a{INVISIBLE}b", to="\n  files: none")
    shell_message = await asked("shell", command=f"ls{INVISIBLE}")

    assert not set(INVISIBLE) & set(message + shell_message)
    assert all(f"\\u{ord(each):04x}" in message for each in INVISIBLE[:-1])
    assert r"  to: \n  files: none" in message


async def test_spaces_push_nothing_out_of_sight():
    message = await asked("shell", command="ls" + " " * 1_000 + "; rm x")

    assert message.count("ls (1,000 spaces) ; rm x") == 3


async def test_a_message_or_preview_of_many_lines_cannot_pass_for_what_would_run():
    forged = "ls?\n\nThis would run: shell\n  command: ls" + "\n" * 200 + "; rm x"
    lines = (await asked("shell", command=forged)).splitlines()

    assert [each for each in lines if each.startswith("This would run")] == ["This would run: shell"]
    assert [each for each in lines if each.startswith("  ")] == [lines[lines.index("This would run: shell") + 1]]
    assert "| ; rm x?" in lines
    assert lines[-1] == "| ; rm x"
    assert len(lines) < 25


async def test_of_many_long_arguments_the_short_ones_are_shown_and_the_others_named():
    long = {f"long{number}": "x" * 1_400 for number in range(20)}
    message = await asked("take", **long, to="eve")

    assert "  to: eve\n" in message
    assert all(f"  {name}: " in message for name in long)
    assert "(1,400 characters, not shown)" in message
    assert message.splitlines()[-1].startswith("NOT ALL IS SHOWN: the values of ")
    assert len(message) < 15_000


async def test_with_far_too_many_arguments_a_warning_says_that_most_are_hidden():
    message = await asked("take", **{f"name{number}": "\u200b" * 20 for number in range(5_000)})

    assert " of 5,000 arguments are left out, and the names of " in message.splitlines()[-1]
    assert len(message) < 16_000


class Clerk(Provider):
    """Asks one thing."""

    namespace = "clerk"

    def __init__(self, message: str, request: Any) -> None:
        self.asks = Pending("input", message=message, request=request, reply_timeout=0)

    async def tools(self) -> list[Tool[..., Any]]:
        return [tool.provided("ask", "Ask a person.", effects={"read"})]

    async def invoke(self, call: Any, context: Context) -> Any:
        return self.asks


FIELDS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Na\u202eme", "description": "Your\x1b[2K name\nor\u200b none"},
        "kind": {"type": "string", "oneOf": [{"const": "a\u200b", "title": "A\u200b"}]},
        "size": {"type": "string", "enum": ["s\u200b"], "enumNames": ["Small\u200b"], "default": "s\u200b"},
    },
}


@pytest.mark.parametrize("request_", [FIELDS, {"mode": "form", "schema": FIELDS}])
async def test_a_form_hides_nothing_and_its_values_are_as_they_were(request_):
    async with raw_client(Runtime(Clerk("Who\u202e?", request_))) as client:
        [asks] = (await client.call("clerk__ask"))["inputRequests"].values()

    name, kind, size = asks["params"]["requestedSchema"]["properties"].values()
    assert asks["params"]["message"] == r"Who\u202e?"
    assert (name["title"], name["description"]) == (r"Na\u202eme", "Your\\u001b[2K name\n| or\\u200b none")
    assert kind["oneOf"] == [{"const": "a\u200b", "title": r"A\u200b"}]
    assert (size["enum"], size["enumNames"], size["default"]) == (["s\u200b"], [r"Small\u200b"], "s\u200b")


async def test_the_message_beside_an_address_hides_nothing():
    request = {"mode": "url", "url": "https://example.com/in"}
    async with raw_client(Runtime(Clerk("Sign\u202e in.", request)), FORMS_AND_URLS) as client:
        [asks] = (await client.call("clerk__ask"))["inputRequests"].values()

    assert asks["params"]["message"] == r"Sign\u202e in."


NO_PAGES = [
    "javascript:alert(1)",
    " " * 2_001 + "javascript:alert(1)",
    "file:///etc/passwd",
    "ms-msdt:/id",
    "https:example.com",
    "https://example.com/in\n",
    "https://example.com/\u202etxt.exe",
]


@pytest.mark.parametrize("url", NO_PAGES, ids=range(len(NO_PAGES)))
async def test_unsafe_urls_are_never_shown_to_a_person(url):
    async with raw_client(Runtime(Clerk("Sign in.", {"mode": "url", "url": url})), FORMS_AND_URLS) as client:
        result = await client.call("clerk__ask")

    assert result["_meta"]["surehand/waitingFor"] == "input"


async def test_the_status_message_of_a_task_is_escaped():
    options = {"mcp": {"execution": {"taskSupport": "required"}}}

    @tool(effects={"write"}, provider_options=options)
    async def wait() -> Any:
        """Wait."""
        return Pending("result", message="Still\u202e here.")

    async with raw_client(Runtime(wait), WITH_TASKS) as client:
        task = await client.call("wait")
        standing = await client.task(task["taskId"], "working")

    assert standing["statusMessage"] == r"Still\u202e here."


async def test_of_a_crashed_task_the_client_gets_only_the_exception_type(caplog):
    options = {"mcp": {"execution": {"taskSupport": "required"}}}

    @tool(effects={"read"}, provider_options=options)
    async def boom() -> str:
        """Fail."""
        raise RuntimeError("in /home/ada")

    async with raw_client(Runtime(boom), WITH_TASKS) as client:
        task = await client.task((await client.call("boom"))["taskId"], "failed")

    told = "boom crashed with RuntimeError. Its details are in the server's log."
    assert (task["statusMessage"], task["error"]["message"]) == (told, told)
