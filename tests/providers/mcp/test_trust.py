"""Definitions, instructions and prompts that a model reads are those that a person has accepted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from surehand import DefinitionError, Done, Failed, Pending, Policy, Runtime, mcp
from surehand.providers.mcp import Server
from surehand.providers.mcp.options import ServerOptions
from surehand.providers.mcp.tools.definition import assign_local_names, build_tool, is_tool_allowed
from surehand.providers.mcp.tools.manifest import Manifest, ManifestCache
from surehand.providers.mcp.tools.server_tools import (
    MAX_INSTRUCTIONS_LENGTH,
    MAX_MISSING_SHOWN,
    MAX_PROMPTS_SHOWN,
    ServerTools,
)
from surehand.providers.tool_names import local_name_for
from surehand.providers.trust import comparison
from surehand.providers.trust.instructions import RESERVED_DEFINITION_NAMES
from surehand.providers.trust.lock import DefinitionLock
from tests.providers.mcp.steady_server import replace_file

PEER = Path(__file__).parent / "peers" / "changing_server.py"
HTTP = "http:https://mail.example/mcp"


def described(name: str, description: str = "Send mail.", **properties: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}


class Fickle:
    """A server that says what it is told to say."""

    def __init__(self, state: Path) -> None:
        self.state = state

    def says(self, *tools: dict[str, Any], **more: Any) -> None:
        replace_file(self.state, json.dumps({"tools": tools, **more}))

    def provider(self, **options: Any) -> Server:
        given = {"namespace": "mail", "manifest": False, **options}
        return mcp.stdio(sys.executable, "-I", "-S", str(PEER), str(self.state), **given)

    def frozen(self, lock: Path, *, written: bool) -> Server:
        """With a lock that is only compared, as Python has it or as a file does."""
        if not written:
            return self.provider(lock=lock, frozen=True)
        command = [sys.executable, "-I", "-S", str(PEER), str(self.state)]
        entry = {"command": command, "lock": str(lock), "frozen": True, "manifest": False}
        return mcp.servers({"mcpServers": {"mail": entry}})[0]

    @property
    def calls(self) -> list[str]:
        found = Path(f"{self.state}.calls")
        return found.read_text().splitlines() if found.exists() else []


@pytest.fixture
def fickle(tmp_path: Path) -> Fickle:
    return Fickle(tmp_path / "state.json")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "surehand.lock"


def offer(lock: Path | None = None, **options: Any) -> ServerTools:
    return ServerTools("mail", HTTP, ServerOptions(lock=lock, **{"manifest": False, **options}))


# A tool that is held back


async def test_calling_a_held_back_tool_shows_nothing_of_its_new_definition(fickle: Fickle) -> None:
    fickle.says(described("send", text={"type": "string"}))
    async with Runtime(fickle.provider()) as runtime:
        evil = described("send", "Poison in the description.", text={"enum": ["Poison in a value."]})
        evil["inputSchema"]["required"] = ["poison"]
        fickle.says(evil)
        await runtime.refresh("mail")

        for arguments in ({}, {"text": "hello"}, {"text": 1}, {"poison": 1}):
            outcome = await runtime.call("mail__send", arguments)
            assert isinstance(outcome, Failed)
            assert "poison" not in outcome.message.lower().replace('"poison": 1', "")
        [found] = [each.tool for each in runtime.catalogue if each.name == "mail__send"]
        assert found.description == "[mail] Send mail."
        assert found.schema["properties"] == {"text": {"type": "string"}}
        assert not found.presentation.listed
    assert fickle.calls == []


async def test_nobody_is_asked_about_a_held_back_tool(fickle: Fickle) -> None:
    fickle.says(described("send"))
    async with Runtime(fickle.provider(), policy=Policy.default()) as runtime:
        fickle.says(described("send", "Send everything."))
        await runtime.refresh("mail")
        outcome = await runtime.call("mail__send")

        assert isinstance(outcome, Failed)
        assert "is held back" in outcome.message
        assert await runtime.pending() == []
    assert fickle.calls == []


async def test_a_tool_of_another_server_is_held_back_with_its_accepted_definition_or_none(path: Path) -> None:
    DefinitionLock(path).check("mail", "http:https://first.example/mcp", [described("send", "The first.")])
    now = offer(path)

    await now.update(Manifest(tools=(described("send", "Poison."), described("other", "Poison.", poison={}))))

    assert [(tool.name, tool.description) for tool in now.tools] == [
        ("send", "[mail] The first."),
        ("other", "[mail] other"),
    ]
    assert now.tools[1].schema == {"type": "object", "properties": {}}
    assert now.tools[1].validate_arguments({"anything": 1}) == {"anything": 1}
    assert set(now.held_back_reasons) == {"send", "other"}


async def test_an_approval_does_not_cover_a_definition_accepted_during_the_call(fickle: Fickle, path: Path) -> None:
    fickle.says(described("send"))
    async with Runtime(fickle.provider(lock=path), policy=Policy.default()) as runtime:
        asked = await runtime.call("mail__send")
        assert isinstance(asked, Pending)
        assert (await runtime.approve(asked.call_id, always=True)).ok
        fickle.says(described("send", "Send everything."))
        await runtime.refresh("mail")
        DefinitionLock(path).accept("mail")

        assert isinstance(await runtime.call("mail__send"), Pending)
    assert fickle.calls == ["send"]


# Frozen


@pytest.mark.parametrize("written", [False, True])
async def test_with_a_frozen_lock_a_new_tool_is_held_back_and_nothing_is_written(
    fickle: Fickle, tmp_path: Path, written: bool
) -> None:
    folder = tmp_path / "deployed"
    folder.mkdir()
    fickle.says(described("send"))
    async with Runtime(fickle.provider(lock=folder / "surehand.lock")) as runtime:
        assert (await runtime.call("mail__send")).ok
    before = (folder / "surehand.lock").read_bytes()
    folder.chmod(0o555)
    fickle.says(described("send"), described("other"))

    async with Runtime(fickle.frozen(folder / "surehand.lock", written=written)) as runtime:
        assert (await runtime.call("mail__send")).ok
        held = await runtime.call("mail__other")

    assert held.code == "denied"
    assert "was never accepted" in held.text
    assert "The lock is frozen" in held.text
    assert [(each.name, each.read_bytes()) for each in folder.iterdir()] == [("surehand.lock", before)]
    assert fickle.calls == ["send", "send"]


def test_a_frozen_lock_needs_a_file(fickle: Fickle) -> None:
    with pytest.raises(DefinitionError, match="A frozen lock needs a file"):
        fickle.provider(frozen=True)


# Names


@pytest.mark.parametrize("wire", ["send ", "send.", "se nd", "send__", "__send", "Send!"])
def test_an_illegal_name_never_becomes_the_local_name_of_a_legal_one_beside_it(wire: str) -> None:
    assert assign_local_names([described(wire)])[wire] in ("send", "se_nd", "Send")
    assert assign_local_names([described(wire), described("send")])["send"] == "send"
    assert assign_local_names([described(wire), described("send")])[wire].casefold() != "send"


async def test_a_tool_that_replaces_a_removed_one_is_not_called_by_its_name(fickle: Fickle, path: Path) -> None:
    fickle.says(described("send"))
    async with Runtime(fickle.provider(lock=path), policy=Policy.default()) as runtime:
        asked = await runtime.call("mail__send")
        assert isinstance(asked, Pending)
        assert await runtime.approve(asked.call_id, always=True) == Done("done")
        fickle.says(described("send "))
        await runtime.refresh("mail")

        assert not (await runtime.call("mail__send")).ok
    assert fickle.calls == ["send"]


def test_a_new_tool_with_the_local_name_of_a_pinned_one_is_a_change(path: Path) -> None:
    lock, taken = DefinitionLock(path), local_name_for("send mail")
    lock.check("mail", HTTP, [described("send mail")])

    [change] = lock.check("mail", HTTP, [described(taken, "Poison.")]).values()

    assert change.summary == f"mail/{taken}: not pinned, and would be called like mail/send mail"
    assert lock.changes() == [change]
    assert lock.check("mail", HTTP, [described(taken, "Poison.")]).keys() == {taken}
    lock.accept("mail", taken)
    assert lock.check("mail", HTTP, [described(taken, "Poison.")]) == {}


def test_tools_are_denied_by_either_name_and_by_what_they_look_like() -> None:
    ours = assign_local_names([described("burn book")])["burn book"]

    assert not is_tool_allowed("burn book", deny=["burn book"], local_name=ours)
    assert not is_tool_allowed("burn book", deny=[ours], local_name=ours)
    assert not is_tool_allowed("burn book", deny=["burn_book"], local_name=ours)
    assert is_tool_allowed("burn book", allow=[ours], local_name=ours)
    assert is_tool_allowed("burn book", allow=["burn_book"], local_name=ours)
    assert not is_tool_allowed("burn book", allow=["burn_book"], local_name="burn_book_12345678")


def test_approvals_depend_on_the_server_identity_which_no_model_sees() -> None:
    one = build_tool(described("send"), server="mail", identity="http:https://one.example")
    other = build_tool(described("send"), server="mail", identity="http:https://other.example")
    wire = build_tool(described("send "), server="mail", identity="http:https://one.example", name="send")

    assert len({one.definition_digest, other.definition_digest, wire.definition_digest}) == 3
    assert (
        one.definition_digest
        == build_tool(described("send"), server="mail", identity="http:https://one.example").definition_digest
    )
    assert one.presentation.version not in str((one.description, one.schema))


async def test_an_approval_for_one_server_does_not_cover_the_same_tool_of_another(tmp_path: Path) -> None:
    first, second = Fickle(tmp_path / "first.json"), Fickle(tmp_path / "second.json")
    first.says(described("send"))
    second.says(described("send"))
    async with Runtime(first.provider(), second.provider(), policy=Policy.default()) as runtime:
        asked = await runtime.call("mail__send")
        assert isinstance(asked, Pending)
        assert (await runtime.approve(asked.call_id, always=True)).ok
        first.says()
        await runtime.refresh()

        assert isinstance(await runtime.call("mail__send"), Pending)
    assert (first.calls, second.calls) == (["send"], [])


# Instructions and prompts


async def test_changed_instructions_and_prompts_are_shown_as_pinned_until_accepted(fickle: Fickle, path: Path) -> None:
    fickle.says(instructions="Be kind.", prompts=[{"name": "greet", "description": "Say hello."}])
    async with Runtime(fickle.provider(lock=path)) as runtime:
        before = runtime.instructions()
    fickle.says(instructions="Poison.", prompts=[{"name": "greet", "description": "Poison."}])
    async with Runtime(fickle.provider(lock=path)) as runtime:
        held = runtime.instructions()
    changes = DefinitionLock(path).changes()
    DefinitionLock(path).accept("mail")
    async with Runtime(fickle.provider(lock=path)) as runtime:
        after = runtime.instructions()

    assert before == "## mail\nBe kind.\n\nPrompts:\n- greet: Say hello."
    assert held.startswith(before)
    assert "Poison" not in held
    assert "Instructions of it are held back" in held
    assert "Prompts of it are held back" in held
    assert [change.summary for change in changes] == [
        "mail/(instructions): instructions changed",
        "mail/(prompts): prompts changed",
    ]
    assert after == "## mail\nPoison.\n\nPrompts:\n- greet: Poison."


@pytest.mark.parametrize(
    "argument",
    [{"name": "text", "description": "Poison."}, {"name": "text", "required": True}, {"name": "other"}],
)
async def test_arguments_of_prompts_are_pinned_too(path: Path, argument: dict[str, Any]) -> None:
    await offer(path).update(Manifest(prompts=({"name": "greet", "arguments": [{"name": "text"}]},)))
    now = offer(path)

    await now.update(Manifest(prompts=({"name": "greet", "arguments": [argument]},)))

    assert [change.name for change in DefinitionLock(path).changes()] == ["mail/(prompts)"]


async def test_later_instructions_of_a_server_that_had_none_are_held_back(path: Path) -> None:
    await offer(path).update(Manifest())
    now = offer(path)

    await now.update(Manifest(instructions="Poison.", prompts=({"name": "poison"},)))

    assert now.instructions() == ""
    assert [change.name for change in DefinitionLock(path).changes()] == ["mail/(instructions)", "mail/(prompts)"]


async def test_instructions_that_are_withdrawn_and_sent_again_are_no_change(path: Path) -> None:
    known = offer(path)
    said = Manifest(instructions="Be kind.", prompts=({"name": "greet"},))
    await known.update(said)

    await known.update(Manifest())
    assert (known.instructions(), known.missing_summary) == ("", "")
    await known.update(said)
    assert known.instructions() == "Be kind.\n\nPrompts:\n- greet"
    assert DefinitionLock(path).changes() == []


@pytest.mark.parametrize("name", ["(instructions)", "(prompts)"])
async def test_no_tool_can_take_a_reserved_definition_name(path: Path, name: str) -> None:
    now = offer(path)

    await now.update(Manifest(tools=(described(name, "Poison."), described("send"))))

    assert [tool.name for tool in now.tools] == ["send"]
    assert "Poison" not in path.read_text()


# Floods


def test_the_number_of_pins_is_limited_per_server(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_PINS_PER_PROVIDER", 3)
    lock = DefinitionLock(path)
    lock.check("mail", HTTP, [described("a"), described("b")])

    changes = lock.check("mail", HTTP, [described(name) for name in "cde"])

    assert lock.pinned_tools() == {"mail": ["a", "b", "c"]}
    assert changes.keys() == {"d", "e"}
    assert changes["d"].summary.startswith("mail/d: cannot be pinned, at most ")
    assert lock.changes() == []
    assert lock.check("other", HTTP, [described("d")]) == {}
    assert lock.check("mail", HTTP, [described("a"), described("b"), described("c")]) == {}


def test_pins_and_quarantine_are_limited_in_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_PIN_BYTES_PER_PROVIDER", 100_000)
    lock = DefinitionLock(path)
    grown = {"type": "object", "examples": [0] * 1_000}  # a short line of JSON, and a thousand lines in the file
    for number in range(10):
        lock.check("mail", HTTP, [{**described(f"{number}-{each}"), "inputSchema": grown} for each in range(4)])
    assert path.stat().st_size < 110_000

    pinned = lock.pinned_tools()["mail"]
    changes = lock.check("mail", HTTP, [described(name, "x" * 50_000) for name in pinned])

    assert changes.keys() == set(pinned)
    assert len(lock.changes()) == 1
    assert path.stat().st_size < 220_000


async def test_a_tool_beyond_the_pin_limit_cannot_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_PINS_PER_PROVIDER", 3)
    known = offer()

    await known.update(Manifest(tools=(described("first"), described("second", "Poison."))))

    assert {tool.name: tool.presentation.listed for tool in known.tools} == {"first": True, "second": False}
    with pytest.raises(Exception, match="second of mail is held back, because its definition was never accepted"):
        known.require_wire_name("second")


async def test_instructions_show_a_limited_number_of_prompts_and_count_the_rest() -> None:
    known = offer()
    prompts = tuple({"name": f"p{number:03}", "description": "x" * 100} for number in range(500))
    tools = tuple({"name": f"t{number}", "execution": {"taskSupport": "required"}} for number in range(500))

    await known.update(Manifest(tools=tools, prompts=prompts, instructions="y" * 1_000))

    assert known.instructions().count("\n- p") == MAX_PROMPTS_SHOWN
    assert known.instructions().endswith(f"\n- and {500 - MAX_PROMPTS_SHOWN} more")
    assert known.missing_summary.count("cannot be used") == MAX_MISSING_SHOWN
    assert known.missing_summary.endswith(f"\n{500 - MAX_MISSING_SHOWN} more are missing.")


async def test_the_length_of_instructions_is_limited() -> None:
    known = offer()
    prompts = tuple({"name": f"{number}" * 60, "description": "x" * 1_000} for number in range(500))
    tools = tuple({"name": f"{number} " * 200, "execution": {"taskSupport": "required"}} for number in range(500))

    await known.update(Manifest(tools=tools, prompts=prompts, instructions="y" * 90_000))

    assert len(known.instructions()) + len(known.missing_summary) <= MAX_INSTRUCTIONS_LENGTH
    assert "more" in known.instructions()


# What is only remembered


async def test_manifests_of_one_command_in_two_folders_are_separate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[list[str]] = []
    for folder in ("a", "b", "a"):
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        Fickle(Path("state.json")).says(described("send", f"Mail of {folder}."))
        Path("server.py").write_text(PEER.read_text())
        server = mcp.stdio(sys.executable, "server.py", "state.json", namespace="mail", lock="l.lock")
        async with Runtime(server) as runtime:
            said.append([each.tool.description for each in runtime.catalogue])

    assert said == [["[mail] Mail of a."], ["[mail] Mail of b."], ["[mail] Mail of a."]]


async def test_a_cached_definition_is_pinned_once_the_server_lists_it(tmp_path: Path, path: Path) -> None:
    kept, said = tmp_path / "kept", Manifest.from_listing([described("send")], instructions="Be kind.")
    ManifestCache(kept).save(HTTP, said)
    known = offer(path, manifest=kept)

    assert await known.load_cached()
    assert [tool.name for tool in known.tools] == ["send"]
    assert known.instructions() == "Be kind."
    assert not path.exists()
    await known.update(said)
    assert DefinitionLock(path).pinned_tools() == {"mail": ["(instructions)", "(prompts)", "send"]}


async def test_a_cached_definition_that_the_server_does_not_list_is_never_pinned(tmp_path: Path, path: Path) -> None:
    kept = tmp_path / "kept"
    ManifestCache(kept).save(HTTP, Manifest.from_listing([described("send", "As it was.")]))
    known = offer(path, manifest=kept)
    await known.load_cached()

    await known.update(Manifest.from_listing([described("send", "As it is.")]))

    assert [tool.description for tool in known.tools] == ["[mail] As it was."]
    assert known.held_back_reasons.keys() == {"send"}
    assert "As it was" not in path.read_text()
    DefinitionLock(path).accept("mail")
    assert await known.recheck_held_back("send")
    assert [tool.description for tool in known.tools] == ["[mail] As it is."]
    assert known.require_wire_name("send") == "send"


# The file


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_lock_file_that_is_a_named_pipe_does_not_block(path: Path) -> None:
    os.mkfifo(path)
    looking = f"from surehand.providers.trust.lock import DefinitionLock; DefinitionLock({str(path)!r}).changes()"

    ended = subprocess.run([sys.executable, "-c", looking], capture_output=True, text=True, timeout=50, check=False)

    assert "surehand.lock is not a regular file" in ended.stderr


@pytest.mark.parametrize("there", [True, False])
def test_a_link_that_leads_out_of_its_folder_is_refused(tmp_path: Path, there: bool) -> None:
    project, target = tmp_path / "project", tmp_path / "target"
    project.mkdir()
    if there:
        target.write_text(before := '{"version": 1, "servers": {}, "quarantined": {}}')
    (project / "surehand.lock").symlink_to("../target")

    with pytest.raises(DefinitionError, match="is a link that leads out of its folder"):
        DefinitionLock(project / "surehand.lock").check("mail", HTTP, [described("send")])

    assert target.exists() == there
    assert not there or target.read_text() == before


def test_the_folder_of_a_lock_file_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    DefinitionLock(tmp_path / "link" / "surehand.lock").check("mail", HTTP, [described("send")])

    assert (tmp_path / "real" / "surehand.lock").is_file()


# The pages


def test_the_documentation_states_the_limits() -> None:
    docs = Path(__file__).parents[3] / "docs"
    reference = " ".join((docs / "reference" / "mcp.md").read_text(encoding="utf-8").split())
    guide = " ".join((docs / "how-to" / "trust-mcp-definitions.md").read_text(encoding="utf-8").split())

    assert f"`read file` is `{local_name_for('read file')}`" in reference
    shown = f"at most {MAX_MISSING_SHOWN} tools and {MAX_PROMPTS_SHOWN} prompts by name"
    assert f"{shown}, and {MAX_INSTRUCTIONS_LENGTH:,} characters" in reference
    max_mebibytes = comparison.MAX_PIN_BYTES_PER_PROVIDER >> 20
    assert f"more than {comparison.MAX_PINS_PER_PROVIDER:,} tools, or {max_mebibytes} MiB of them" in guide
    assert all(f"`{name}`" in guide for name in RESERVED_DEFINITION_NAMES)
