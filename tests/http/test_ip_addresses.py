"""No denied address is ever dialled, however it is written and however it is reached."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand.core.errors import Denied, InvalidArguments, ToolError
from surehand.http.client import HttpClient
from surehand.http.ip_addresses import embedded_addresses, parse_address, special_address_kind
from tests.http.server import PUBLIC, Dials, Names, internet, redirect, reply, serving

# How a host is written in a URL, and the address that a resolver would give for it.
FORMS = {
    "127.0.0.1": "127.0.0.1",
    "127.1": "127.0.0.1",
    "127.0.1": "127.0.0.1",
    "127.0.0.1.": "127.0.0.1",
    "127.255.255.254": "127.255.255.254",
    "2130706433": "127.0.0.1",
    "0x7f000001": "127.0.0.1",
    "0X7F000001": "127.0.0.1",
    "017700000001": "127.0.0.1",
    "0177.0.0.1": "127.0.0.1",
    "0x7f.0.0.1": "127.0.0.1",
    "0x7f.1": "127.0.0.1",
    "①②⑦.⓪.⓪.①": "127.0.0.1",
    "127。0。0。1": "127.0.0.1",
    "127．0．0．1": "127.0.0.1",  # noqa: RUF001 - full-width dots are the point
    "１２７.0.0.1": "127.0.0.1",  # noqa: RUF001 - and so are full-width digits
    "0": "0.0.0.0",
    "0.0.0.0": "0.0.0.0",
    "0.1.2.3": "0.1.2.3",
    "10.0.0.1": "10.0.0.1",
    "10.255.255.255": "10.255.255.255",
    "012.0.0.1": "10.0.0.1",
    "172.16.0.1": "172.16.0.1",
    "172.31.255.255": "172.31.255.255",
    "192.168.1.1": "192.168.1.1",
    "3232235777": "192.168.1.1",
    "169.254.169.254": "169.254.169.254",
    "2852039166": "169.254.169.254",
    "0xa9fea9fe": "169.254.169.254",
    "169.254.170.2": "169.254.170.2",
    "169.254.0.1": "169.254.0.1",
    "100.64.0.1": "100.64.0.1",
    "100.100.100.200": "100.100.100.200",
    "192.0.0.1": "192.0.0.1",
    "192.0.0.192": "192.0.0.192",
    "168.63.129.16": "168.63.129.16",
    "192.0.2.1": "192.0.2.1",
    "198.51.100.7": "198.51.100.7",
    "203.0.113.9": "203.0.113.9",
    "198.18.0.1": "198.18.0.1",
    "198.19.255.255": "198.19.255.255",
    "192.88.99.1": "192.88.99.1",
    "224.0.0.1": "224.0.0.1",
    "239.255.255.250": "239.255.255.250",
    "240.0.0.1": "240.0.0.1",
    "255.255.255.255": "255.255.255.255",
    "[::]": "::",
    "[::1]": "::1",
    "[0:0:0:0:0:0:0:1]": "::1",
    "[::ffff:127.0.0.1]": "::ffff:127.0.0.1",
    "[::ffff:7f00:1]": "::ffff:7f00:1",
    "[::ffff:10.0.0.1]": "::ffff:10.0.0.1",
    "[::ffff:a9fe:a9fe]": "::ffff:a9fe:a9fe",
    "[::7f00:1]": "::7f00:1",
    "[::127.0.0.1]": "::127.0.0.1",
    "[::ffff:0:127.0.0.1]": "::ffff:0:127.0.0.1",
    "[64:ff9b::7f00:1]": "64:ff9b::7f00:1",
    "[64:ff9b::10.0.0.1]": "64:ff9b::10.0.0.1",
    "[64:ff9b::a9fe:a9fe]": "64:ff9b::a9fe:a9fe",
    "[64:ff9b:1::1]": "64:ff9b:1::1",
    "[2002:7f00:1::]": "2002:7f00:1::",
    "[2002:a9fe:a9fe::1]": "2002:a9fe:a9fe::1",
    "[2002:808:808::1]": "2002:808:808::1",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]": "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "[2001:2::1]": "2001:2::1",
    "[2001:10::1]": "2001:10::1",
    "[2001:db8::1]": "2001:db8::1",
    "[3fff::1]": "3fff::1",
    "[100::1]": "100::1",
    "[5f00::1]": "5f00::1",
    "[fe80::1]": "fe80::1",
    "[febf::1]": "febf::1",
    "[fec0::1]": "fec0::1",
    "[fc00::1]": "fc00::1",
    "[fd00:ec2::254]": "fd00:ec2::254",
    "[fd20:ce::254]": "fd20:ce::254",
    "[ff02::1]": "ff02::1",
    "[ff0e::1]": "ff0e::1",
    "[2600::5efe:7f00:1]": "2600::5efe:7f00:1",
    "[2600::200:5efe:10.0.0.1]": "2600::200:5efe:10.0.0.1",
    "[4000::1]": "4000::1",
    "[1::1]": "1::1",
}


def test_enough_forms_of_addresses_are_tested():
    assert len(FORMS) >= 75


@pytest.mark.parametrize("host", FORMS)
async def test_a_denied_address_in_the_url_is_not_dialled(host):
    dials, names = Dials(), Names()

    async with HttpClient(resolver=names, dialer=dials, ports="any") as client:
        for url in (f"http://{host}/", f"https://{host}/", f"http://{host}:8080/x"):
            with pytest.raises(Denied) as refused:
                await client.request("GET", url)

    assert dials.dialled == names.asked == []
    assert refused.value.executed is False


@pytest.mark.parametrize("host", FORMS)
async def test_a_denied_address_behind_a_redirect_is_not_dialled(host):
    async with serving(lambda asked: redirect(f"http://{host}/latest/meta-data/")) as server:
        dials = internet(server)
        async with HttpClient(resolver=Names(start_test=PUBLIC), dialer=dials) as client:
            with pytest.raises(Denied) as refused:
                await client.request("POST", "http://start.test/", body=b"x")

    assert dials.dialled == [(PUBLIC, 80)]
    assert refused.value.executed is True


@pytest.mark.parametrize("address", sorted(set(FORMS.values())))
async def test_a_name_that_is_rebound_is_not_followed_to_a_denied_address(address):
    async with serving(lambda asked: reply("fine", connection="close")) as server:
        dials, names = internet(server), Names(rebound_test=[[PUBLIC], [address]])
        async with HttpClient(resolver=names, dialer=dials) as client:
            assert (await client.request("GET", "http://rebound.test/")).body == b"fine"
            assert names.asked == ["rebound.test"]  # once for the connection, and what was judged was dialled

            with pytest.raises(Denied):
                await client.request("GET", "http://rebound.test/")

    assert dials.dialled == [(PUBLIC, 80)]


@pytest.mark.parametrize("address", sorted(set(FORMS.values())))
async def test_one_denied_address_refuses_the_whole_host(address):
    dials = Dials()
    names = Names(first_test=[address, PUBLIC], last_test=[PUBLIC, "1.1.1.1", address])

    async with HttpClient(resolver=names, dialer=dials) as client:
        for host in ("first.test", "last.test"):
            with pytest.raises(Denied):
                await client.request("GET", f"https://{host}/")

    assert dials.dialled == []


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "2001:4860:4860::8888"])
def test_public_addresses_have_no_special_kind(address):
    assert special_address_kind(parse_address(address)) is None


@pytest.mark.parametrize("address", ["::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
def test_a_public_address_inside_a_gateways_form_stays_public(address):
    assert special_address_kind(parse_address(address)) is None
    assert list(embedded_addresses(parse_address(address))) == [ip_address("8.8.8.8")]


@pytest.mark.parametrize(
    ("address", "kind"),
    {
        "169.254.169.254": "metadata",
        "169.254.170.2": "metadata",
        "169.254.170.23": "metadata",
        "100.100.100.200": "metadata",
        "192.0.0.192": "metadata",
        "168.63.129.16": "metadata",
        "fd00:ec2::254": "metadata",
        "fd20:ce::254": "metadata",
        "::ffff:169.254.169.254": "metadata",
        "64:ff9b::169.254.169.254": "metadata",
        "::1": "loopback",
        "::ffff:127.0.0.1": "loopback",
        "::": "unspecified",
        "::127.0.0.1": "v4-compatible",
        "10.1.2.3": "private",
        "100.64.0.1": "shared",
        "fc00::1": "unique local",
        "fec0::1": "site-local",
        "fe80::1": "link-local",
        "ff02::1": "multicast",
        "2002:808:808::1": "6to4",
        "64:ff9b:1::1": "local NAT64",
        "::ffff:0:127.0.0.1": "v4-translated",
        "100::1": "discard",
        "100:0:0:1::1": "discard",
        "5f00::1": "segment routing",
        "2001:0:1::1": "protocol assignments",
        "4000::1": "reserved",
    }.items(),
)
def test_an_address_is_of_its_narrowest_kind(address, kind):
    assert special_address_kind(parse_address(address)) == kind


@pytest.mark.parametrize(
    "edge", ["9.255.255.255", "11.0.0.0", "126.255.255.255", "128.0.0.0", "172.15.255.255", "172.32.0.0"]
)
def test_addresses_beside_a_denied_network_are_not_denied(edge):
    assert special_address_kind(parse_address(edge)) is None


def test_a_zone_is_ignored():
    assert special_address_kind(parse_address("fe80::1%eth0")) == "link-local"


NETWORKS = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.168.0.0/16"
NETWORKS += " 198.18.0.0/15 224.0.0.0/4 240.0.0.0/4 192.0.2.0/24 168.63.129.16/32"


@st.composite
def denied_v4(draw):
    network = ip_network(draw(st.sampled_from(NETWORKS.split())))
    return network[draw(st.integers(0, network.num_addresses - 1))]


def numbers(address):
    return [int(part) for part in str(address).split(".")]


def mixed(address, bases):
    forms = {"decimal": "{}", "hexadecimal": "0x{:x}", "octal": "0{:o}", "padded": "0x{:08x}"}
    return ".".join(forms[base].format(number) for number, base in zip(numbers(address), bases, strict=True))


def other_digits(text):
    return "".join(chr(ord(char) - 48 + 0xFF10) if char.isdigit() else char for char in text)


ENCODINGS = {
    "decimal": lambda a: str(int(a)),
    "hexadecimal": lambda a: hex(int(a)),
    "octal": lambda a: f"0{int(a):o}",
    "two parts": lambda a: f"{numbers(a)[0]}.{int(a) & 0xFFFFFF}",
    "three parts": lambda a: f"{numbers(a)[0]}.{numbers(a)[1]}.{int(a) & 0xFFFF}",
    "mixed": lambda a: mixed(a, ["hexadecimal", "octal", "decimal", "padded"]),
    "full-width": lambda a: other_digits(str(a)),
    "ideographic": lambda a: str(a).replace(".", "。"),
    "half-width dots": lambda a: str(a).replace(".", "｡"),
    "trailing dot": lambda a: f"{a}.",
    "mapped": lambda a: f"[::ffff:{a}]",
    "mapped in hexadecimal": lambda a: f"[::ffff:{int(a) >> 16:x}:{int(a) & 0xFFFF:x}]",
    "compatible": lambda a: f"[::{a}]",
    "translated": lambda a: f"[::ffff:0:{a}]",
    "NAT64": lambda a: f"[64:ff9b::{a}]",
    "local NAT64": lambda a: f"[64:ff9b:1::{a}]",
    "6to4": lambda a: f"[2002:{int(a) >> 16:x}:{int(a) & 0xFFFF:x}::1]",
    "Teredo": lambda a: f"[2001:0:102:304::{~int(a) >> 16 & 0xFFFF:x}:{~int(a) & 0xFFFF:x}]",
    "ISATAP": lambda a: f"[2600:1::5efe:{a}]",
    "percent": lambda a: "".join(f"%{ord(char):02x}" for char in str(a)),
}


@given(denied_v4(), st.sampled_from(sorted(ENCODINGS)), st.sampled_from(["", ":80", ":8080", ":"]))
async def test_no_encoding_of_a_denied_address_is_dialled(address, encoding, port):
    dials, names = Dials(), Names()

    async with HttpClient(resolver=names, dialer=dials) as client:
        with pytest.raises(ToolError) as refused:
            await client.request("GET", f"http://{ENCODINGS[encoding](address)}{port}/")

    assert isinstance(refused.value, Denied | InvalidArguments)
    assert dials.dialled == names.asked == []
