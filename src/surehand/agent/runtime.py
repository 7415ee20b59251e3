"""Runtime: the class that programs import. It is that of the pipeline, with the models that may approve calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surehand.runtime import runtime

if TYPE_CHECKING:
    from surehand.runtime.pending.pending_call import Approver


class Runtime(runtime.Runtime):
    __doc__ = runtime.Runtime.__doc__

    def _build_approver(self, model: Any) -> Approver | None:
        from surehand.agent.approver import build_approver  # loads what models need

        return build_approver(model)
