"""Measuring: what an ended call tells about itself."""

from __future__ import annotations

from surehand.catalogue.catalogue import Catalogue
from surehand.core.events import CallEnded
from surehand.core.outcome import CallMeta, Failed, Pending
from surehand.runtime.pipeline.unknown_tool import UNKNOWN_TOOL_NAME


def call_meta(event: CallEnded) -> CallMeta:
    """How the call went; arguments that cannot be written as JSON have no size, and then nothing else is known."""
    try:
        return event.outcome.meta
    except Exception:  # noqa: BLE001 - the arguments are a stranger's objects, and writing them may raise anything
        return CallMeta(event.call_id, event.tool)


def tool_label(event: CallEnded, meta: CallMeta, catalogue: Catalogue) -> str:
    """The tool's name, or one for all that are not there: a model may invent names without number."""
    return event.tool if meta.kind or catalogue.find(event.tool) else UNKNOWN_TOOL_NAME


def status_label(event: CallEnded) -> str:
    """`ok`, `pending`, or the failure's code."""
    match event.outcome:
        case Failed(code):
            return code
        case Pending():
            return "pending"
    return "ok"
