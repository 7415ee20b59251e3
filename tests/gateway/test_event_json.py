"""Events as the gateway sends them, and as a program reads them again."""

from surehand.core.events import CallProgress, CallStarted
from surehand.gateway.events.event_json import event_from_json, event_to_json


def test_what_an_event_does_not_say_is_an_empty_object():
    fields = event_to_json(CallProgress("c1", "add", "half way"))

    assert (fields["data"], fields["display"]) == ({}, {})


def test_an_event_is_read_as_it_was_written():
    event = CallStarted("c1", "add", user="ada")

    assert event_from_json(event_to_json(event)) == event
