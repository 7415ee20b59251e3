"""HTTPS: connections go to the checked address, and the certificate must be for the host name."""

import ssl

import pytest
import trustme

from surehand.core.errors import Denied, ToolError
from tests.http.server import PUBLIC, Names, internet, online, redirect, reply, serving


class Certified:
    """An authority, a server's certificate for some names, and a client that trusts the authority."""

    def __init__(self, *names):
        authority = trustme.CA()
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(self.server)
        self.client = ssl.create_default_context()
        authority.configure_trust(self.client)
        self.named = []
        self.server.sni_callback = lambda connection, name, context: self.named.append(name)


@pytest.fixture(scope="module")
def certified():
    return Certified("site.test", "xn--bcher-kva.test")


def served(certified, **settings):
    names = Names(site_test=PUBLIC, wrong_test=PUBLIC, **{"xn--bcher-kva_test": PUBLIC})
    return online(
        lambda asked: reply("secure"), tls=certified.server, verify=certified.client, resolver=names, **settings
    )


@pytest.mark.parametrize(
    ("host", "name"),
    {"site.test": "site.test", "SITE.test.": "site.test", "bücher.test": "xn--bcher-kva.test"}.items(),
)
async def test_the_host_name_is_sent_while_the_address_is_pinned(certified, host, name):
    certified.named.clear()
    async with served(certified) as (server, client):
        response = await client.request("GET", f"https://{host}/")

        assert client.settings.dialer.dialled == [(PUBLIC, 443)]
    assert response.body == b"secure"
    assert certified.named == [name]
    assert server.asked[0].headers["host"] == name


async def test_a_certificate_for_another_name_is_refused(certified):
    async with served(certified) as (server, client):
        with pytest.raises(ToolError, match=r"No secure connection to wrong\.test: its certificate") as refused:
            await client.request("GET", "https://wrong.test/?token=canary")

    assert server.asked == []
    assert refused.value.code == "failed"  # and not unavailable: trying again would not help
    assert refused.value.executed is False
    assert "canary" not in str(refused.value)


async def test_an_unknown_certificate_authority_is_refused(certified):
    stranger = Certified("site.test")
    stranger.client = certified.client
    async with served(stranger) as (server, client):
        with pytest.raises(ToolError, match="certificate is not valid"):
            await client.request("GET", "https://site.test/")

    assert server.asked == []


async def test_the_systems_authorities_are_trusted_by_default(certified):
    names = Names(site_test=PUBLIC)
    async with online(lambda asked: reply("secure"), tls=certified.server, resolver=names) as (server, client):
        with pytest.raises(ToolError, match="certificate is not valid"):  # this one is none of them
            await client.request("GET", "https://site.test/")

    assert server.asked == []


async def test_a_server_without_tls_is_reported(certified):
    async with online(lambda asked: reply("plain"), verify=certified.client) as (_, client):
        with pytest.raises(ToolError, match=r"No secure connection|could not be reached"):
            await client.request("GET", "https://site.test/")


async def test_a_redirect_to_http_needs_permission(certified):
    async with serving(lambda asked: reply("plain")) as plain:
        dials = internet()
        dials.leads["1.1.1.1"] = plain
        leading = {"tls": certified.server, "verify": certified.client, "dialer": dials}
        for allowed in (False, True):
            async with online(lambda asked: redirect("http://other.test/"), **leading, allow_downgrade=allowed) as (
                server,
                client,
            ):
                dials.leads[PUBLIC] = server
                asking = client.request("GET", "https://site.test/", headers={"Authorization": "canary"})
                if allowed:
                    assert (await asking).body == b"plain"
                    continue
                with pytest.raises(Denied, match="from https to http"):
                    await asking
                assert plain.asked == []

    assert "authorization" not in plain.asked[0].headers


async def test_connections_of_one_name_are_not_used_for_another():
    both = Certified("site.test", "wrong.test")
    async with served(both) as (_, client):
        await client.request("GET", "https://site.test/")
        await client.request("GET", "https://wrong.test/")

    assert both.named == ["site.test", "wrong.test"]
