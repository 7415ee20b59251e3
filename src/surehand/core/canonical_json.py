"""One spelling for equal values, so that digests can be compared."""

from __future__ import annotations

from json import JSONEncoder
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces; models, dates and the like as pydantic writes them."""
    try:
        return _encode_canonical(value)
    except TypeError:  # keys of several kinds, which cannot be put in order as they are
        return _encode_canonical(_to_jsonable(value))


def _to_jsonable(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings")


_encode_canonical = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_to_jsonable).encode


def json_digest(*values: Any) -> str:
    """SHA-256 over the canonical JSON of the values."""
    from hashlib import sha256

    return sha256(canonical_json(list(values)).encode(errors="surrogatepass")).hexdigest()
