"""Input repair: your own corrections of what models get wrong, before the handler sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from surehand.core.errors import InvalidArguments
from surehand.core.invoke import failed_from_error
from surehand.core.outcome import Outcome
from surehand.runtime.pipeline.invocation import Invocation
from surehand.runtime.pipeline.pipeline import Proceed
from surehand.runtime.pipeline.stages.middleware import Middleware


def input_repair(repair: Callable[[str, dict[str, Any]], Mapping[str, Any]], *, tools: str = "*") -> Middleware:
    """`mend(tool, arguments)` gives the arguments to run with; they are checked again."""

    async def input_repair(invocation: Invocation, proceed: Proceed) -> Outcome:
        if fnmatchcase(invocation.listing.name, tools):
            mended = repair(invocation.listing.name, dict(invocation.arguments))
            try:
                invocation.arguments = invocation.listing.tool.validate_arguments(mended)
            except InvalidArguments as error:
                return failed_from_error(error).evolve(executed=False)
        return await proceed(invocation)

    return input_repair
