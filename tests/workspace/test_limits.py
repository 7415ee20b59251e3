"""The hard limit of every workspace, and what counts for a policy and for questions about commands."""

from pathlib import Path

import pytest

from surehand import DefinitionError, Policy, Runtime, Sandbox, Workspace, files, memory, shell
from surehand.workspace.workspace import ROOT_VARIABLE
from tests.requirements import needs


def test_no_workspace_leaves_the_root_that_the_environment_sets(tmp_path: Path, monkeypatch) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    monkeypatch.setenv(ROOT_VARIABLE, str(inside))

    with pytest.raises(DefinitionError, match="outside"):
        Workspace(tmp_path)
    assert [root.path for root in Workspace(inside, extra=[tmp_path], read_only=[tmp_path]).roots] == [inside]
    assert Workspace.detect(tmp_path).root == inside


def test_a_memory_folder_is_no_workspace(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))

    assert memory(tmp_path.parent / f"{tmp_path.name}-memories")
    (tmp_path.parent / f"{tmp_path.name}-memories").rmdir()


@needs("bubblewrap")
@pytest.mark.parametrize(
    "command",
    ["cat .env", "cat<.env", "K=$(cat keys/id_rsa)", "cat 'a.pem'", "grep x --file=.env", "cat secrets", "cat .\\env"],
)
async def test_a_command_that_names_a_sensitive_path_is_asked_about_each_time(tmp_path: Path, command: str) -> None:
    (tmp_path / "secrets").write_text("x")
    async with Runtime(shell(tmp_path)) as runtime:
        for _ in range(2):
            asked = await runtime.call("bash", {"command": command})
            assert asked.waiting_for == "approval"
            assert "looks like keys or credentials" in asked.message
            await runtime.approve(asked.call_id, always=True)


@needs("bubblewrap")
async def test_other_commands_are_not_asked_about(tmp_path: Path) -> None:
    async with Runtime(files(tmp_path), shell(tmp_path)) as runtime:
        for command in ("echo secret", "ls -la", "echo password=1 > a.txt"):
            assert (await runtime.call("bash", {"command": command})).ok, command


async def test_optional_effects_count_when_they_are_in_force(tmp_path: Path) -> None:
    policy = Policy([{"effects": ["network"], "decision": "deny"}])
    async with Runtime(shell(tmp_path, sandbox=Sandbox(network=True)), policy=policy) as runtime:
        assert (await runtime.call("bash", {"command": "true"})).code == "denied"
    only_execute = Policy([{"effects": ["execute"], "decision": "allow"}, {"decision": "deny"}])
    async with Runtime(shell(tmp_path, sandbox=Sandbox(network=True)), policy=only_execute) as runtime:
        assert (await runtime.call("bash", {"command": "true"})).code == "denied"
