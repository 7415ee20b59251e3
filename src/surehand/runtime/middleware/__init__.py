"""Ready-made middleware, as in `Runtime(..., middleware=[logging(), redaction(secrets)])`."""

from surehand.runtime.middleware.caching import caching
from surehand.runtime.middleware.dry_run import dry_run
from surehand.runtime.middleware.input_repair import input_repair
from surehand.runtime.middleware.logging import logging
from surehand.runtime.middleware.redaction import redaction
from surehand.runtime.middleware.timing import timing

__all__ = ["caching", "dry_run", "input_repair", "logging", "redaction", "timing"]
