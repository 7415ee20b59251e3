"""Assemble: the one place where parts meet. From a configuration and sources of tools to a runtime."""

from toolwright.assemble.assemble import assemble as assemble
from toolwright.assemble.sources import SourceError as SourceError
from toolwright.assemble.sources import load as load
