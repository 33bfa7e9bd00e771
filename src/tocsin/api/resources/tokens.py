"""Tokens: list, make, revoke; and who one is oneself."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import msgspec
from litestar import Request, delete, get, post
from litestar.params import FromPath

from tocsin.api import bodies
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks, is_admin, new_token
from tocsin.api.service import Given
from tocsin.cron import parse_duration
from tocsin.errors import NotFound, Refused
from tocsin.model.command import CreateToken, RevokeToken
from tocsin.model.request import TokenRequest
from tocsin.model.token import CallerView, NewTokenView, TokenList, check_token
from tocsin.state import tokens


@get(
    "/v1/tokens",
    operation_id="listTokens",
    opt=about("tokens", "List the tokens", answers={200: ("All tokens.", TokenList)}),
)
async def list_tokens(service: Given) -> TokenList:
    """All tokens, in the order of their names, with their last use to the minute or so. Never a secret."""
    now_ms = service.now_ms()
    return TokenList(await service.replica.read(lambda db: tokens.shown(db, now_ms)))


@post(
    "/v1/tokens",
    operation_id="createToken",
    status_code=201,
    opt=about(
        "tokens",
        "Make a token",
        body=TokenRequest,
        example={"name": "ci", "scopes": ["write"], "prefixes": ["billing/"], "expires_in": "30d"},
        answers={201: ("The token, told this once.", NewTokenView)},
        refusals={409: "There is a token of that name."},
    ),
)
async def create_token(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> NewTokenView:
    """A new token. Its text is in the answer and nowhere else: only a hash of it is kept."""
    wish = await bodies.taken(request, bodies.json_of, TokenRequest)
    check_token(wish.name, wish.scopes, wish.prefixes, wish.targets)
    expires_ms = None
    if wish.expires_in is not None:
        expires_ms = service.now_ms() + parse_duration(wish.expires_in, field="expires_in") * 1000
    scopes, targets = tuple(dict.fromkeys(wish.scopes)), tuple(dict.fromkeys(wish.targets))
    token, text = new_token(wish.name, scopes, tuple(wish.prefixes), expires_ms, targets)
    await service.propose(caller, CreateToken(token))
    now_ms = service.now_ms()
    for view in await service.replica.read(lambda db: tokens.shown(db, now_ms)):
        if view.id == token.id:
            return NewTokenView(**msgspec.structs.asdict(view), token=text)
    raise NotFound(f"the token {wish.name!r} was revoked in this very moment")


@delete(
    "/v1/tokens/{token:str}",
    operation_id="revokeToken",
    opt=about(
        "tokens",
        "Revoke a token",
        answers={204: ("It is not valid any more.",)},
        refusals={404: "There is no such token or session.", 409: "It is the last that can make others."},
    ),
)
async def revoke_token(service: Given, caller: WhoAsks, token: FromPath[str]) -> None:
    """By id or name, or a session of the console by its id. It is not valid any more when this returns, nor are the
    sessions that it opened. Where tokens are needed the last one that can make
    others is not revoked: nobody could get in."""
    given = unquote(token)
    if service.doorkeeper.tokens_needed:
        held = await service.replica.read(tokens.held)
        admins = [each for each in held.values() if is_admin(each, service.now_ms())]
        if len(admins) == 1 and given in (admins[0].id, admins[0].name):
            raise Refused(
                f"{given!r} is the last admin token, and without one nobody could make another",
                hint="create another admin token first",
            )
    await service.propose(caller, RevokeToken(given))


@get(
    "/v1/whoami",
    operation_id="whoAmI",
    opt=about("tokens", "Who am I?", answers={200: ("The caller, as the service knows them.", CallerView)}),
)
async def who_am_i(caller: WhoAsks) -> CallerView:
    """The name under which acts are recorded, and how far it reaches."""
    return CallerView(
        name=caller.name,
        token=caller.token,
        scopes=sorted(caller.scopes),
        prefixes=list(caller.prefixes),
        targets=list(caller.targets),
    )


HANDLERS = (list_tokens, create_token, revoke_token, who_am_i)
