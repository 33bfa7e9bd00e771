"""Whose place a new connection takes, where all are taken."""

from __future__ import annotations

from tocsin.api.door.lobby import Entry, Lobby, Patience, Stage


class _Guest:
    """A connection, as far as the lobby asks."""

    def __init__(self, lobby: Lobby, peer: str, since: float, stage: Stage = Stage.WAITING) -> None:
        self.peer = peer
        self.since = since
        self.stage = stage
        self.is_gone = self.needs_token = False
        self._lobby = lobby

    def is_unread(self) -> bool:
        return False

    def is_slow(self) -> bool:
        return False

    def is_uninvited(self) -> bool:
        return self.stage is Stage.BODY and not self.needs_token

    def give_up(self) -> None:
        self.is_gone = True
        self._lobby.leave(self)

    def take_turn(self) -> bool:
        return False


def _full(*, trusted: tuple[str, ...] = ()) -> Lobby:
    return Lobby(Patience(connections_max=10, peer_connections_max=6, probes_max=2), trusted)


def _enter(lobby: Lobby, peer: str, number: int, stage: Stage = Stage.WAITING) -> list[_Guest]:
    guests = [_Guest(lobby, peer, float(each), stage) for each in range(number)]
    for guest in guests:
        lobby.enter(guest)
    return guests


def a_new_address_takes_the_place_of_one_of_the_address_with_the_most_connections() -> None:
    lobby = _full()
    few, many = _enter(lobby, "few", 4), _enter(lobby, "many", 6)
    assert lobby.enter(_Guest(lobby, "new", 99.0)) is Entry.FREE
    assert [guest.is_gone for guest in few] == [False] * 4
    assert [guest.is_gone for guest in many] == [True] + [False] * 5, "the eldest of them"


def an_address_with_many_connections_pushes_nobody_out_who_has_fewer() -> None:
    """A client whose request is on its way has none yet, as an idle one."""
    lobby = _full()
    (honest,) = _enter(lobby, "honest", 1)
    crowds = [_enter(lobby, f"crowd {n}", 3, Stage.BODY) for n in range(3)]
    for n in range(3):
        lobby.enter(_Guest(lobby, f"crowd {n}", 99.0, Stage.BODY))
    assert not honest.is_gone
    assert sum(guest.is_gone for crowd in crowds for guest in crowd) == 3, "they push out one another"


def bodies_that_need_no_token_make_room_and_others_do_not() -> None:
    lobby = _full()
    many = _enter(lobby, "many", 5, Stage.BODY) + _enter(lobby, "more", 5, Stage.BODY)
    for guest in many:
        guest.needs_token = True
    assert lobby.enter(_Guest(lobby, "new", 99.0)) is Entry.FOR_PROBES
    many[0].needs_token = False
    assert lobby.enter(_Guest(lobby, "new", 99.0)) is Entry.FREE
    assert many[0].is_gone


def what_comes_through_a_trusted_proxy_is_not_counted_as_one_client() -> None:
    lobby = _full(trusted=("proxy",))
    proxied = _enter(lobby, "proxy", 8)
    alone = _enter(lobby, "alone", 2)
    assert lobby.enter(_Guest(lobby, "new", 99.0)) is Entry.FREE
    assert not any(guest.is_gone for guest in proxied)
    assert alone[0].is_gone
