"""Redaction: masks known secrets in texts, in all usual encodings."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, quote_plus

REDACTION_MASK = "[redacted]"


def build_redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """Build a function that masks the secrets, also where they are encoded as JSON, URL, base64, hex or HTML."""
    forms = sorted({form for secret in secrets if secret for form in _encoded_forms(secret)}, key=len, reverse=True)
    if not forms:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, forms)), re.IGNORECASE)
    return lambda text: pattern.sub(REDACTION_MASK, text)


def _encoded_forms(secret: str) -> Iterable[str]:
    """The spellings of a secret in the usual encodings."""
    raw = secret.encode()
    yield from (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret), html.escape(secret), raw.hex())
    yield from (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode())
    # Inside a longer base64 text, the characters depend on the position of the secret modulo 3: mask the characters
    # that are the same whatever surrounds it, for each of the three offsets.
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).decode().rstrip("=")
        inner = encoded[-(-offset * 8 // 6) : len(encoded) - 1]
        if len(inner) >= 8:
            yield inner
