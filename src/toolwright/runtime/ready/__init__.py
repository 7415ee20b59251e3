"""Middleware that is ready to use: `Runtime(..., middleware=[logging(), redaction(secrets)])`."""

from toolwright.runtime.ready.caching import caching
from toolwright.runtime.ready.dry_run import dry_run
from toolwright.runtime.ready.input_repair import input_repair
from toolwright.runtime.ready.logging import logging
from toolwright.runtime.ready.redaction import redaction
from toolwright.runtime.ready.timing import timing

__all__ = ["caching", "dry_run", "input_repair", "logging", "redaction", "timing"]
