"""Changes of a file that another program writes."""

from pathlib import Path

from surehand.cli.file_changes import FileChanges


def test_a_file_that_is_being_written_is_no_new_version_until_it_stays_the_same(tmp_path: Path) -> None:
    path = tmp_path / "surehand.yaml"
    path.write_text("tokens, policy")
    changes = FileChanges(path)

    path.write_text("tokens")  # half of the new version
    first = changes.has_new_version()
    path.write_text("tokens, new policy")
    looks = [changes.has_new_version() for _ in range(3)]

    assert first is False
    assert looks == [False, True, False]


def test_a_file_that_is_deleted_and_written_again_is_a_new_version(tmp_path: Path) -> None:
    path = tmp_path / "surehand.yaml"
    path.write_text("old")
    changes = FileChanges(path)

    path.unlink()
    deleted = [changes.has_new_version() for _ in range(2)]
    path.write_text("newer")
    written = [changes.has_new_version() for _ in range(2)]

    assert (deleted, written) == ([False, False], [False, True])


def test_a_version_that_is_changed_while_it_is_read_is_not_the_one_that_was_found(tmp_path: Path) -> None:
    path = tmp_path / "surehand.yaml"
    path.write_text("old")
    changes = FileChanges(path)
    path.write_text("newer")
    found = [changes.has_new_version() for _ in range(2)]
    before = changes.is_unchanged()
    path.write_text("newest one")

    assert found == [False, True]
    assert (before, changes.is_unchanged()) == (True, False)
    assert [changes.has_new_version() for _ in range(2)] == [False, True]
