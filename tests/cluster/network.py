"""Replicas in network namespaces, whose connections to each other can be cut, both ways or one.

A namespace of its own is the switch: the receivers are there too. What a cut takes away is the way to the other
replicas; the way to the receivers stays open, which is the harder case: a leader that is cut off could still call.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from typing import Literal

from tests.cluster.places import Place
from tests.needs import lacking

PEER_PORT, API_PORT = 8410, 8400
Direction = Literal["both", "in", "out"]


class Network:
    """A switch and a namespace for each replica. Addresses are those of 10.77/16, and exist only in here."""

    def __init__(self, names: str) -> None:
        self.mark = f"tocsin-{os.getpid()}"
        self.switch = f"{self.mark}-switch"
        self.switch_host = "10.77.0.254"
        self._names = names
        self.places = {
            name: Place(f"10.77.0.{number}", PEER_PORT, API_PORT, f"{self.mark}-{name}")
            for number, name in enumerate(names, 1)
        }

    def build(self) -> None:
        _ip("netns", "add", self.switch)
        self._in_switch("link", "set", "lo", "up")
        self._in_switch("link", "add", "bridge", "type", "bridge")
        self._in_switch("address", "add", f"{self.switch_host}/16", "dev", "bridge")
        self._in_switch("link", "set", "bridge", "up")
        for name, place in self.places.items():
            _ip("netns", "add", place.namespace)
            self._in_switch(
                "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", place.namespace
            )
            self._in_switch("link", "set", f"to-{name}", "master", "bridge", "up")
            for words in (
                ("link", "set", "lo", "up"),
                ("address", "add", f"{place.host}/16", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
            ):
                _ip("-n", place.namespace, *words)

    def cut(self, name: str, direction: Direction = "both") -> None:
        """Packets between this replica and the others are dropped: all, those that come in, or those that go out."""
        others = ", ".join(place.host for other, place in self.places.items() if other != name)
        rules = ["add table inet cut"]
        for chain, hook, side, asked in (("to", "output", "daddr", "out"), ("from", "input", "saddr", "in")):
            if direction in ("both", asked):
                rules.append(f"add chain inet cut {chain} {{ type filter hook {hook} priority 0; }}")
                rules.append(f"add rule inet cut {chain} ip {side} {{ {others} }} drop")
        self._firewall(name, rules)

    def heal(self, name: str) -> None:
        self._firewall(name, ["add table inet cut", "delete table inet cut"])

    def close(self) -> None:
        """Every namespace that was made here goes, and with it its links and rules."""
        for namespace in (*(place.namespace for place in self.places.values()), self.switch):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)

    def _firewall(self, name: str, rules: list[str]) -> None:
        command = [*self.places[name].command, "nft", "-f", "-"]
        subprocess.run(command, input="\n".join(rules) + "\n", text=True, check=True, capture_output=True)

    def _in_switch(self, *words: str) -> None:
        _ip("-n", self.switch, *words)


@contextlib.contextmanager
def network(names: str) -> Iterator[Network]:
    built = Network(names)
    try:
        try:
            built.build()
            built.heal(names[0])
        except (subprocess.CalledProcessError, FileNotFoundError) as refused:
            lacking(f"network namespaces need root, 'ip' and 'nft': {refused}")
        yield built
    finally:
        built.close()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
