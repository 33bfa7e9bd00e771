"""The cluster's secret is being changed: what the next step is, by what the replicas say of their secrets.

Each replica names the fingerprints of its secrets, first the one that it presents. Fingerprints do not tell which
of two secrets is the newer one. Where the step depends on that, both possibilities are named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Known = Mapping[str, Sequence[str]]
"""The fingerprints of each replica that answers, by its name."""


def next_step(known: Mapping[str, Sequence[str] | None]) -> str:
    """In one sentence; empty: the secret is not being changed. None instead of fingerprints: no answer."""
    secrets = {name: found for name, found in sorted(known.items()) if found}
    everything = list(dict.fromkeys(each for found in secrets.values() for each in found))
    if len(everything) < 2:
        return ""
    silent = sorted(name for name, found in known.items() if found is None)
    if silent:
        return (
            f"the secret is being changed, and {_who(silent, 'does', 'do')} not answer: start "
            f"{'it' if len(silent) == 1 else 'them'} with the same file as the others before the next step"
        )
    presented = list(dict.fromkeys(found[0] for found in secrets.values()))
    for secret in presented:
        if strangers := _lacking(secrets, secret):
            return (
                f"{_presenting(secrets, secret)}, and {_who(strangers, 'does', 'do')} not trust it: add it there "
                "as the last line, and restart"
            )
    if len(presented) > 1:
        told = " and ".join(_presenting(secrets, secret) for secret in presented)
        return f"{told}: put the new secret first on all replicas, and remove none before"
    return _when_all_present(presented[0], secrets, everything)


def _when_all_present(presented: str, secrets: Known, everything: Sequence[str]) -> str:
    for other in everything:
        if lacking := _lacking(secrets, other):
            having = [name for name in secrets if name not in lacking]
            return (
                f"all replicas present {presented}, and only {_who(having, 'trusts', 'trust')} {other}: if that is "
                f"the new secret, add it to {', '.join(lacking)} before it is put first anywhere; if it is the old "
                f"one, remove it from {', '.join(having)}"
            )
    others = ", ".join(each for each in everything if each != presented)
    return (
        f"all replicas present {presented} and trust {others} too: if that is the new secret, put it first on one "
        "replica after the other; if it is the old one, remove it from one after the other"
    )


def _presenting(secrets: Known, secret: str) -> str:
    names = [name for name, found in secrets.items() if found[0] == secret]
    return f"{_who(names, 'presents', 'present')} {secret}"


def _lacking(secrets: Known, secret: str) -> list[str]:
    return [name for name, found in secrets.items() if secret not in found]


def _who(names: Sequence[str], one: str, several: str) -> str:
    return f"{', '.join(names)} {one if len(names) == 1 else several}"
