"""Outcomes for the tests of messages."""

from __future__ import annotations

from surehand import Audio, Done, Failed, File, Image, Pending, Text

DONE = Done("4")
FAILED = Failed("timed_out", "add timed out after 30 s.")
PENDING = Pending("approval", "c1", "Pay 250 to Ada?")
PNG = Image(data="aGk=", mime_type="image/png")
PICTURE = Done({"width": 2}, content=[Text("A picture."), PNG])
LINKED_PICTURE = Done("seen", content=[Text("A picture."), Image(url="https://example.com/a.png")])
RECORDING = Done("heard", content=[Text("A recording."), Audio(data="aGk=", mime_type="audio/wav")])
PDF = Done("read", content=[Text("A report."), File(data="aGk=", mime_type="application/pdf", filename="report.pdf")])
ARCHIVE = Done("packed", content=[Text("Packed."), File(data="aGk=", mime_type="application/zip", filename="a.zip")])
