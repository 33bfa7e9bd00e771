"""Sessions of the console: how long they last, who ends them, and that each replica and each start knows them."""

from __future__ import annotations

import asyncio
import http.client

import pytest
from tests.api.access_test import token
from tests.api.conftest import Answer, Service
from tests.api.logins import log_in, log_out

from tocsin.api.door.sessions import KEPT_HERE_S, Sessions, length_of
from tocsin.api.resources.streams import STREAMS_OF_ONE_MAX
from tocsin.clock import SystemClock
from tocsin.errors import Forbidden, InvalidInput, NoLeader, Unauthenticated, Uncertain
from tocsin.model.command import OpenSession, RevokeToken
from tocsin.model.rights import caller_of, check_right
from tocsin.model.token import Session, Token, is_right, session_parts_of
from tocsin.state.apply.tokens import SESSIONS_MAX


def _ask(service: Service, kept: str, method: str = "GET", path: str = "/v1/whoami") -> Answer:
    headers = {"Cookie": f"tocsin={kept}", "Origin": service.url}
    return service.as_("").ask(method, path, headers=headers)


def _token(service: Service, name: str) -> dict:
    (found,) = (each for each in service.ask("GET", "/v1/tokens").json["items"] if each["name"] == name)
    return found


def a_login_opens_a_session_of_its_own_and_the_browser_never_keeps_the_token(guarded):
    reads = token(guarded, "reader", "read")
    first, second = log_in(guarded, reads), log_in(guarded, reads)
    assert first != second
    assert reads.rpartition("_")[2] not in first
    assert _ask(guarded, first).json["name"] == "reader"
    sessions = _token(guarded, "reader")["sessions"]
    assert [each["address"] for each in sessions] == ["127.0.0.1"] * 2
    assert first.split("_")[1] in {each["id"] for each in sessions}
    assert first.split("_")[2] not in str(sessions)


def whoever_logs_out_ends_that_session_and_no_other(guarded):
    reads = token(guarded, "leaver", "read")
    left, stays = log_in(guarded, reads), log_in(guarded, reads)
    log_out(guarded, left)
    assert _ask(guarded, left).status == 401
    assert _ask(guarded, stays).status == 200
    assert guarded.as_(reads).ask("GET", "/v1/whoami").status == 200
    log_out(guarded, left)  # once more: nothing is left to end
    wrong = stays[:-4] + "AAAA"
    log_out(guarded, wrong)
    assert _ask(guarded, stays).status == 200, "whoever knows only the id of a session cannot end it"


def a_revoked_token_takes_its_sessions_with_it(guarded):
    kept = log_in(guarded, token(guarded, "revoked", "read"))
    other = log_in(guarded, token(guarded, "not-revoked", "read"))
    assert guarded.ask("DELETE", "/v1/tokens/revoked").status == 204
    assert _ask(guarded, kept).status == 401
    assert _ask(guarded, other).status == 200


def an_admin_ends_one_session_by_its_id(guarded):
    reads = token(guarded, "lost-laptop", "read")
    lost, stays = log_in(guarded, reads), log_in(guarded, reads)
    assert guarded.ask("DELETE", f"/v1/tokens/{lost.split('_')[1]}").status == 204
    assert _ask(guarded, lost).status == 401
    assert _ask(guarded, stays).status == 200
    acts = [each["act"] for each in guarded.ask("GET", "/v1/history?limit=50").json["items"]]
    assert "session opened" in acts
    limited = token(guarded, "limited", "read", prefixes=("lost-laptop",))
    seen = guarded.as_(limited).ask("GET", "/v1/history").json["items"]
    assert not [each for each in seen if each["act"].startswith(("session", "token"))]
    assert "session closed" in acts


def a_session_is_not_a_token_and_a_token_is_not_a_session(guarded):
    reads = token(guarded, "two-kinds", "admin")
    kept = log_in(guarded, reads)
    assert guarded.as_(kept).ask("GET", "/v1/whoami").status == 401
    assert _ask(guarded, reads).status == 401
    # Nor does it count as the admin token that must be left.
    assert guarded.ask("DELETE", "/v1/tokens/two-kinds").status == 204


def a_session_may_do_what_its_token_may_and_no_more(guarded):
    kept = log_in(guarded, token(guarded, "only-reads", "read", prefixes=("a/",)))
    told = _ask(guarded, kept).json
    assert (told["scopes"], told["prefixes"]) == (["read"], ["a/"])
    assert _ask(guarded, kept, "POST", "/v1/schedules/a/x:run").status == 403
    assert _ask(guarded, kept, path="/v1/schedules/b/x").status == 403


def whoever_logs_in_again_and_again_ends_their_oldest_sessions(guarded):
    reads = token(guarded, "again", "read")
    opened = [log_in(guarded, reads) for _ in range(SESSIONS_MAX + 2)]
    assert len(_token(guarded, "again")["sessions"]) == SESSIONS_MAX
    assert [_ask(guarded, kept).status for kept in opened[:2]] == [401, 401]
    assert _ask(guarded, opened[-1]).status == 200


