"""The page at /docs: complete, without a script, without the network, and its examples work."""

from __future__ import annotations

import html
import re
import shlex
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import pytest

from tocsin.api.description.reference import render

VOID = {"meta", "br", "link", "img", "hr", "input"}
STREAMS = {"events"}  # they do not end by themselves
NOT_HERE = {"stepDown", "addReplica", "removeReplica", "makeBackup", "confirmClock"}
"""This service is alone, without backups, and its clock is right."""


class _Reader(HTMLParser):
    """Notes ids, links and tags, and that every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def page(service: Any) -> str:
    answer = service.ask("GET", "/docs")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    return str(answer.body.decode())


def it_shows_every_operation_and_every_shape(service, page):
    described = service.ask("GET", "/openapi.json").json
    ids = _read(page).ids
    assert len(ids) == len(set(ids))
    for item in described["paths"].values():
        for operation in item.values():
            assert operation["operationId"] in ids
    for name in described["components"]["schemas"]:
        assert f"shape-{name}" in ids


def it_needs_no_script_and_nobody_else(service, page):
    found = _read(page)
    assert not found.tags & {"script", "iframe", "img", "link", "form", "object"}
    assert not {name for name in found.attributes if name.startswith("on") or name == "style"}
    for link in found.links:
        assert link.startswith("#")
        assert link[1:] in found.ids
    policy = service.ask("GET", "/docs").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def its_examples_are_what_the_service_takes(service, page):
    """Each is sent as it stands. The example schedule is made first, so that the others find it."""
    blocks = re.findall(r'<article id="(\w+)">.*?<pre><code>(.*?)</code></pre>', page, re.S)
    assert len(blocks) > 20
    order = {"putSchedule": 0, "deleteSchedule": 9, "revokeToken": 8}
    for name, text in sorted(blocks, key=lambda block: order.get(block[0], 5)):
        if name not in STREAMS:
            answer = _sent(service, html.unescape(text))
            is_about_a_launch = "aunch" in name or name == "getOutput"
            allowed = (404,) if is_about_a_launch and answer.status == 404 else (200, 201, 202, 204)
            allowed = (409,) if name in NOT_HERE else allowed
            assert answer.status in allowed, (name, text, answer)


def _sent(service: Any, command: str) -> Any:
    words = shlex.split(command.replace("\\\n", " "))
    assert words.pop(0) == "curl"
    method, headers, body, url = "GET", {}, None, ""
    while words:
        match words.pop(0):
            case "-X":
                method = words.pop(0)
            case "-H":
                key, _, value = words.pop(0).partition(": ")
                headers[key] = value
            case "-d":
                body = words.pop(0).encode()
            case other:
                url = other
    assert url.startswith(service.url)
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return service.ask(method, path, body, headers, raw=True)


def what_the_description_says_is_shown_and_not_obeyed():
    evil = '<script>alert(1)</script>"onload=x'
    operation = {
        "operationId": "evil",
        "tags": [evil],
        "summary": evil,
        "description": evil,
        "parameters": [
            {"name": evil, "in": "query", "required": False, "description": evil, "schema": {"enum": [evil]}}
        ],
        "responses": {"200": {"description": evil}},
    }
    document = {
        "info": {"title": evil, "version": evil, "description": evil},
        "tags": [{"name": evil, "description": evil}],
        "paths": {evil: {"get": operation}},
        "components": {
            "schemas": {evil: {"description": evil, "properties": {evil: {"default": evil}}}},
            "securitySchemes": {"bearer": {"description": evil}},
        },
    }
    found = _read(render(document, "http://localhost"))
    assert "script" not in found.tags
    assert "onload" not in found.attributes
