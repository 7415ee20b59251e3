"""In a pipe: JSON lines, exit codes, and no prompts."""

import json
import signal
import subprocess
import sys

import pytest

START = "from surehand.cli.main import main; main()"


def test_a_call_is_one_json_line(run, shop):
    ran = run("call", "-t", shop, "add", '{"a": 2, "b": "3"}')

    [outcome] = ran.lines
    assert (ran.code, ran.err) == (0, "")
    assert {key: outcome[key] for key in ("status", "data", "text", "code")} == {
        "status": "done", "data": 5, "text": "5", "code": None,
    }  # fmt: skip
    assert outcome["call_id"]
    assert outcome["meta"]["tool"] == "add"


@pytest.mark.parametrize(
    ("arguments", "code", "status", "failure"),
    [
        (["add", "a=1"], 0, "done", None),
        (["missing", "name=tea"], 1, "failed", "not_found"),
        (["add", "a=one"], 1, "failed", "invalid_arguments"),
        (["add", "{"], 1, "failed", "invalid_arguments"),
        (["broken"], 1, "failed", "crashed"),
        (["sleep", "--timeout", "50ms"], 1, "failed", "timed_out"),
        (["pay", "amount=1", "to=Ada"], 1, "failed", "unavailable"),
        (["pay", "amount=1", "to=Ada", "--store", "calls.db"], 3, "pending", None),
        (["pay", "amount=1", "to=Ada", "--yes"], 0, "done", None),
        (["pay", "amount=1", "to=Ada", "--no"], 4, "failed", "rejected"),
        (["sign"], 1, "failed", "unavailable"),
        (["sign", "--store", "calls.db"], 3, "pending", None),
        (["choose"], 1, "failed", "unavailable"),
        (["choose", "--timeout", "50ms", "--store", "calls.db"], 3, "pending", None),
        (["greet"], 0, "done", None),
        (["ad", "a=1"], 5, "failed", "not_found"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_every_way_a_call_can_end_has_its_exit_code(run, shop, arguments, code, status, failure):
    ran = run("call", "-t", shop, *arguments)

    [outcome] = ran.lines
    assert (ran.code, outcome["status"], outcome["code"]) == (code, status, failure)


def test_policy_that_denies_ends_with_4(run, shop, tmp_path):
    (tmp_path / "surehand.yaml").write_text(f"tools: [{shop}]\npolicy: [{{tools: add, decision: deny}}]\n")

    ran = run("call", "add", "a=1")

    assert (ran.code, ran.lines[0]["code"]) == (4, "denied")


def test_a_pending_call_says_what_it_waits_for(run, shop):
    [outcome] = run("call", "-t", shop, "pay", "amount=1", "to=Ada", "--store", "calls.db").lines

    assert outcome["waiting_for"] == "approval"
    assert outcome["message"] == "Pay 1.0 to Ada?"
    assert outcome["request"]["preview"] == {"left": 99}
    assert outcome["call_id"]


@pytest.mark.parametrize(("name", "verb"), [("pay", "approve"), ("sign", "settle")])
def test_a_call_that_no_one_could_ever_answer_fails_at_once_and_says_what_to_add(run, shop, name, verb):
    arguments = ["amount=1", "to=Ada"] if name == "pay" else []

    [outcome] = run("call", "-t", shop, name, *arguments).lines

    assert "in a pipe without a store. Add --store surehand.db" in outcome["text"]
    assert f"answer it with `surehand {verb}`" in outcome["text"]
    assert ("--yes or --no" in outcome["text"]) == (name == "pay")
    assert outcome["executed"] is False


def test_events_are_json_lines_and_the_outcome_is_the_last(run, shop):
    ran = run("call", "-t", shop, "bake", "--events")

    *events, outcome = ran.lines
    assert [event["event"] for event in events] == ["CallStarted", "CallProgress", "CallProgress", "CallEnded"]
    assert events[2]["fraction"] == 0.5
    assert (events[3]["outcome"], outcome["status"], ran.code) == ("done", "done", 0)


def test_arguments_are_parsed_with_the_schema(run, shop):
    def call(*arguments, stdin=""):
        return run("call", "-t", shop, "say", *arguments, stdin=stdin).lines[0]["data"]

    assert call("text=007", "extra=007")["text"] == "007"
    assert call("text=true", "extra=true") == {"text": "true", "tags": None, "extra": True}
    assert call("text=a=b", 'extra={"x": [1]}')["extra"] == {"x": [1]}
    assert call("text=", "tags=1", "tags=b")["tags"] == ["1", "b"]
    assert call("text=x", 'tags=["a", "b"]')["tags"] == ["a", "b"]
    assert call("-", stdin='{"text": "from stdin"}')["text"] == "from stdin"


@pytest.mark.parametrize(
    ("pair", "sent"),
    [
        ('body={"a": 1}', {"a": 1}),
        ('body=[{"a": 1}]', [{"a": 1}]),
        ("body=hello", "hello"),
        ("body=5", "5"),
        ('body="quoted"', '"quoted"'),
        ("body=null", None),
        ("body={broken", "{broken"),
    ],
)
def test_a_value_stays_single_if_the_schema_also_takes_other_types(run, shop, pair, sent):
    assert run("call", "-t", shop, "tell", pair).lines[0]["data"][0] == sent


@pytest.mark.parametrize(
    ("pairs", "sizes", "most"),
    [
        (["sizes=3"], [3], 1),
        (["sizes=3", "sizes=4"], [3, 4], 1),
        (["sizes=[3, 4]"], [3, 4], 1),
        (["sizes=null"], None, 1),
        (["most=5"], None, 5),
        (["most=5", "most=6"], None, ["5", "6"]),
        (['most=["5"]'], None, ["5"]),
    ],
)
def test_a_value_becomes_a_list_if_only_lists_are_taken_or_it_is_repeated(run, shop, pairs, sizes, most):
    assert run("call", "-t", shop, "tell", *pairs).lines[0]["data"] == [None, sizes, most]


def test_the_options_set_the_principal_of_the_call(run, shop):
    everybody = ["--user", "ada", "--session", "s1", "--agent", "clerk", "--space", "hall"]

    assert run("call", "-t", shop, "visitor").lines[0]["data"] == [None, None, None, None]
    assert run("call", "-t", shop, "visitor", *everybody).lines[0]["data"] == ["ada", "s1", "clerk", "hall"]


def test_a_todo_list_is_that_of_the_user_and_session(run, tmp_path):
    (tmp_path / "surehand.yaml").write_text("builtin: [todo]\nstore: calls.db\n")
    todo = '{"content": "Sweep", "status": "pending", "activeForm": "Sweeping"}'
    ada = ["--user", "ada", "--session", "s1"]
    assert run("call", "todowrite", *ada, f"todos={todo}").code == 0

    [mine] = run("call", "todoread", *ada).lines
    [other] = run("call", "todoread", "--user", "bob", "--session", "s1").lines

    assert [item["content"] for item in mine["data"]["todos"]] == ["Sweep"]
    assert other["data"]["todos"] == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["add", "5"], "'5' is not an argument"),
        (["add", "a=1", "a=2"], "a is given 2 times"),
        (["add", "a=1", "--timeout", "soon"], "'soon' is not a duration"),
        (["add", "a=1", "--timeout", "0s"], "must be positive"),
        (["add", "--nonsense"], "No such option"),
    ],
)
def test_wrong_usage_ends_with_2(run, shop, arguments, problem):
    ran = run("call", "-t", shop, *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert problem in ran.err


def test_prints_of_a_handler_go_to_stderr(run, shop):
    ran = run("call", "-t", shop, "loud")

    assert ran.lines[0]["data"] == "quiet"
    assert ran.err == "printed by the handler\n"


def test_debug_shows_the_traceback(run, shop):
    assert "Traceback" not in run("call", "-t", shop, "broken").err
    assert "RuntimeError: boom" in run("call", "-t", shop, "broken", "--debug").err


def test_tools_are_json_lines_and_can_be_searched_and_selected(run, shop):
    every, found, chosen = run("tools", "-t", shop), run("tools", "somebody", "-t", shop), run(
        "tools", "-t", shop, "--toolset", "b*", "--toolset", "add"
    )  # fmt: skip

    assert every.lines[0] == {
        "name": "add", "kind": "function", "effects": ["read"], "audience": "model", "listed": True, "toolsets": [],
        "aliases": [], "parameters": ["a", "b"], "description": "Add two numbers.\n\nNothing more to it.",
    }  # fmt: skip
    assert [tool["name"] for tool in found.lines] == ["pay"]
    assert [tool["name"] for tool in chosen.lines] == ["add", "buy", "broken", "bake", "block", "borrow"]
    nothing = run("tools", "xylophone", "-t", shop)
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "No tool matches.\n")


