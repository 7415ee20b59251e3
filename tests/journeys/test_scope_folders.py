"""Scopes with folders of their own: `allowed_paths`, also when the call is answered in another process."""

from pathlib import Path

import pytest

from surehand import Policy, Runtime, files, middleware, shell
from tests.requirements import needs

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("ada", "bob"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"text of {name}")
    (tmp_path / "ada/link").symlink_to("../bob/a.txt")
    return tmp_path


async def test_file_tools_of_a_scope_touch_its_allowed_paths_alone(project: Path) -> None:
    async with Runtime(files(project), workspace=str(project)) as runtime:
        ada = runtime.scope(user="ada", allowed_paths=["ada"])
        assert "text of ada" in (await ada.call("read", {"file_path": "ada/a.txt"})).text
        for path in ("bob/a.txt", "ada/link", str(project / "bob/a.txt")):
            assert (await ada.call("read", {"file_path": path})).code == "denied", path
        assert (await ada.call("write", {"file_path": "bob/new.txt", "content": "x"})).code == "denied"
        assert (await ada.call("write", {"file_path": "ada/new.txt", "content": "x"})).ok
        assert "bob" not in (await ada.call("grep", {"pattern": "text", "path": "ada"})).text
        assert "text of bob" in (await runtime.call("read", {"file_path": "bob/a.txt"})).text


@needs("bubblewrap")
async def test_commands_of_a_scope_see_its_allowed_paths_alone(project: Path) -> None:
    async with Runtime(shell(project)) as runtime:
        ada = runtime.scope(allowed_paths=[project / "ada"])
        assert "text of ada" in (await ada.call("bash", {"command": f"cat {project}/ada/a.txt"})).text
        assert not (await ada.call("bash", {"command": f"cat {project}/bob/a.txt"})).ok


async def test_allowed_paths_are_restored_where_the_call_is_answered(project: Path, tmp_path_factory) -> None:
    store = tmp_path_factory.mktemp("store") / "calls.db"
    options = {"store": store, "policy": Policy.default(), "workspace": str(project)}
    async with Runtime(files(project), **options) as first:
        scope = first.scope(user="ada", allowed_paths=["ada"])
        allowed = await scope.call("write", {"file_path": "ada/new.txt", "content": "x"})
        edited = await scope.call("write", {"file_path": "ada/other.txt", "content": "x"})
    async with Runtime(files(project), **options) as second:
        assert (await second.approve(allowed.call_id)).ok
        outside = {"file_path": "bob/new.txt", "content": "x"}
        assert (await second.approve(edited.call_id, arguments=outside)).code == "denied"
    assert not (project / "bob/new.txt").exists()
    assert (project / "ada/new.txt").read_text() == "x"


async def test_a_narrower_scope_stays_inside_the_wider_one(project: Path) -> None:
    async with Runtime(files(project), workspace=str(project)) as runtime:
        ada = runtime.scope(allowed_paths=["ada"])
        with pytest.raises(ValueError, match="outside the allowed paths"):
            ada.scope(allowed_paths=["bob"])
        assert (await ada.scope(session="s").call("read", {"file_path": "bob/a.txt"})).code == "denied"


async def test_a_cached_result_of_a_wider_scope_does_not_reach_a_narrower_one(project: Path) -> None:
    async with Runtime(files(project), workspace=str(project), middleware=[middleware.caching("5m")]) as runtime:
        everyone = runtime.scope(user="ada")
        ada = runtime.scope(user="ada", allowed_paths=["ada"])

        assert (await everyone.call("read", {"file_path": "bob/a.txt"})).ok
        assert (await everyone.call("read", {"file_path": "bob/a.txt"})).meta.cached
        assert (await ada.call("read", {"file_path": "bob/a.txt"})).code == "denied"


async def test_a_standing_approval_of_a_narrower_scope_does_not_hold_in_a_wider_one(project: Path) -> None:
    async with Runtime(files(project), workspace=str(project), policy=Policy.default()) as runtime:
        ada = runtime.scope(user="ada", allowed_paths=["ada"])
        first = await ada.call("write", {"file_path": "ada/new.txt", "content": "x"})
        assert (await ada.approve(first.call_id, always=True)).ok

        assert (await ada.call("write", {"file_path": "ada/more.txt", "content": "x"})).ok
        wider = await runtime.scope(user="ada").call("write", {"file_path": "bob/new.txt", "content": "x"})

    assert wider.waiting_for == "approval"
