"""The settings of the HTTP client that a configuration file gives, with its certificates loaded."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surehand.config.http_options import CA_FILE
from surehand.core.errors import DefinitionError


def load_http_options(options: Mapping[str, Any], base_folder: Path) -> dict[str, Any]:
    """The arguments of the HTTP client. Raises `DefinitionError` for certificates that cannot be read."""
    loaded = dict(options)
    if CA_FILE in loaded:
        path = base_folder / Path(loaded.pop(CA_FILE)).expanduser()
        loaded["verify"] = context = ssl.create_default_context()
        try:
            context.load_verify_locations(path)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            fix = "give a file with certificates in PEM format."
            raise DefinitionError(f"ca_file {path} cannot be read: {reason}.", fix=fix) from None
    return loaded
