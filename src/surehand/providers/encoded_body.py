"""Encoded bodies of requests, and how multipart bodies are put together. REST tools and OpenAPI operations use it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256


@dataclass(frozen=True, slots=True)
class EncodedBody:
    """The bytes of a body, and their media type."""

    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class BodyPart:
    """One part of a multipart body: a field or a file."""

    name: str
    content: bytes
    filename: str | None = None
    media_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers, which the caller has validated."""


def encode_multipart(parts: Iterable[BodyPart], media_type: str = "multipart/form-data") -> EncodedBody:
    """A multipart body; the same parts are always the same bytes."""
    encoded = [_encode_part(part) for part in parts]
    # From the content, so that the same call is the same request; 32 random-looking digits do not occur in it.
    boundary = f"surehand-{sha256(b''.join(encoded)).hexdigest()[:32]}"
    delimiter = f"--{boundary}\r\n".encode()
    content = b"".join(delimiter + part + b"\r\n" for part in encoded) + f"--{boundary}--\r\n".encode()
    return EncodedBody(content, f"{media_type}; boundary={boundary}")


def _encode_part(part: BodyPart) -> bytes:
    disposition = f'form-data; name="{_escape(part.name)}"'
    if part.filename is not None:
        disposition += f'; filename="{_escape(part.filename)}"'
    headers = [("Content-Disposition", disposition)]
    if part.media_type:
        headers.append(("Content-Type", part.media_type))
    head = "".join(f"{name}: {value}\r\n" for name, value in (*headers, *part.headers))
    return f"{head}\r\n".encode() + part.content


def _escape(text: str) -> str:
    """A name in a `Content-Disposition`, escaped as browsers do: it can neither end the quotes nor the line."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
