"""Decoding of response bodies: finds the encoding as browsers do, and tells text from binary data.

Used by the web tools and by REST tools.
"""

from __future__ import annotations

import codecs
import re

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARATION_BYTES = 2048
"""Bytes at the start of a page in which its declared encoding is looked for."""
_BINARY_CHECK_BYTES = 8192
_HEADER_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"^\s{0,20}<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
# Python has more codecs than the web uses, and some take quadratic time (idna) or are no text encodings (hex, zip).
_WEB_CODECS = re.compile(
    r"utf-8|utf-16(-[lb]e)?|ascii|iso8859-\d+|cp(1250|1251|1252|1253|1254|1255|1256|1257|1258|866|874|932|936|949|950)"
    r"|koi8-[ru]|mac-(roman|cyrillic)|gb2312|gbk|gb18030|big5(hkscs)?|euc_(jp|kr)|shift_jis|iso2022_jp"
)


def decode_text(body: bytes, content_type: str = "") -> str:
    """Decode bytes by their byte order mark, the header, the declaration in the page, or a guess, in this order."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    encoding = _declared_encoding(body[:_DECLARATION_BYTES], content_type) or _guess_encoding(body)
    return body.decode(encoding, "replace")


def _declared_encoding(start: bytes, content_type: str) -> str | None:
    if header := _HEADER_CHARSET.search(content_type):
        return _web_codec(header[1])
    declaration = _META_CHARSET.search(start) or _XML_ENCODING.search(start)
    return _web_codec(declaration[1].decode("ascii", "replace")) if declaration else None


def _guess_encoding(body: bytes) -> str:
    return "utf-8" if _is_utf8(body) else "cp1252"


def _web_codec(name: str) -> str:
    """The codec for a declared charset; UTF-8 for one that the web does not use."""
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        return "utf-8"
    if codec in ("ascii", "iso8859-1"):
        return "cp1252"  # the WHATWG encoding standard maps both labels to windows-1252
    return codec if _WEB_CODECS.fullmatch(codec) else "utf-8"


def is_text(body: bytes) -> bool:
    """Whether bytes without a media type are text."""
    if body.startswith(tuple(mark for mark, _ in _BYTE_ORDER_MARKS)):
        return True
    return b"\0" not in body[:_BINARY_CHECK_BYTES] and _is_utf8(body)


def _is_utf8(body: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)  # accepts a character that is cut off at the end
    except UnicodeDecodeError:
        return False
    return True
