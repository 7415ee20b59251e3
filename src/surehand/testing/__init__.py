"""For tests of tools and agents: time that stands still, scripted parts, recorded calls and faults on purpose."""

from surehand.testing.approver import ScriptedApprover, approvals
from surehand.testing.clock import ManualClock, settle
from surehand.testing.faults import Fault, chance, crash, delay, error, flaky, garbage, hang
from surehand.testing.faulty import faulty
from surehand.testing.log import CallLog, call_log
from surehand.testing.manual import ManualRuntime, runtime
from surehand.testing.misses import Unscripted
from surehand.testing.provider import RecordingProvider
from surehand.testing.tape import Cassette, cassette

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
