"""The extras in pyproject.toml, compared with what the modules import."""

import ast
import re
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OF_THE_PRODUCT = sorted(EXTRAS.keys() - {"all", "dev"})
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?")
EXTRAS_OF_OTHERS = {"psycopg": {"binary"}}  # psycopg itself imports its compiled half


def parts(requirement: str) -> tuple[str, set[str]]:
    """The name in a requirement, and the extras that it takes of that package."""
    match = REQUIREMENT.match(requirement)
    assert match is not None
    return match[1], set(filter(None, (match[2] or "").split(",")))


@cache
def used_names() -> frozenset[str]:
    """What the modules import, and what they look up by its name to load or start it."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    found.update(alias.name.partition(".")[0] for alias in names)
                case ast.ImportFrom(module=str(module), level=0):
                    found.add(module.partition(".")[0])
                case ast.Call(
                    func=ast.Name(id="find_spec") | ast.Attribute(attr="files"), args=[ast.Constant(str(name))]
                ):
                    found.add(name)
                case ast.Assign(targets=[ast.Name(id="sdk_name")], value=ast.Constant(str(name))):
                    found.add(name)  # models import their SDK by this name
    return frozenset(found)


def modules_of(package: str) -> set[str]:
    there = packages_distributions().items()
    normal = re.sub(r"[-_.]+", "-", package).lower()
    return {name for name, owners in there if normal in {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners}}


@pytest.mark.parametrize("extra", OF_THE_PRODUCT)
def test_an_extra_holds_nothing_that_no_module_imports(extra):
    others = [parts(requirement) for requirement in EXTRAS[extra] if parts(requirement)[0] != "surehand"]

    assert [name for name, _ in others if used_names().isdisjoint({name, *modules_of(name)})] == []
    assert [name for name, more in others if not more <= EXTRAS_OF_OTHERS.get(name, set())] == []


def test_the_extra_all_holds_all_others_but_the_developers_tools():
    [everything] = EXTRAS["all"]

    name, extras = parts(everything)

    assert (name, sorted(extras)) == ("surehand", OF_THE_PRODUCT)
