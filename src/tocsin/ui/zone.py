"""The reader's time zone.

Moments in a text are put into it by a script on the page. A chart is drawn here, with its days and hours; so the script
also keeps the zone's name in a cookie. Before it could, at the very first page, it is UTC.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from litestar import Request

COOKIE = "zone"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,40}(?:/[A-Za-z0-9][A-Za-z0-9_+-]{0,40}){0,2}")


def zone_of(request: Request[Any, Any, Any]) -> ZoneInfo:
    """What is no zone here, whoever sent it, is as good as none."""
    name = unquote(request.cookies.get(COOKIE, ""))
    try:
        return ZoneInfo(name if _NAME.fullmatch(name) else "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")
