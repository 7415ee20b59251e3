"""The measurements and labels of an ended call, for metrics, spans and the tree."""

from __future__ import annotations

from surehand.catalogue.catalogue import Catalogue
from surehand.core.events import CallEnded
from surehand.core.outcome import CallMeta, Failed, Pending
from surehand.runtime.pipeline.refused_calls import UNKNOWN_TOOL_NAME


def call_meta(event: CallEnded) -> CallMeta:
    """Return the measurements of a call; only id and tool if its arguments cannot be measured."""
    try:
        return event.outcome.meta
    except Exception:  # noqa: BLE001 - serialising foreign objects may raise anything
        return CallMeta(event.call_id, event.tool)


def tool_label(event: CallEnded, meta: CallMeta, catalogue: Catalogue) -> str:
    """Return the name of the tool, or one common name for unknown tools: a model may invent any number of names."""
    return event.tool if meta.kind or catalogue.find(event.tool) else UNKNOWN_TOOL_NAME


def status_label(event: CallEnded) -> str:
    """Return `ok`, `pending`, or the code of the failure."""
    match event.outcome:
        case Failed(code):
            return code
        case Pending():
            return "pending"
    return "ok"
