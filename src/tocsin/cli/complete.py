"""What the Tab key finds: ids and names, asked of the service. Where it does not answer at once, nothing."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tocsin.client import Client

_PATIENCE_S = 1.0
_MOST = 200
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+/-]*")
"""Shells evaluate what they get here, so nothing else gets there, whatever the service says."""


def schedule_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids that begin so."""

    async def found(client: Client) -> list[str]:
        return [view.id for view in (await client.schedule_page(prefix=incomplete, limit=_MOST)).items]

    return _quietly(ctx, incomplete, found)


def launch_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the newest launches, those whose names begin so."""

    async def found(client: Client) -> list[str]:
        return [view.name for view in (await client.launch_page(limit=_MOST)).items]

    return _quietly(ctx, incomplete, found)


def names_in_doubt(ctx: typer.Context, incomplete: str) -> list[str]:
    """Launches that wait for somebody to say what became of them."""

    async def found(client: Client) -> list[str]:
        page = await client.launch_page(states=["in_doubt"], limit=_MOST)
        return [view.name for view in page.items]

    return _quietly(ctx, incomplete, found)


def _quietly(
    ctx: typer.Context, incomplete: str, question: Callable[[Client], Awaitable[list[str]]]
) -> list[str]:
    import asyncio

    from tocsin.errors import TocsinError

    async def whole() -> list[str]:
        from tocsin.client import Client

        async with asyncio.timeout(_PATIENCE_S), Client(ctx.params.get("url")) as client:
            return await question(client)

    try:
        found = asyncio.run(whole())
    except (TocsinError, TimeoutError, OSError):
        return []  # somebody is typing: an error is told when they press Enter
    return [each for each in found if each.startswith(incomplete) and _PLAIN.fullmatch(each)]
