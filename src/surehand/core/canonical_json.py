"""Canonical JSON and its SHA-256 digest: equal values have equal text, so digests of them can be compared.

The cache keys, the ledger's comparison of arguments and the digest of a tool's definition use it.
"""

from __future__ import annotations

from json import JSONEncoder
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces. pydantic converts models, dates and other types that JSON does not have."""
    try:
        return _encode_canonical(value)
    # `default` of an encoder converts values, never keys.
    except TypeError:  # keys of several types cannot be sorted; pydantic converts all keys to strings
        return _encode_canonical(_to_jsonable(value))


def _to_jsonable(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings")


_encode_canonical = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_to_jsonable).encode


def json_digest(*values: Any) -> str:
    """SHA-256 over the canonical JSON of the values."""
    from hashlib import sha256

    # `surrogatepass`: UTF-8 has no lone surrogates, and arguments of a refused call may hold some.
    return sha256(canonical_json(list(values)).encode(errors="surrogatepass")).hexdigest()
