"""Assemble: the one place where parts meet. From a configuration and sources of tools to a runtime."""

from surehand.assemble.assemble import assemble as assemble
from surehand.assemble.sources import SourceError as SourceError
from surehand.assemble.sources import load as load
