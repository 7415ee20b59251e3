"""The files that docs/architecture.md walks through exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_file_of_the_walks_exists():
    files = set(re.findall(r"`([\w/]+\.py)`", PAGE))

    missing = sorted(file for file in files if not (ROOT / "src" / "surehand" / file).is_file())

    assert len(files) > 40
    assert missing == []


def test_every_package_has_its_layer():
    layers = PAGE.partition("## Layers")[2].partition("Inside `runtime`")[0]
    packages = {folder.name for folder in (ROOT / "src" / "surehand").iterdir() if (folder / "__init__.py").exists()}

    assert packages - set(re.findall(r"`(\w+)`", layers)) == set()
