"""The replicas: who leads, how far each of them is, and who belongs to them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from litestar import Request, get, post

from tocsin.api import bodies
from tocsin.api.around import Around, Membership
from tocsin.api.description.about import about
from tocsin.api.door.access import WhoAsks
from tocsin.api.resources import replicas
from tocsin.api.service import Given, Service
from tocsin.errors import InvalidInput, NoLeader, Refused
from tocsin.member.address import parse_member
from tocsin.model.cluster import ClusterView, Member
from tocsin.model.request import AddReplicaRequest, RemoveReplicaRequest

SUCCESSION_S = 3.0


@get(
    "/v1/cluster",
    operation_id="getCluster",
    opt=about(
        "cluster", "Look at the replicas", answers={200: ("As the one that answers sees them.", ClusterView)}
    ),
)
async def get_cluster(service: Given) -> ClusterView:
    """Any replica answers, also where nobody leads. On one machine there is one replica."""
    return await _seen(service)


@post(
    "/v1/cluster:step-down",
    operation_id="stepDown",
    status_code=200,
    opt=about(
        "cluster",
        "Have the leader step down",
        body=bodies.NoBody,
        body_is_optional=True,
        answers={200: ("The cluster, in most cases with another leader.", ClusterView)},
        refusals={409: "There is no other replica that could lead."},
    ),
)
async def step_down(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> ClusterView:
    """The leader resigns, and another replica takes office within a second. Nothing is lost by it, and what runs goes
    on running: for maintenance of a machine."""
    await bodies.taken(request, bodies.optional, bodies.NoBody)
    seen = await _seen(service)
    if not any(view.role == "follower" for view in seen.replicas):
        raise Refused("there is no other replica that could lead", hint="'tocsin cluster' shows all")
    if not seen.leader:
        raise NoLeader("nobody is in office", hint="try again in a moment")
    await service.confirm(caller)
    await service.replica.step_down()
    await _succeeded(service, seen.term)
    return await _seen(service)


@post(
    "/v1/cluster:add",
    operation_id="addReplica",
    status_code=200,
    opt=about(
        "cluster",
        "Add a replica",
        body=AddReplicaRequest,
        example={"name": "d", "peer": "10.0.0.4:8410"},
        answers={200: ("The cluster, with it.", ClusterView)},
        refusals={
            409: "There is a replica of that name, or no cluster, or too few replicas are up to change it."
        },
    ),
)
async def add_replica(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> ClusterView:
    """From now on a replica of that name may join, with an empty disk: start it with `--name`, the cluster's secret and
    a `--cluster` that names all of them."""
    wish = await bodies.taken(request, bodies.json_of, AddReplicaRequest)
    wanted = _checked(wish)
    membership = _membership(service)
    if any(member.name == wish.name for member in service.around.members()):
        raise Refused(
            f"there is a replica {wish.name!r} already", hint="remove it first, or choose another name"
        )
    await service.confirm(caller)
    await membership.add(wanted)
    return await _changed(service)


@post(
    "/v1/cluster:remove",
    operation_id="removeReplica",
    status_code=200,
    opt=about(
        "cluster",
        "Remove a replica",
        body=RemoveReplicaRequest,
        example={"name": "d"},
        answers={200: ("The cluster, without it.", ClusterView)},
        refusals={
            409: "It leads, it is the last one, or there is no cluster, or too few replicas are up to change it."
        },
    ),
)
async def remove_replica(request: Request[Any, Any, Any], service: Given, caller: WhoAsks) -> ClusterView:
    """It is no replica any more: it has no vote, and cannot come back under its old data."""
    wish = await bodies.taken(request, bodies.json_of, RemoveReplicaRequest)
    membership = _membership(service)
    names = [member.name for member in service.around.members()]
    if wish.name not in names:
        raise InvalidInput(
            f"there is no replica {wish.name!r}", field="name", value=wish.name, allowed=", ".join(names)
        )
    if len(names) == 1:
        raise Refused(f"{wish.name!r} is the last replica", hint="add another one first")
    if wish.name == service.replica.status().leader:
        raise Refused(f"{wish.name!r} leads", hint="have it step down first: tocsin cluster step-down")
    await service.confirm(caller)
    await membership.remove(wish.name)
    return await _changed(service)


HANDLERS = (get_cluster, step_down, add_replica, remove_replica)


def _checked(wish: AddReplicaRequest) -> Member:
    try:
        return parse_member(f"{wish.name}={wish.peer}")
    except InvalidInput as wrong:
        raise InvalidInput(
            wrong.message, field="peer", value=wish.peer, allowed="HOST:PORT, or HOST for the usual port"
        ) from None


def _membership(service: Service) -> Membership:
    membership = service.around.membership
    if membership is None:
        raise Refused(
            "there is no cluster here: this replica is alone, and its journal is not kept by a cluster",
            hint="several replicas are started with: tocsin serve --cluster a=HOST:PORT,b=HOST:PORT,c=HOST:PORT",
        )
    return membership


async def _succeeded(service: Service, term: int) -> None:
    """Wait until somebody has taken office after that term, but not for long."""
    replica = service.replica
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SUCCESSION_S):
            while replica.meta.term <= term and not replica.applied.is_over:
                await replica.applied.wait_beyond(replica.meta.seq)


async def _changed(service: Service) -> ClusterView:
    if service.around.look_again is not None:
        await service.around.look_again()
    return await _seen(service)


async def _seen(service: Service) -> ClusterView:
    around: Around = service.around
    before_ms = service.replica.clock.system_ms()
    statuses = await around.peers.statuses()
    asked = replicas.Asked(before_ms, service.replica.clock.system_ms())
    joined = service.replica.parts.rounds.joined()
    return replicas.view(service.replica.status(), statuses, around.members(), asked, joined)
