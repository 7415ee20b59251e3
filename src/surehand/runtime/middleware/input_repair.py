"""Input repair: your own function that corrects arguments before the handler gets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from surehand.core.errors import InvalidArguments
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Outcome
from surehand.runtime.invocation.invocation import Invocation, NextStage
from surehand.runtime.pipeline.installed_middleware import Middleware


def input_repair(repair: Callable[[str, dict[str, Any]], Mapping[str, Any]], *, tools: str = "*") -> Middleware:
    """Replace the arguments of matching tools by `repair(tool, arguments)`, and validate them again."""

    async def input_repair(invocation: Invocation, proceed: NextStage) -> Outcome:
        if fnmatchcase(invocation.listing.name, tools):
            repaired = repair(invocation.listing.name, dict(invocation.arguments))
            try:
                invocation.arguments = invocation.listing.tool.validate_arguments(repaired)
            except InvalidArguments as error:
                return failed_from_error(error).evolve(executed=False)
        return await proceed(invocation)

    return input_repair
