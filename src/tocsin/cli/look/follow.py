"""What a launch prints, while it prints it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tocsin.cli.look.output import write_output
from tocsin.cli.printing import say
from tocsin.errors import NotFound, Unreachable

if TYPE_CHECKING:
    from tocsin.client import Client
    from tocsin.model.answer import LaunchDetail

LOOK_EVERY_S = 0.3
PATIENCE_S = 30.0
"""A service that is being restarted is waited for: the command goes on running meanwhile."""
_OPEN = ("started", "running", "retrying", "queued")


class Follower:
    """Reads one launch again and again, and prints what is new. What we have to say goes to stderr."""

    def __init__(self, client: Client, name: str, attempt: int | None, *, raw: bool) -> None:
        self._client = client
        self._is_raw = raw
        self._name = name
        self._only = attempt
        self._attempt = attempt or 1
        self._position = 0
        self._is_over = False
        self._told = ""

    async def follow(self) -> LaunchDetail:
        """Until the launch has ended, or the one attempt that was asked for."""
        loop = asyncio.get_running_loop()
        heard_s = 0.0
        while True:
            try:
                view = await self._client.launch(self._name)
                await self._catch_up(view)
                heard_s = loop.time()
            except Unreachable:
                if loop.time() - heard_s > PATIENCE_S:
                    raise
            else:
                if view.state not in _OPEN or (self._only is not None and self._is_over):
                    return view
            await asyncio.sleep(LOOK_EVERY_S)

    async def _catch_up(self, view: LaunchDetail) -> None:
        """The rest of attempts that have ended, then what there is of the present one."""
        await self._print_new()
        while self._only is None and self._attempt < view.attempt:
            self._attempt, self._position = self._attempt + 1, 0
            say(f"[attempt {self._attempt}]")
            await self._print_new()

    async def _print_new(self) -> None:
        try:
            found = await self._client.output(self._name, attempt=self._attempt, after=self._position)
        except NotFound as none_yet:
            if none_yet.hint.startswith("a target") and self._told != none_yet.hint:
                self._told = none_yet.hint
                say(f"[{none_yet.hint}]")
            return
        write_output(found, raw=self._is_raw)
        self._position, self._is_over = found.position, found.complete