def sessions_share_the_limits_of_their_token(guarded):
    reads = token(guarded, "counted", "read")
    kept = [log_in(guarded, reads) for _ in range(2)]
    streams = []
    for number in range(STREAMS_OF_ONE_MAX + 1):
        connection = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=20)
        connection.request("GET", "/v1/events", headers={"Cookie": f"tocsin={kept[number % 2]}"})
        streams.append((connection, connection.getresponse().status))
    assert [status for _, status in streams] == [200] * STREAMS_OF_ONE_MAX + [503]
    for connection, _ in streams:
        connection.close()


def a_session_outlives_the_process_and_ends_with_its_length(tmp_path, start):
    options = ("--tokens", "always", "--session-length", "1m")
    service = start(tmp_path / "data", *options)
    service.token = (service.data / "admin.token").read_text().strip()
    kept = log_in(service, service.token)
    (session,) = _token(service, "admin")["sessions"]
    assert session["expires_at"][:16] != session["opened_at"][:16]
    service.stop()
    again = start(tmp_path / "data", *options)
    assert _ask(again, kept).status == 200


@pytest.mark.parametrize("text", ["59s", "31d", "soon", ""])
def a_length_that_makes_no_sense_is_refused(text):
    with pytest.raises(InvalidInput) as refused:
        length_of(text)
    assert refused.value.field == "session_length"


def a_session_can_be_opened_only_by_the_token_that_it_is_for():
    mine = Token("0123456789ab", "me", b"", ("read",))
    session = Session("0" * 16, "ba9876543210", b"", 10_000)
    with pytest.raises(Forbidden):
        check_right(OpenSession(session), mine, 5_000)
    check_right(OpenSession(Session("0" * 16, mine.id, b"", 10_000)), mine, 5_000)


class _Leaderless:
    """A replica that nobody leads, as far as sessions see it."""

    def __init__(self, error: Exception) -> None:
        self.clock = SystemClock()
        self.error = error

    async def propose(self, command: object) -> None:
        raise self.error


READER = Token("0123456789ab", "reader", b"", ("read",))


@pytest.mark.parametrize("error", [NoLeader("nobody leads"), Uncertain("it may have been done")])
def a_login_in_an_outage_is_known_to_this_replica_alone_and_for_minutes(error):
    sessions = Sessions(_Leaderless(error), 43_200)  # type: ignore[arg-type]  # why: all that it asks of a replica
    opened = asyncio.run(sessions.open(caller_of(READER), "192.0.2.7"))
    id, secret = session_parts_of(opened.text)
    assert opened.length_s == KEPT_HERE_S
    found = sessions.kept_here(id, {READER.id: READER})
    now_ms = SystemClock().wall_ms()
    assert is_right(secret, found, now_ms)
    assert not is_right(secret, found, now_ms + KEPT_HERE_S * 1000 + 1_000)
    assert (found.name, found.scopes) == ("reader", ("read",))
    assert sessions.kept_here(id, {}) is None, "it ends with its token"
    asyncio.run(sessions.close(found))
    assert sessions.kept_here(id, {READER.id: READER}) is None


def in_an_outage_nobody_ends_the_sessions_of_others_by_logging_in_again_and_again():
    sessions = Sessions(_Leaderless(NoLeader("nobody leads")), 43_200)  # type: ignore[arg-type]  # why: the same
    other = Token("ba9876543210", "other", b"", ("read",))

    async def work() -> list[str]:
        opened = [await sessions.open(caller_of(READER), "192.0.2.7")]
        opened += [await sessions.open(caller_of(other), "192.0.2.8") for _ in range(130)]
        return [session_parts_of(each.text)[0] for each in opened]

    ids = asyncio.run(work())
    held = {READER.id: READER, other.id: other}
    assert [id for id in ids if sessions.kept_here(id, held)] == [ids[0], *ids[-SESSIONS_MAX:]]


def a_refused_login_opens_no_session():
    sessions = Sessions(_Leaderless(Unauthenticated("revoked")), 43_200)  # type: ignore[arg-type]  # why: all that it asks of a replica
    with pytest.raises(Unauthenticated):
        asyncio.run(sessions.open(caller_of(READER), "192.0.2.7"))


class _Slow:
    """A replica whose journal answers when the test lets it."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.may_answer = asyncio.Event()
        self.asked: list[object] = []

    async def propose(self, command: object) -> None:
        self.asked.append(command)
        await self.may_answer.wait()


def a_login_that_is_recorded_late_ends_with_its_logout(monkeypatch):
    monkeypatch.setattr("tocsin.api.door.sessions.RECORDED_WITHIN_S", 0.01)

    async def whole() -> None:
        replica = _Slow()
        sessions = Sessions(replica, 43_200)  # type: ignore[arg-type]  # why: all that it asks of a replica
        id, _ = session_parts_of((await sessions.open(caller_of(READER), "192.0.2.7")).text)
        kept = sessions.kept_here(id, {READER.id: READER})
        assert kept is not None
        replica.may_answer.set()
        while sessions.is_here_only(id):  # noqa: ASYNC110  # why: a callback of the loop, a turn later
            await asyncio.sleep(0)
        assert sessions.kept_here(id, {READER.id: READER}) is None, "whoever revokes it ends it"
        await sessions.close(kept)
        assert replica.asked[-1] == RevokeToken(id, actor="reader")

    asyncio.run(whole())