def test_tools_that_are_not_listed_are_left_out_unless_all_are_asked_for(run, shop):
    some, every = run("tools", "-t", shop), run("tools", "-t", shop, "--all")

    assert all(tool["listed"] for tool in some.lines)
    assert [tool["name"] for tool in every.lines if not tool["listed"]] == ["tell"]
    assert len(every.lines) == len(some.lines) + 1
    assert (some.err, every.err) == ("", "")
    hidden = run("tools", "-t", shop, "--toolset", "tell")
    assert (hidden.out, hidden.err) == ("", "No tool matches except 1 that is not listed: see --all.\n")


def test_a_toolset_is_known_by_the_name_that_its_tools_declare(run, shop):
    def names(*arguments):
        return [tool["name"] for tool in run("tools", "-t", shop, *arguments).lines]

    assert names("--toolset", "talk") == ["echo"]
    assert names("--toolset", "talk", "--all") == ["echo", "tell"]
    assert names("--toolset", "talk", "--toolset", "ad*") == ["add", "echo"]
    assert names("--toolset", "walk") == []


def test_describe_takes_a_toolset_too(run, shop):
    def names(*arguments):
        return [tool["name"] for tool in run("describe", "-t", shop, "-f", "anthropic", *arguments).lines]

    assert names("--toolset", "talk") == ["echo"]
    assert names("add", "echo", "--toolset", "talk") == ["add", "echo"]
    unknown = run("describe", "-t", shop, "--toolset", "walk")
    assert (unknown.code, unknown.out) == (5, "")
    assert "No tool is in the toolset 'walk', or has a name that matches it." in unknown.err


