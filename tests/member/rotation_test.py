"""The secret is changed one replica at a time: what becomes of their etcds."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cryptography import x509
from tests.member.town import SECRET, House, a_town, ids, keeps, remembers, until

from tocsin.member.member import Enrolment
from tocsin.member.secret import Credentials

NEW = "the next secret, which is to be that of all replicas"


def _give(house: House, *secrets: str) -> None:
    Path(house.settings.cluster_secret).write_text("\n".join(secrets) + "\n")


def _credentials(house: House) -> Credentials:
    return Enrolment(house.settings).credentials


async def _issuer(house: House) -> str:
    """Who signed the certificate that its etcd shows."""
    host, port = house.address().split(":")
    context = _credentials(house).client_context()
    _, writer = await asyncio.open_connection(host, int(port) + 2, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown).issuer.rfc4514_string()


def an_etcd_that_outlived_its_tocsin_is_started_again_when_other_authorities_are_trusted(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            a, b, c = await town.founded()
            await keeps(a)
            before = await ids(a)
            pid = b.pid()
            await b.leave_etcd_alone()
            _give(b, SECRET, NEW)
            await b.start()
            assert b.pid() not in (None, pid)
            assert await remembers(b)
            for house in (a, c):
                await house.stop()
                _give(house, SECRET, NEW)
                await house.start()
            # The etcd of b would refuse this one if it did not know the new authority.
            await a.stop()
            _give(a, NEW, SECRET)
            await a.start()
            await keeps(b)
            await until(lambda: remembers(a), "a to have heard of it")
            assert await ids(a) == before

    asyncio.run(story())


def an_etcd_that_outlived_its_tocsin_goes_on_and_shows_the_new_certificate_when_only_the_order_changed(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            houses = town.build("abc")
            for house in houses:
                _give(house, SECRET, NEW)
            await asyncio.gather(*(house.start() for house in houses))
            _, b, _ = houses
            pid, (old, new) = b.pid(), _credentials(b).fingerprints
            assert old in await _issuer(b)
            await b.leave_etcd_alone()
            _give(b, NEW, SECRET)
            await b.start()
            assert b.pid() == pid
            assert new in await _issuer(b)
            await keeps(b)
            assert await remembers(b)

    asyncio.run(story())


def replicas_that_present_different_secrets_found_one_cluster(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            houses = town.build("abc")
            for house, secrets in zip(houses, [(SECRET, NEW), (NEW, SECRET), (NEW, SECRET)], strict=True):
                _give(house, *secrets)
            await asyncio.gather(*(house.start() for house in houses))
            assert set(await ids(houses[0])) == {"a", "b", "c"}
            assert len({house.member.condition().founding for house in houses if house.member}) == 1

    asyncio.run(story())


def an_empty_replica_joins_in_the_middle_of_a_change(tmp_path: Path) -> None:
    async def story() -> None:
        async with a_town(tmp_path) as town:
            houses = town.build("abc")
            for house in houses:
                _give(house, SECRET, NEW)
            await asyncio.gather(*(house.start() for house in houses))
            a, _, c = houses
            await keeps(a)
            await c.lose_disk()
            _give(c, NEW, SECRET)
            await c.start()
            await until(lambda: remembers(c), "c to have all of it")

    asyncio.run(story())
