"""A URL is parsed in one way only; a URL that parsers could read differently is refused."""

from urllib.parse import urlsplit

import httpcore2
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand.core.errors import Denied, InvalidArguments, ToolError
from surehand.http.target import normalize_host, parse_target


@pytest.mark.parametrize(
    ("url", "plain"),
    {
        "http://example.com": "http://example.com/",
        "HTTP://EXAMPLE.com:80/a?b=c#d": "http://example.com/a?b=c",
        "https://example.com:443/": "https://example.com/",
        "https://example.com:/x": "https://example.com/x",
        "https://example.com:8443?q=1": "https://example.com:8443/?q=1",
        "https://example.com./": "https://example.com/",
        "https://bücher.example/ü?ß": "https://xn--bcher-kva.example/%C3%BC?%C3%9F",
        "https://Ｅxample.com/": "https://example.com/",  # noqa: RUF001 - a full-width letter
        "https://xn--bcher-kva.example/": "https://xn--bcher-kva.example/",
        "http://[2606:4700:0:0::1111]:8080/": "http://[2606:4700::1111]:8080/",
        "http://134744072/": "http://8.8.8.8/",
        'http://example.com/a"b<c>\\d': "http://example.com/a%22b%3Cc%3E%5Cd",
        "http://example.com/%7Euser/%zz": "http://example.com/%7Euser/%zz",
        "  http://example.com/  ": "http://example.com/",
        "http://under_score.example/": "http://under_score.example/",
        "http://example.com//x//y": "http://example.com//x//y",
    }.items(),
)
def test_a_url_is_normalised(url, plain):
    assert parse_target(url).url == plain


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "http://",
        "http:///path",
        "http:example.com",
        "http://user@example.com/",
        "http://user:word@example.com/",
        "http://@example.com/",
        "http://127.0.0.1:80\\@example.com/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com\\.evil.test/",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:99999999/",
        "http://example.com:80:80/",
        "http://example.com:+80/",
        "http://example.com:８０/",  # noqa: RUF001 - full-width digits
        "http://example.com:-1/",
        "http://exa mple.com/",
        "http://example.com/a b",
        "http://example.com/\r\nX-Injected: 1",
        "http://example.com/\0",
        "http://example\t.com/",
        "http://[::1",
        "http://::1/",
        "http://[::1]x/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[v1.x]/",
        "http://[1.2.3.4]/",
        "http://1.2.3.4.5/",
        "http://999.1.1.1/",
        "http://example.999999999999/",
        "http://09.1.1.1/",
        "http://%31%32%37.0.0.1/",
        "http://127.0.0.1%00.example.com/",
        "http://exam%70le.com/",
        "http://ex..ample.com/",
        "http://.example.com/",
        "http://-example.com/",
        "http://example.com../",
        "http://" + "a" * 64 + ".com/",
        "http://" + "a." * 130 + "com/",
        "http://exa<mple.com/",
        "http://exa|mple.com/",
        "http://\ud800.com/",
        "http://example.com/\ud800",
        "http://a\u200bb\u2028.com/",
        "http://example.com/" + "x" * 9000,
    ],
)
def test_an_ambiguous_url_is_refused(url):
    with pytest.raises(InvalidArguments) as refused:
        parse_target(url)

    assert refused.value.executed is False
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "data:text/html,x",
        "javascript:alert(1)",
        "gopher://x/",
        "ws://x/",
        "unix:/var/run/x",
        "jar:http://x!/",
        "dict://x:1/",
        "HTTPS+unix://x/",
        "blob:http://x/",
    ],
)
def test_other_schemes_are_denied(url):
    with pytest.raises(Denied):
        parse_target(url)


PARTS = [
    "http:",
    "https:",
    "//",
    "/",
    "\\",
    "@",
    ":",
    ".",
    "?",
    "#",
    "%2f",
    "%00",
    "[",
    "]",
    "::1",
    "127.0.0.1",
    "0x7f",
]
PARTS += [
    "example.com",
    "evil.test",
    "xn--",
    "ü",
    "。",
    "①",
    "ß",
    "\u200d",
    "\u2028",
    "\t",
    " ",
    "80",
    "0",
    "user",
    "a",
    "-",
]


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join), st.sampled_from(["", "http://", "//"]))
def test_every_url_parser_finds_the_same_host_in_an_accepted_url(text, before):
    start = parse_target("https://base.test/a/b?c")
    for read in (parse_target, start.join):
        try:
            target = read(before + text)
        except ToolError:
            continue

        assert parse_target(target.url) == target
        parts = urlsplit(target.url)
        assert (parts.hostname, parts.username) == (target.host, None)
        assert (parts.port or {"http": 80, "https": 443}[parts.scheme]) == target.port
        assert httpx2.URL(target.url).raw_host.decode() == httpcore2.URL(target.url).host.decode() == target.host


@pytest.mark.parametrize("userinfo", ["me:hunter2", "hunter2", ":hunter2", "hunter2:", "a@hunter2"])
def test_a_refusal_does_not_repeat_the_password(userinfo):
    with pytest.raises(InvalidArguments) as refused:
        parse_target(f"http://{userinfo}@example.com/?token=abc")

    assert "hunter2" not in str(refused.value)
    assert "abc" not in str(refused.value)


def test_full_width_digits_are_read_as_an_address():
    assert normalize_host("①②⑦。⓪.⓪.①") == "127.0.0.1"


@pytest.mark.parametrize(
    ("location", "plain"),
    {
        "/x": "https://example.com/x",
        "x?y": "https://example.com/a/x?y",
        "../x": "https://example.com/x",
        "?q": "https://example.com/a/b?q",
        "//other.test/x": "https://other.test/x",
        "http://other.test": "http://other.test/",
        "HTTPS://Other.test:443": "https://other.test/",
        "": "https://example.com/a/b",
    }.items(),
)
def test_a_location_is_relative_to_the_redirecting_url(location, plain):
    assert parse_target("https://example.com/a/b").join(location).url == plain