def test_describe_says_why_models_do_not_see_a_tool(run, shop):
    ran = run("describe", "tell", "greet", "-t", shop)

    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines() == [
        "tell is not listed: models do not see it, but it can be called by its name.",
        "greet is for users: models do not see it.",
    ]


def test_describe_gives_each_format_and_names_skipped_tools(run, shop):
    ran = run("describe", "add", "odd", "greet", "-t", shop, "--format", "gemini")

    assert [tool["name"] for tool in ran.lines] == ["add"]
    assert "odd is left out of the tools for gemini" in ran.err
    assert "greet is for users" in ran.err
    for format_, key in [("openai", "function"), ("responses", "parameters"), ("anthropic", "input_schema"),
                         ("mcp", "inputSchema")]:  # fmt: skip
        assert key in run("describe", "add", "-t", shop, "-f", format_).lines[0]


def test_describing_an_unknown_tool_ends_with_5(run, shop):
    ran = run("describe", "ad", "-t", shop)

    assert (ran.code, ran.out) == (5, "")
    assert "Unknown tool: 'ad'. Did you mean add?" in ran.err


def test_a_signal_ends_a_piped_call_with_130(shop, tmp_path):
    command = [sys.executable, "-P", "-c", START, "call", "-t", shop, "block", "--events"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        started = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)

    assert started["event"] == "CallStarted"
    assert process.returncode == 130
    assert "cancelled" in err


def test_a_reader_that_closes_the_pipe_early_is_no_crash(shop, tmp_path):
    command = [sys.executable, "-P", "-c", START, "tools", "-t", shop]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        err = process.stderr.read()

    assert process.wait() == 1
    assert err == ""


def test_the_exit_code_tells_a_tool_that_is_left_out_or_down_from_an_unknown_one(run, tmp_path):
    servers = {"off": {"command": "true", "enabled": False}, "gone": {"command": "no-such-program"}}
    file = tmp_path / "surehand.json"
    file.write_text(json.dumps({"mcp_servers": servers, "builtin": ["data"]}))

    left_out, down, unknown = (run("call", name, "--config", str(file)) for name in ("off__x", "gone__x", "json_prase"))

    assert (left_out.lines[0]["code"], left_out.code) == ("denied", 4)
    assert (down.lines[0]["code"], down.code) == ("unavailable", 1)
    assert "the command 'no-such-program' is not found" in down.lines[0]["text"]
    assert (unknown.lines[0]["code"], unknown.code) == ("not_found", 5)
