"""`surehand run`: an agent in a pipe, with one JSON line for the run, exit codes, and a way to go on."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

AGENTS = str(Path(__file__).with_name("agents.py"))


def words(command: str) -> list[str]:
    """The arguments of a command that the output names, without the program."""
    return shlex.split(command)[1:]


def test_a_run_is_one_line_of_json(run):
    ended = run("run", "-t", AGENTS, "helper", "hello")

    (line,) = ended.lines
    assert ended.code == 0
    assert (line["status"], line["agent"]) == ("done", "helper")
    assert line["text"].startswith("I heard: hello.")
    assert line["usage"]["requests"] == 1


def test_the_prompt_may_come_from_stdin(run):
    ended = run("run", "-t", AGENTS, "helper", "-", stdin="from a file")

    assert ended.lines[0]["text"].startswith("I heard: from a file.")


def test_events_are_lines_before_the_run(run):
    ended = run("run", "-t", AGENTS, "helper", "add", "--events")

    names = [line.get("event") for line in ended.lines]
    assert names[0] == "RunStarted"
    assert names[-2:] == ["RunEnded", None]
    assert {"ToolInputDelta", "CallStarted", "CallProgress", "CallEnded", "TextDelta"} <= set(names)
    assert ended.lines[-1]["text"] == "The result: 3"


def test_a_run_that_waits_says_how_to_answer_and_how_to_go_on(run):
    waiting = run("run", "-t", AGENTS, "--store", "s.db", "helper", "pay")

    (line,) = waiting.lines
    assert waiting.code == 3
    (wait,) = line["waiting"]
    assert (wait["tool"], wait["arguments"], wait["waiting_for"]) == ("pay", {"amount": 5, "to": "Ada"}, "approval")
    approved = run(*words(wait["answer"][0]))
    assert approved.code == 0
    resumed = run(*words(line["resume"]))
    assert resumed.code == 0
    assert resumed.lines[0]["text"] == "The result: Paid 5 to Ada."
    assert resumed.lines[0]["run_id"] == line["run_id"]


def test_a_rejected_call_is_told_to_the_model(run):
    line = run("run", "-t", AGENTS, "--store", "s.db", "helper", "pay").lines[0]

    run(*words(line["waiting"][0]["answer"][1]))
    resumed = run(*words(line["resume"]))

    assert resumed.code == 0
    assert "reject" in resumed.lines[0]["text"]


@pytest.mark.parametrize(("option", "text"), [("--yes", "Paid 5 to Ada."), ("--no", "rejected")])
def test_approvals_can_be_decided_beforehand(run, option, text):
    ended = run("run", "-t", AGENTS, "helper", "pay", option)

    assert ended.code == 0
    assert text in ended.lines[0]["text"]


def test_without_a_store_a_wait_fails_and_says_what_to_add(run):
    ended = run("run", "-t", AGENTS, "helper", "pay")

    assert ended.code == 0
    assert "Add --store surehand.db" in ended.lines[0]["text"]


def test_the_same_run_id_again_is_the_same_run(run):
    first = run("run", "-t", AGENTS, "--store", "s.db", "helper", "hello", "--run-id", "mine")
    again = run("run", "-t", AGENTS, "--store", "s.db", "helper", "something else", "--run-id", "mine")

    assert first.lines[0]["run_id"] == "mine"
    assert again.lines[0]["text"] == first.lines[0]["text"]


def test_the_run_id_of_another_user_is_refused(run):
    run("run", "-t", AGENTS, "--store", "s.db", "helper", "hello", "--run-id", "mine", "--user", "ada")
    other = run("run", "-t", AGENTS, "--store", "s.db", "helper", "hello", "--run-id", "mine", "--user", "bob")

    assert other.code == 2
    assert "belongs to another run" in other.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["helpr", "hi"], 5, "There is no agent 'helpr'. Did you mean helper? Agents: "),
        (["helper"], 2, "Give a prompt"),
        (["helper", "hi", "--resume", "x"], 2, "Give a prompt"),
        (["helper", "--resume", "x"], 2, "add --store"),
        (["helper", "--resume", "x", "--store", "s.db"], 5, "no run 'x'"),
    ],
)
def test_mistakes_have_codes_of_their_own(run, arguments, code, message):
    ended = run("run", "-t", AGENTS, *arguments)

    assert ended.code == code
    assert message in ended.err


def test_without_agents_it_says_how_to_configure_one(run, shop):
    ended = run("run", "-t", shop, "helper", "hi")

    assert ended.code == 2
    assert "agents:" in ended.err


def test_in_an_empty_folder_it_says_how_to_configure_an_agent(run):
    ended = run("run", "helper", "hi")

    assert ended.code == 2
    assert "No agents are configured" in ended.err


def test_a_failed_model_fails_the_run_without_showing_the_key(run, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-not-to-be-seen")
    model = '{provider: openai, model: m1, base_url: "http://127.0.0.1:9", api_key: "${MY_KEY}", idle_timeout: 1s}'
    (tmp_path / "surehand.yaml").write_text(f"agents:\n  far: {{model: {model}, limits: {{steps: 2}}}}\nstore: s.db\n")

    ended = run("run", "far", "hi", "--events")

    assert ended.code == 1
    assert ended.lines[-1]["status"] == "failed"
    assert "The connection to openai:m1 failed" in ended.lines[-1]["reason"]
    assert "sk-not-to-be-seen" not in ended.out + ended.err
    assert b"sk-not-to-be-seen" not in (tmp_path / "s.db").read_bytes()


@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic"])
def test_an_agent_of_the_file_asks_its_model_over_the_wire(run, tmp_path, llmock, shop, provider):
    agent = f'{{model: "{provider}:m1", instructions: "Add numbers.", tools: [add], limits: {{steps: 5}}}}'
    (tmp_path / "surehand.yaml").write_text(f"tools: [{shop}]\nagents:\n  adder: {agent}\n")

    ended = run("run", "adder", "add two numbers", "--events")

    assert ended.code == 0
    assert [line["tool"] for line in ended.lines if line.get("event") == "CallEnded"] == ["add"]
    assert ended.lines[-1]["text"]
    assert len(llmock.requests) == 2
    llmock.assert_resilient(strict=True)


def test_a_person_sees_text_and_calls(terminal):
    screen = terminal("run", "-t", AGENTS, "helper", "add")

    screen.sees(r'\[add\] {"a": 1, "b": 2}')
    screen.sees(r"\[add\] half way 50%")
    screen.sees(r"\[add\] done: 3")
    screen.sees("The result: 3")
    assert screen.ends() == 0


def test_a_person_is_told_how_to_answer_and_go_on(terminal):
    screen = terminal("run", "-t", AGENTS, "--store", "s.db", "helper", "pay")

    screen.sees("waiting: ")
    screen.sees("Answer it with:\n  surehand approve ")
    screen.sees("Then go on with:\n  surehand run ")
    assert screen.ends() == 3
