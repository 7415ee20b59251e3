"""The example agents run from start to end with a scripted model, as a reader would run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)  # programs start slowly on a busy machine
EXAMPLES = Path(__file__).parents[2] / "examples/agents"


def run(name: str, *arguments: str, folder: Path, typed: str = "") -> str:
    environment = {key: value for key, value in os.environ.items() if key != "OPENAI_API_KEY"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env=environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_expenses_above_a_hundred_wait_for_an_approval(tmp_path):
    output = run("expenses.py", folder=tmp_path, typed="yes\n")

    assert "the hotel waits for your approval" in output
    assert "File 310 euros for hotel?" in output
    assert "Filed 310 euros for hotel." in output
    assert "(done: 3 requests, 3 calls)" in output


def test_expenses_can_be_approved_in_a_later_process(tmp_path):
    first = run("expenses.py", folder=tmp_path, typed="later\n")
    second = run("expenses.py", folder=tmp_path, typed="yes\n")
    third = run("expenses.py", folder=tmp_path)

    assert "Run this program again" in first
    assert "Filed 310 euros for hotel." in second
    assert "(done: 3 requests, 3 calls)" in third


def test_the_weather_report_has_a_typed_answer(tmp_path):
    output = run("weather_report.py", "Oslo", "Cairo", folder=tmp_path)

    assert output.splitlines()[-1] == "It is warmest in Cairo."


def test_the_note_keeper_writes_into_its_folder_alone(tmp_path):
    output = run("note_keeper.py", str(tmp_path), "Buy milk", folder=tmp_path)

    assert "about to run: write" in output
    assert (tmp_path / "notes.md").read_text() == "- Buy milk\n"
