"""`read` of PDFs and notebooks: their text as numbered lines, and images as images."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from surehand import Done, Failed, Image, Runtime, Text
from surehand.builtin.files import read as read_module
from surehand.builtin.files.tools import files
from tests.builtin.pdf_files import build_pdf

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


async def call(where: Path, name: str, /, **arguments: Any) -> Any:
    async with Runtime(files(where, names="both")) as runtime:
        return await runtime.call(name, arguments)


def numbered(*lines: str, first: int = 1) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


# PDF


async def test_read_gives_the_text_of_a_pdf_by_page(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(build_pdf("First page", "Second page", title="A report"))

    outcome = await call(tmp_path, "read", file_path="report.pdf")

    lines = ["Title: A report", "", "[page 1 of 2]", "First page", "", "[page 2 of 2]", "Second page"]
    assert outcome.text == numbered(*lines)
    assert outcome.metadata == {
        "path": "report.pdf", "startLine": 1, "endLine": 7, "totalLines": 7, "truncated": False, "pages": 2,
    }  # fmt: skip


async def test_a_long_pdf_is_read_in_pages_of_lines(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(build_pdf(*(f"Text {number}" for number in range(1, 6))))

    outcome = await call(tmp_path, "read", file_path="report.pdf", offset=4, limit=2)
    beyond = await call(tmp_path, "read", file_path="report.pdf", offset=99)

    assert (
        outcome.text == f"{numbered('[page 2 of 5]', 'Text 2', first=4)}\n\n(lines 4 to 5 of 14. Go on with offset=6.)"
    )
    assert "which has 14 lines" in beyond.message


async def test_read_file_gives_the_text_of_a_pdf_too(tmp_path: Path) -> None:
    pdf = build_pdf("First page", "Second page")
    (tmp_path / "report.pdf").write_bytes(pdf)

    whole = await call(tmp_path, "read_file", path="report.pdf")
    page = await call(tmp_path, "read_file", path="report.pdf", offset=3, limit=1)
    raw = await call(tmp_path, "read_file", path="report.pdf", encoding="base64")

    assert whole.data["content"] == "[page 1 of 2]\nFirst page\n\n[page 2 of 2]\nSecond page"
    assert (whole.data["pages"], whole.data["totalLines"], whole.data["truncated"]) == (2, 5, False)
    assert (page.data["content"], page.data["truncated"]) == ("[page 2 of 2]", True)
    assert base64.b64decode(raw.data["content"]) == pdf


@pytest.mark.parametrize(
    ("pdf", "problem"),
    [
        (build_pdf("", ""), "is a PDF of 2 pages without text; it may hold scanned images only"),
        (build_pdf("Private", encrypted=True), "is a PDF that needs a password"),
        (b"%PDF-1.7\n", "is a PDF that cannot be read"),
    ],
    ids=["scanned", "password", "empty"],
)
async def test_a_pdf_without_readable_text_says_why(tmp_path: Path, pdf: bytes, problem: str) -> None:
    (tmp_path / "report.pdf").write_bytes(pdf)

    outcome = await call(tmp_path, "read", file_path="report.pdf")

    assert isinstance(outcome, Failed)
    assert outcome.message.startswith(f"report.pdf, {len(pdf)} bytes, {problem}")


async def test_a_pdf_needs_the_package_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surehand.builtin.pdf_text.find_spec", lambda name: None)
    (tmp_path / "report.pdf").write_bytes(build_pdf("x"))

    outcome = await call(tmp_path, "read", file_path="report.pdf")

    assert outcome.code == "unavailable"
    assert "[files]" in outcome.message


# Notebooks


def write_notebook(where: Path, *cells: dict[str, Any], **more: Any) -> None:
    (where / "work.ipynb").write_text(json.dumps({"nbformat": 4, "metadata": {}, "cells": cells, **more}))


def code(source: str | list[str], *outputs: dict[str, Any], count: int | None = None) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": outputs, "execution_count": count, "metadata": {}}


async def test_read_shows_the_cells_of_a_notebook_with_their_outputs(tmp_path: Path) -> None:
    write_notebook(
        tmp_path,
        {"cell_type": "markdown", "source": ["# Sums\n", "Adds numbers."]},
        code(
            "print(1)\n1 + 1",
            {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
            {"output_type": "execute_result", "data": {"text/html": "<b>2</b>", "text/plain": ["2"]}},
            count=3,
        ),
        code("1 / 0", {"output_type": "error", "ename": "E", "evalue": "e", "traceback": ["\x1b[31mE\x1b[0m", "e"]}),
    )

    outcome = await call(tmp_path, "read", file_path="work.ipynb")

    assert outcome.text == numbered(
        "[cell 1: markdown]", "# Sums", "Adds numbers.", "",
        "[cell 2: code, run 3]", "print(1)", "1 + 1", "[output of cell 2]", "1", "[output of cell 2]", "2", "",
        "[cell 3: code]", "1 / 0", "[output of cell 3]", "E", "e",
    )  # fmt: skip
    assert outcome.metadata["cells"] == 3


async def test_images_of_a_notebook_come_as_images_with_the_page_that_shows_them(tmp_path: Path) -> None:
    image = {
        "output_type": "display_data",
        "data": {"image/png": base64.b64encode(PNG).decode(), "text/plain": "<Fig>"},
    }
    write_notebook(tmp_path, code("plot()", image), code("x"))

    first = await call(tmp_path, "read", file_path="work.ipynb")
    second = await call(tmp_path, "read", file_path="work.ipynb", offset=4)

    assert "[image of cell 1: image/png, 70 bytes]" in first.text
    assert first.content == (Text(first.data), Image(base64.b64encode(PNG).decode(), "image/png"))
    assert [type(block) for block in second.content] == [Text]


async def test_a_notebook_shows_only_as_many_images_as_models_accept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_module, "MAX_IMAGE_BYTES", 150)
    image = {"output_type": "display_data", "data": {"image/png": base64.b64encode(PNG).decode()}}
    write_notebook(tmp_path, code("plot()", image, image, image))

    outcome = await call(tmp_path, "read", file_path="work.ipynb")

    assert outcome.text.count("[image of cell 1") == 3
    assert len(outcome.content) == 3


@pytest.mark.parametrize(
    "outputs",
    [
        [{"output_type": "display_data", "data": {"image/png": "no base64!", "text/plain": "here"}}],
        [{"output_type": "stream", "text": "here"}, {"output_type": "stream"}, {"output_type": 5}, "odd", None],
        [{"output_type": "error", "ename": "here", "evalue": None, "traceback": [1, None]}],
        [{"output_type": "display_data", "data": {"application/json": {"at": "here"}}}],
        [{"output_type": "display_data", "data": {"model/here": 1}}],
    ],
)
async def test_odd_outputs_are_shown_as_far_as_possible(tmp_path: Path, outputs: list[Any]) -> None:
    write_notebook(tmp_path, code("x", *outputs))

    outcome = await call(tmp_path, "read", file_path="work.ipynb")

    assert isinstance(outcome, Done)
    assert "here" in outcome.text


@pytest.mark.parametrize(
    "content", ["{broken", "[]", '{"cells": []}', '{"nbformat": 3, "worksheets": []}', '{"nbformat": 4, "cells": [1]}']
)
async def test_a_file_that_is_no_notebook_is_read_as_text(tmp_path: Path, content: str) -> None:
    (tmp_path / "work.ipynb").write_text(content)

    assert (await call(tmp_path, "read", file_path="work.ipynb")).text == numbered(content)


async def test_read_file_gives_a_notebook_as_it_is(tmp_path: Path) -> None:
    write_notebook(tmp_path, code("x"))

    content = (await call(tmp_path, "read_file", path="work.ipynb")).data["content"]

    assert content == (tmp_path / "work.ipynb").read_text()
