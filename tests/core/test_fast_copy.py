"""`fast_deepcopy` gives the same copies as `copy.deepcopy`."""

import time
from array import array
from copy import deepcopy
from datetime import UTC, datetime

from pydantic import BaseModel

from surehand.core.fast_copy import fast_deepcopy


class Address(BaseModel):
    lines: list[str]


def test_everything_that_can_change_is_copied():
    given = {"list": [1, [2, {"a": [3]}]], "model": Address(lines=["a"]), "set": {1}, "bytes": bytearray(b"a"), "": []}

    copy = fast_deepcopy(given)

    assert copy == given == deepcopy(given)
    given["list"][1][1]["a"].append(4)
    given["model"].lines.append("b")
    given["set"].add(2)
    given["bytes"].append(1)
    given[""].append(1)
    assert copy == {"list": [1, [2, {"a": [3]}]], "model": Address(lines=["a"]), "set": {1}, "bytes": b"a", "": []}
    assert type(copy["bytes"]) is bytearray


def test_types_are_kept():
    class Named(dict[str, int]):
        pass

    given = {"own": Named(a=1), "when": datetime(2026, 1, 1, tzinfo=UTC), "array": array("i", [1]), "pair": (1, [2])}

    assert {name: type(each) for name, each in fast_deepcopy(given).items()} == {
        name: type(each) for name, each in given.items()
    }


def test_a_value_in_many_places_is_copied_once():
    value: list[object] = ["x"]
    for _ in range(60):
        value = [value, value]

    began = time.process_time()
    copy = fast_deepcopy(value)

    assert copy[0] is copy[1]
    assert time.process_time() - began < 1
