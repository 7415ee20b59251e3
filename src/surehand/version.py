"""The version of the package.

It has a module of its own, below all layers: the package's `__init__` names the parts of every layer, so a module that
imported the version from there would depend on all of them.
"""

from __future__ import annotations

__version__ = "0.1.0"
