"""Runtime: the class that programs import. It is the one of the pipeline, plus `approver=` given as a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surehand.runtime.runtime import Runtime as PipelineRuntime

if TYPE_CHECKING:
    from surehand.runtime.pending.pending_call import Approver


class Runtime(PipelineRuntime):
    """Tools and the pipeline that every call passes. Use it with `async with`."""

    def _build_approver(self, model: Any) -> Approver | None:
        from surehand.agent.approver import build_approver  # loads what models need

        return build_approver(model)
