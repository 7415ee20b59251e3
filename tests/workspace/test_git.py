"""No tool makes git run a program: by hooks, settings, pointers to other settings, or a repository of its own."""

import subprocess
from pathlib import Path

import pytest

from surehand import Runtime, Workspace, files, shell
from tests.requirements import needs

pytestmark = [pytest.mark.timeout(60), needs("bubblewrap")]
EVIL_CONFIG = "[core]\\n\\tfsmonitor = touch attacked\\n"


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def make_repository(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


async def refused_everywhere(space: Workspace, paths: list[str]) -> None:
    """Neither a file tool nor a command may write these paths."""
    async with Runtime(files(space), shell(space)) as runtime:
        for path in paths:
            written = await runtime.call("write", {"file_path": path, "content": "x"})
            assert not written.ok, path
            command = f"mkdir -p $(dirname {path}) && printf '{EVIL_CONFIG}' > {path}"
            assert not (await runtime.call("bash", {"command": command})).ok, path


async def test_a_repository_cannot_be_pointed_to_other_settings(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project")
    (project / "evil").mkdir()

    names = ["commondir", "config", "config.worktree", "hooks/post-checkout"]
    await refused_everywhere(Workspace(project), [f".git/{name}" for name in names])

    assert not (project / ".git/commondir").exists()
    git(project, "status")
    assert not (project / "attacked").exists()


async def test_a_repository_without_hooks_gets_none(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project")
    subprocess.run(["rm", "-r", str(project / ".git/hooks")], check=True)

    await refused_everywhere(Workspace(project), [".git/hooks/pre-commit"])

    assert not (project / ".git/hooks").exists()


async def test_a_repository_that_is_not_there_yet_is_not_made_by_a_tool(tmp_path: Path) -> None:
    await refused_everywhere(Workspace(tmp_path), [".git/hooks/pre-commit", ".git/config", ".git"])
    async with Runtime(shell(tmp_path)) as runtime:
        made = await runtime.call("bash", {"command": "git init -q . && git config core.fsmonitor 'touch attacked'"})

    assert made.code == "denied"
    assert not (tmp_path / ".git").exists()


@pytest.mark.parametrize("has_repository", [False, True])
async def test_a_root_is_not_made_a_repository_without_a_git_folder(tmp_path: Path, has_repository: bool) -> None:
    project = tmp_path / "project"
    project.mkdir()
    if has_repository:
        make_repository(project)
    await refused_everywhere(Workspace(project), ["HEAD"])
    async with Runtime(files(project), shell(project)) as runtime:
        made = await runtime.call("bash", {"command": "git init -q --bare x && mv x/* . && rm -f .git/HEAD"})
        assert made.code == "denied"
        await runtime.call("write", {"file_path": "ref", "content": "ref: refs/heads/main\n"})
        assert (await runtime.call("move_file", {"from": "ref", "to": "HEAD"})).code == "denied"

    assert not (project / "HEAD").exists()


async def test_a_root_that_is_a_bare_repository_keeps_its_settings(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare")

    await refused_everywhere(Workspace(tmp_path), ["config", "hooks/post-update", "commondir"])


async def test_repositories_of_extra_folders_are_protected(tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "main").mkdir()
    space = Workspace(tmp_path / "main", extra=[other, empty])

    await refused_everywhere(
        space, [f"{other}/.git/config", f"{other}/.git/hooks/x", f"{other}/.git/commondir", f"{empty}/.git/config"]
    )


async def test_worktrees_are_protected(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project")
    git(project, "worktree", "add", "-q", "tree")

    await refused_everywhere(Workspace(project), [".git/worktrees/tree/commondir", ".git/worktrees/tree/gitdir"])
    await refused_everywhere(Workspace(project / "tree"), [".git"])

    assert (project / "tree/.git").read_text().startswith("gitdir:")


async def test_submodules_are_protected(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    project = make_repository(tmp_path / "project")
    git(project, "submodule", "add", "-q", str(library), "sub")
    (project / "evil").mkdir()

    await refused_everywhere(
        Workspace(project),
        [".git/modules/sub/config", ".git/modules/sub/hooks/x", ".git/modules/new/config", "sub/.git"],
    )
    async with Runtime(shell(project)) as runtime:
        assert not (await runtime.call("bash", {"command": "mv sub other"})).ok

    assert (project / "sub/.git").read_text().startswith("gitdir:")


async def test_git_still_works_in_a_command(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project")
    commands = "echo x > a && git add a && git -c user.name=a -c user.email=a@b commit -qm second && git log --oneline"
    async with Runtime(files(project), shell(project)) as runtime:
        outcome = await runtime.call("bash", {"command": f"git config --global safe.directory '*'; {commands}"})
        assert outcome.text.count("\n") == 1, outcome.text
        assert (await runtime.call("write", {"file_path": ".git/info/exclude", "content": "x"})).ok
