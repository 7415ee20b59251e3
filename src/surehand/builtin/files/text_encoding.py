"""Encoding: how a file's bytes are read as text, told from how they begin."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from surehand.core.errors import InvalidArguments

HEAD_BYTES = 8192
"""As much of a file is looked at; a NUL in it makes the file binary."""
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: it begins like that
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNUSED_IN_CP1252 = b"\x81\x8d\x8f\x90\x9d"  # in cp1252
_FILE_CODEC_PREFIXES = (
    "utf-8",
    "utf-16",
    "utf-32",
    "ascii",
    "latin-1",
    "cp",
    "iso8859",
    "koi8",
    "mac-",
    "gb",
    "big5",
    "euc",
    "shift",
)
_CODEC_ALIASES = {"binary": "latin-1", "ucs2": "utf-16-le", "ucs-2": "utf-16-le", "utf16le": "utf-16-le"}


@dataclass(frozen=True, slots=True)
class TextEncoding:
    """A codec, and the mark that a file in it begins with."""

    codec: str
    byte_order_mark: bytes = b""

    @property
    def name(self) -> str:
        """As people know it."""
        return f"{self.codec}-sig" if self.byte_order_mark and self.codec == "utf-8" else self.codec

    @property
    def is_wide(self) -> bool:
        """Whether a newline is more than the one byte."""
        return self.codec.startswith(("utf-16", "utf-32"))

    def decode(self, data: bytes) -> str:
        """The text, such that `encode` gives the same bytes again; raises `UnicodeDecodeError`."""
        return data[len(self.byte_order_mark) :].decode(self.codec, "strict" if self.is_wide else "surrogateescape")

    def encode(self, text: str) -> bytes:
        """The bytes, without the mark; raises `UnicodeEncodeError`."""
        return text.encode(self.codec, "strict" if self.is_wide else "surrogateescape")


def detect_encoding(head: bytes) -> TextEncoding | None:
    """The encoding of a file that begins so; None for what is no text."""
    for mark, codec in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return TextEncoding(codec, mark)
    if b"\0" in head[:HEAD_BYTES]:
        return None
    return TextEncoding("utf-8" if _is_utf8(head) else "latin-1" if set(head) & set(_UNUSED_IN_CP1252) else "cp1252")


def _is_utf8(head: bytes) -> bool:
    """Its last character may be cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeDecodeError:
        return False
    return True


def encoding_from_name(name: str) -> TextEncoding:
    """An encoding that somebody asks for; raises `InvalidArguments`."""
    wanted = _CODEC_ALIASES.get(name.lower(), name)
    try:
        codec = codecs.lookup(wanted).name if wanted.isascii() and wanted.isprintable() and len(wanted) < 40 else ""
    except (LookupError, ValueError):
        codec = ""
    codec = {"iso8859-1": "latin-1"}.get(codec, codec)
    if not codec.startswith(_FILE_CODEC_PREFIXES):  # Python also knows encodings that are no encodings of files
        raise InvalidArguments(f"There is no encoding {name[:40]!r}. Use utf-8, utf-16, latin-1, cp1252 or base64.")
    if codec == "utf-8-sig":
        return TextEncoding("utf-8", codecs.BOM_UTF8)
    if codec in ("utf-16", "utf-32"):
        return TextEncoding(f"{codec}-le", codecs.BOM_UTF16_LE if codec == "utf-16" else codecs.BOM_UTF32_LE)
    return TextEncoding(codec)
