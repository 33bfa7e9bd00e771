"""Where backups are: a folder, or a URL that ``fsspec`` knows.

``s3://bucket/folder?endpoint_url=https://s3.example.org&client_kwargs.region_name=eu-1``: what stands behind the ``?``
are options of the file system, as its documentation names them; a dot goes one level down. Credentials are better off
in the environment, where the file system's own library looks for them (``AWS_ACCESS_KEY_ID``, ...).
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from tocsin.errors import InvalidInput, cuts_a_password, shown_url

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_FOLDERS = ("file", "local")
_PACKAGES = {
    "s3": "tocsin[s3]",
    "s3a": "tocsin[s3]",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "az": "adlfs",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "hdfs": "pyarrow",
    "webhdfs": "requests",
    "smb": "smbprotocol",
    "oci": "ocifs",
    "oss": "ossfs",
}
_ALLOWED = (
    "a folder, s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, sftp://HOST/FOLDER or another URL that fsspec knows"
)
_SECRET_LENGTH_MIN = 4
_CONNECT_S, _READ_S, _TRIES = 10, 60, 2


class Place:
    """A URL, taken apart. Nothing is loaded and nobody is asked before ``files`` is."""

    def __init__(self, url: str, field: str = "backup") -> None:
        self._field = field
        scheme, found, rest = url.partition("://")
        if not url.strip() or "::" in url:
            shown = shown_url(url)
            raise InvalidInput(f"{shown!r} is not a place", field=field, value=shown, allowed=_ALLOWED)
        self.is_folder = not found or scheme in _FOLDERS
        self.scheme = "file" if self.is_folder else scheme.lower()
        if self.is_folder:
            self._plain = str(Path(os.path.expanduser(rest if found else url)).absolute())
            self._given: dict[str, str] = {}
        else:
            plain, _, query = url.partition("?")
            if cuts_a_password(rest.partition("?")[0], query):
                raise InvalidInput(
                    "the password holds a ?, behind which the options begin",
                    field=field,
                    value=shown_url(url),
                    hint="write %3F for it",
                )
            if not rest.partition("?")[0].strip("/"):
                raise InvalidInput(
                    f"{plain} names no bucket or folder", field=field, value=plain, allowed=_ALLOWED
                )
            self._plain = plain.rstrip("/")
            self._given = dict(parse_qsl(query, keep_blank_values=True))

    def __str__(self) -> str:
        """Without anything that is nobody else's business."""
        return self._plain if self.is_folder else shown_url(self._plain)

    def without_secrets(self, text: str) -> str:
        password = "" if self.is_folder else _password(self._plain)
        secrets = [*self._given.values(), password, unquote(password)]
        # An endpoint is an option too, and no secret.
        for secret in secrets:
            if len(secret) >= _SECRET_LENGTH_MIN and "://" not in secret:
                text = text.replace(secret, "***")
        return text

    @cached_property
    def files(self) -> AbstractFileSystem:
        """The file system. Opening it asks nobody yet."""
        import fsspec
        from fsspec.core import url_to_fs

        try:
            fsspec.get_filesystem_class(self.scheme)
        except ValueError:
            raise InvalidInput(
                f"{self.scheme!r} is not a kind of file system that fsspec knows",
                field=self._field,
                value=str(self),
                allowed=_ALLOWED,
            ) from None
        except ImportError as wrong:
            package = _PACKAGES.get(self.scheme)
            raise InvalidInput(
                f"a package is missing for {self.scheme}://",
                field=self._field,
                value=str(self),
                hint=f"pip install '{package}'" if package else " ".join(str(wrong).split()),
            ) from None
        files, self._base = url_to_fs(self._plain, skip_instance_cache=True, **self._options())
        return files

    @property
    def base(self) -> str:
        """The path below which everything is, as the file system writes it."""
        files = self.files
        return str(self._base.rstrip(files.sep) or files.sep)

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"use_listings_cache": False}
        if self.scheme in ("s3", "s3a"):
            # Without these it waits for minutes where nobody answers.
            options["config_kwargs"] = {
                "connect_timeout": _CONNECT_S,
                "read_timeout": _READ_S,
                "retries": {"max_attempts": _TRIES},
            }
        for name, text in self._given.items():
            *path, last = name.split(".")
            at = options
            for part in path:
                at = at.setdefault(part, {})
                if not isinstance(at, dict):
                    raise InvalidInput(
                        f"{name!r} cannot be below {part!r}",
                        field=self._field,
                        value=str(self),
                        allowed=_ALLOWED,
                    )
            at[last] = _value(text)
        return options


def _value(text: str) -> str | int | bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    # A key may consist of digits and begin with a zero: such a text is no number.
    return int(text) if text.isdecimal() and str(int(text)) == text and len(text) <= 6 else text


def _password(url: str) -> str:
    login, _, _ = url.partition("://")[2].rpartition("@")
    return login.partition(":")[2]
