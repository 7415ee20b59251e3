"""For tests of tools and agents: time that stands still, scripted parts, recorded calls and faults on purpose."""

from toolwright.testing.approver import ScriptedApprover, approvals
from toolwright.testing.clock import ManualClock, settle
from toolwright.testing.faults import Fault, chance, crash, delay, error, flaky, garbage, hang
from toolwright.testing.faulty import faulty
from toolwright.testing.log import CallLog, call_log
from toolwright.testing.manual import ManualRuntime, runtime
from toolwright.testing.misses import Unscripted
from toolwright.testing.provider import RecordingProvider
from toolwright.testing.tape import Cassette, cassette

__all__ = [
    "CallLog",
    "Cassette",
    "Fault",
    "ManualClock",
    "ManualRuntime",
    "RecordingProvider",
    "ScriptedApprover",
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
