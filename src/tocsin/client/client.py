"""The client, put together from its parts: one coroutine a thing that the API can do."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from tocsin.client.cluster import Clusters
from tocsin.client.launches import Launches
from tocsin.client.records import Records
from tocsin.client.schedules import Schedules
from tocsin.client.transfer import Transfers
from tocsin.client.trust import exposed, tls_of, token_of
from tocsin.client.wire import TIMEOUT_S, Wire, addresses


class Client(Schedules, Launches, Records, Transfers, Clusters):
    """Talks to a Tocsin service::

        async with Client() as client:
            async for schedule in client.schedules(prefix="billing/"):
                print(schedule.id, schedule.next)

    Without an address it takes ``TOCSIN_URL``, else http://127.0.0.1:8400. With those of several replicas, separated by
    commas, it goes on with the next one when one fails (see ``again`` for what is repeated). ``token`` is what it shows
    to be let in (else ``TOCSIN_TOKEN``), ``ca`` the file of the certificates it trusts (else ``TOCSIN_CA``, else the
    system's).
    It raises ``tocsin.errors``.
    """

    def __init__(
        self,
        urls: str | Iterable[str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        token: str | None = None,
        ca: str | None = None,
        any_name: bool = False,
    ) -> None:
        self.urls = addresses(urls)
        shown = token_of(token)
        tls = tls_of(self.urls, ca, any_name=any_name)
        self.exposed = exposed(self.urls) if shown else ""
        """The address to which the token goes unencrypted through a network, if there is one."""
        self._wire = Wire(self.urls, timeout_s, token=shown, tls=tls)

    async def __aenter__(self) -> Self:
        await self._wire.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.close()
