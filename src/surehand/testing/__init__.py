"""Tools for tests of tools and agents: a manual clock, scripted parts, recorded calls and injected faults."""

from surehand.agent.models.scripted import ScriptedModel
from surehand.testing.approver import ScriptedApprover, approvals
from surehand.testing.cassettes.cassette import Cassette, cassette
from surehand.testing.event_log import CallLog, call_log
from surehand.testing.fault_injection import faulty
from surehand.testing.faults import Fault, chance, crash, delay, error, flaky, garbage, hang
from surehand.testing.manual_clock import ManualClock, ManualRuntime, runtime, settle
from surehand.testing.recording_provider import RecordingProvider
from surehand.testing.unscripted import Unscripted

__all__ = [
    "CallLog",
    "Cassette",
    "Fault",
    "ManualClock",
    "ManualRuntime",
    "RecordingProvider",
    "ScriptedApprover",
    "ScriptedModel",
    "Unscripted",
    "approvals",
    "call_log",
    "cassette",
    "chance",
    "crash",
    "delay",
    "error",
    "faulty",
    "flaky",
    "garbage",
    "hang",
    "runtime",
    "settle",
]
