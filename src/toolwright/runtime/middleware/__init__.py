"""Middleware that is ready to use: `Runtime(..., middleware=[logging(), redaction(secrets)])`."""

from toolwright.runtime.middleware.caching import caching
from toolwright.runtime.middleware.dry_run import dry_run
from toolwright.runtime.middleware.input_repair import input_repair
from toolwright.runtime.middleware.logging import logging
from toolwright.runtime.middleware.redaction import redaction
from toolwright.runtime.middleware.timing import timing

__all__ = ["caching", "dry_run", "input_repair", "logging", "redaction", "timing"]
