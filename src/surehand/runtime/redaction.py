"""Redaction: known secrets are masked in whatever form they leave in."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, quote_plus

REDACTION_MASK = "[redacted]"


def build_redactor(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that masks the secrets as they are and as JSON, URL, base64, hex and HTML would write them."""
    forms = sorted({form for secret in secrets if secret for form in _encoded_forms(secret)}, key=len, reverse=True)
    if not forms:
        return lambda text: text
    pattern = re.compile("|".join(map(re.escape, forms)), re.IGNORECASE)
    return lambda text: pattern.sub(REDACTION_MASK, text)


def _encoded_forms(secret: str) -> Iterable[str]:
    raw = secret.encode()
    yield from (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret), html.escape(secret), raw.hex())
    yield from (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode())
    # Inside longer base64, the letters depend on where the secret begins: keep what is the same for each offset.
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).decode().rstrip("=")
        inner = encoded[-(-offset * 8 // 6) : len(encoded) - 1]
        if len(inner) >= 8:
            yield inner
