"""What went wrong at the place of the backups, as a sentence with a remedy.

Every file system raises errors of its own, and which libraries there are is not known here: they are told apart by the
names of their classes. A reason may hold what it was given, so secrets are taken out of it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

from tocsin.backup.patience import GivenUp
from tocsin.backup.place import Place
from tocsin.errors import BackupError, BackupUnavailable, TocsinError

_REASON_LENGTH_MAX = 300
_NO_BUCKET = {"NoSuchBucket", "NoSuchContainer", "ContainerNotFound"}
_NO_CREDENTIALS = {
    "NoCredentialsError",
    "PartialCredentialsError",
    "DefaultCredentialsError",
    "ProfileNotFound",
}
_REFUSED = {"PermissionError", "AuthenticationException", "ClientAuthenticationError", "AuthenticationFailed"}
_UNREACHABLE = {
    "ConnectionError",
    "TimeoutError",
    "FSTimeoutError",
    "gaierror",
    "ClientConnectorError",
    "ClientConnectionError",
    "EndpointConnectionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "HTTPClientError",
    "ServiceRequestError",
    "SSHException",
}


def explained(wrong: BaseException, place: Place) -> TocsinError:
    """The error to raise in its place."""
    if isinstance(wrong, TocsinError):
        return wrong
    if isinstance(wrong, GivenUp):
        return BackupUnavailable(
            f"{place} does not answer",
            hint="is it reachable from here, and is the mount or the service well?",
        )
    kinds, reason = _kinds(wrong), _reason(wrong, place)
    if kinds & _NO_CREDENTIALS:
        return BackupError(f"no credentials for {place}: {reason}", hint=_how_to_get_in(place))
    if kinds & _NO_BUCKET:
        return BackupError(
            f"{place}: there is no such bucket",
            hint="create it, or correct the URL; buckets are never made here",
        )
    if kinds & _REFUSED:
        return BackupError(f"{place} does not let us in: {reason}", hint=_how_to_get_in(place))
    if kinds & _UNREACHABLE:
        return BackupUnavailable(
            f"{place} cannot be reached: {reason}", hint="is the address right, is it up?"
        )
    if getattr(wrong, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return BackupError(f"{place} is full: {reason}", hint="make room, or keep fewer backups")
    if isinstance(wrong, NotImplementedError):
        return BackupError(
            f"{place} cannot be used for backups: {reason}", hint="use a place that can be written to"
        )
    if isinstance(wrong, TypeError):
        return BackupError(f"{place}: an option of the URL is not known: {reason}", hint="see docs/backup.md")
    return BackupError(
        f"{place} did not do it: {reason}", hint="see what the service of that place says about it"
    )


def is_missing_bucket(wrong: BaseException) -> bool:
    return bool(_kinds(wrong) & _NO_BUCKET)


def _how_to_get_in(place: Place) -> str:
    if place.is_folder:
        return "the service's user must be able to write there"
    if place.scheme in ("s3", "s3a"):
        return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of a user who may list, read, write and delete there"
    return "check the credentials, and what they are allowed to do there"


def _chain(wrong: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while wrong is not None and id(wrong) not in seen:
        seen.add(id(wrong))
        yield wrong
        wrong = wrong.__cause__ or wrong.__context__


def _kinds(wrong: BaseException) -> set[str]:
    """The names of what it is, and of what it came from."""
    return {kind.__name__ for each in _chain(wrong) for kind in type(each).__mro__}


def _reason(wrong: BaseException, place: Place) -> str:
    text = str(wrong) or type(wrong).__name__
    text = re.sub(r"\?[^\s\"']*", "", text)  # a query holds signatures, and tells a person nothing
    text = place.without_secrets(" ".join(text.split()))
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= _REASON_LENGTH_MAX else f"{clean[:_REASON_LENGTH_MAX]}..."
