"""One spelling for equal values, so that digests can be compared."""

from __future__ import annotations

from typing import Any


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces; models, dates and the like as pydantic writes them."""
    import json

    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings")
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(*values: Any) -> str:
    """SHA-256 over the canonical JSON of the values."""
    from hashlib import sha256

    return sha256(canonical(list(values)).encode(errors="surrogatepass")).hexdigest()
