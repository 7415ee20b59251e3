"""Text from the web: which encoding its bytes are in."""

from __future__ import annotations

import codecs
import re

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"^\s{0,20}<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
# Python knows more codecs than the web does, and some of them take quadratic time or mean something else entirely.
_WEB_CODECS = re.compile(
    r"utf-8|utf-16(-[lb]e)?|ascii|iso8859-\d+|cp(1250|1251|1252|1253|1254|1255|1256|1257|1258|866|874|932|936|949|950)"
    r"|koi8-[ru]|mac-(roman|cyrillic)|gb2312|gbk|gb18030|big5(hkscs)?|euc_(jp|kr)|shift_jis|iso2022_jp"
)


def decode_text(body: bytes, content_type: str = "") -> str:
    """Bytes as text: by their own mark, by the header, by what the page says of itself, or by how they look."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    return body.decode(_declared_encoding(body[:2048], content_type) or _guess_encoding(body), "replace")


def _declared_encoding(start: bytes, content_type: str) -> str | None:
    if header := _HEADER_CHARSET.search(content_type):
        return _web_codec(header[1])
    inside = _META_CHARSET.search(start) or _XML_ENCODING.search(start)
    return _web_codec(inside[1].decode("ascii", "replace")) if inside else None


def _guess_encoding(body: bytes) -> str:
    return "utf-8" if _is_utf8(body) else "cp1252"


def _web_codec(name: str) -> str:
    try:
        found = codecs.lookup(name).name
    except LookupError:
        return "utf-8"
    if found in ("ascii", "iso8859-1"):
        return "cp1252"  # what browsers take them for
    return found if _WEB_CODECS.fullmatch(found) else "utf-8"


def is_text(body: bytes) -> bool:
    """Whether bytes of unknown kind can be shown as they are."""
    if body.startswith(tuple(mark for mark, _ in _BYTE_ORDER_MARKS)):
        return True
    return b"\0" not in body[:8192] and _is_utf8(body)


def _is_utf8(body: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)  # the last character may be cut off
    except UnicodeDecodeError:
        return False
    return True
