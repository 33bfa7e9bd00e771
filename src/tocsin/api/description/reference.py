"""The description as a page to read, at ``/docs``: made here from the same document, without a script and without
asking anybody else for anything."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache, lru_cache
from html import escape
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from litestar import Litestar, Request, Response, get

from tocsin.api.description import openapi
from tocsin.api.description.about import about

_LONG_ANSWERS = frozenset({"400", "401", "403", "413", "415", "429", "500", "503", "504"})
"""What any request may meet: told once, at the top."""
_BASE = "http://[base]"
"""Where the page has the address that it was asked for. A shell needs quotes around the brackets, as it may need
around what takes their place."""
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
"""A host that means nothing else to a page or a shell."""


@get(
    "/docs",
    operation_id="docs",
    sync_to_thread=True,
    opt=about("service", "This reference", answers={200: ("A page for people.", str, ("text/html",))}),
)
def page(request: Request[Any, Any, Any]) -> Response[str]:
    """The same description as a page to read."""
    host = request.headers.get("host", "")
    base = f"{request.scope['scheme']}://{host if _HOST.fullmatch(host) else '127.0.0.1:8400'}"
    return Response(_page(request.app).replace(_BASE, base), media_type="text/html", headers=_headers())


@cache
def _headers() -> dict[str, str]:
    style = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    allowed = f"default-src 'none'; style-src 'sha256-{style}'"
    return {
        "Content-Security-Policy": f"{allowed}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


@cache
def _style() -> str:
    return resources.files("tocsin.api.description").joinpath("reference.css").read_text()


@lru_cache(maxsize=1)
def _page(app: Litestar) -> str:
    """Made once, whatever host is asked for: it is work, and anybody may ask for any host."""
    return render(openapi.document(app), _BASE)


def render(document: dict[str, Any], base: str) -> str:
    """The page. Every text of the document is escaped: it is shown, never obeyed."""
    info = document["info"]
    title = f"{escape(info['title'])} API"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_style()}</style></head><body>"
        '<a class="skip" href="#top">To the content</a><div class="page">'
        f'<nav aria-label="Contents"><strong>{title}</strong>{_contents(document)}</nav>'
        f'<main id="top"><h1>{title} <small>{escape(info["version"])}</small></h1>'
        f"{_prose(info['description'])}{_introduction(document)}"
        f"{''.join(_chapters(document, base))}{_shapes(document)}</main></div></body></html>"
    )


def _operations(document: dict[str, Any], tag: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if operation["tags"][0] == tag:
                yield path, method, operation


def _tags(document: dict[str, Any]) -> dict[str, str]:
    """The tags with words first, in their order, then those that somebody uses without saying what they are."""
    known = {tag["name"]: tag["description"] for tag in document["tags"]}
    used = {op["tags"][0]: "" for item in document["paths"].values() for op in item.values()}
    return {tag: words for tag, words in {**known, **used, **known}.items() if tag in used}


def _contents(document: dict[str, Any]) -> str:
    parts = []
    for tag in _tags(document):
        links = "".join(
            f'<li><a href="#{escape(op["operationId"])}"><span class="method {method}">{method.upper()}</span>'
            f"<span>{escape(op['summary'])}</span></a></li>"
            for _, method, op in _operations(document, tag)
        )
        parts.append(f'<h2><a href="#tag-{escape(tag)}">{escape(tag)}</a></h2><ul>{links}</ul>')
    shapes = "".join(
        f'<li><a class="plain" href="#shape-{escape(name)}">{escape(name)}</a></li>'
        for name in document["components"]["schemas"]
    )
    return f'{"".join(parts)}<h2><a href="#shapes">Shapes</a></h2><ul>{shapes}</ul>'


def _introduction(document: dict[str, Any]) -> str:
    """Tokens, and the refusals that any request may meet."""
    scheme = document["components"]["securitySchemes"]["bearer"]
    common: dict[str, str] = {}
    for item in document["paths"].values():
        for operation in item.values():
            for status, answer in operation["responses"].items():
                if status in _LONG_ANSWERS:
                    common.setdefault(status, answer["description"])
    rows = "".join(
        f'<div><dt class="bad">{status}</dt><dd>{_line(words)}</dd></div>'
        for status, words in sorted(common.items())
    )
    return (
        f"<p>{_line(scheme['description'])} It goes into a header: "
        '<code>-H "Authorization: Bearer $TOCSIN_TOKEN"</code>.</p>'
        "<article><h4>What any request may be refused with</h4>"
        f'<dl class="answers">{rows}</dl><p>Each comes as a <a href="#shape-Problem">Problem</a>.</p></article>'
    )


def _chapters(document: dict[str, Any], base: str) -> Iterator[str]:
    for tag, words in _tags(document).items():
        yield f'<h2 id="tag-{escape(tag)}">{escape(tag)}</h2><p>{_line(words)}</p>'
        for path, method, operation in _operations(document, tag):
            yield _chapter(document, base, path, method, operation)


def _chapter(document: dict[str, Any], base: str, path: str, method: str, operation: dict[str, Any]) -> str:
    id = escape(operation["operationId"])
    parts = [
        f'<article id="{id}"><h3>{escape(operation["summary"])}</h3>',
        f'<div class="address"><span class="method {method}">{method.upper()}</span>{escape(path)}</div>',
        _prose(operation["description"]),
    ]
    if operation.get("parameters"):
        parts.append(f"<h4>Parameters</h4><dl>{''.join(map(_parameter, operation['parameters']))}</dl>")
    if "requestBody" in operation:
        parts.append(_body(operation["requestBody"]))
    parts.append(f"<h4>Example</h4><pre><code>{escape(example(base, path, method, operation))}</code></pre>")
    parts.append(
        f'<h4>Answers</h4><dl class="answers">{"".join(_answers(operation["responses"]))}</dl></article>'
    )
    return "".join(parts)


def _parameter(parameter: dict[str, Any]) -> str:
    note = "required" if parameter["required"] else parameter["in"]
    note = "in the path" if parameter["in"] == "path" else "in a header" if note == "header" else note
    return _field(parameter["name"], note, parameter["description"], parameter["schema"])


def _field(name: str, note: str, words: str, schema: dict[str, Any]) -> str:
    small = f"<small>{escape(note)}</small>" if note else ""
    return (
        f"<div><dt><code>{escape(name)}</code>{small}</dt>"
        f'<dd><p>{_line(words)}</p><span class="kind">{_kind(schema)}</span></dd></div>'
    )


def _body(body: dict[str, Any]) -> str:
    kinds = " or ".join(f"<code>{escape(kind)}</code>" for kind in body["content"])
    (schema, *_) = (media["schema"] for media in body["content"].values())
    may = "" if body["required"] else " It may be left out."
    return f"<h4>Body</h4><p>{_kind(schema)}, as {kinds}.{may}</p>"


def _answers(responses: dict[str, Any]) -> Iterator[str]:
    for status, answer in responses.items():
        if status in _LONG_ANSWERS:
            continue
        good = "good" if status < "400" else "bad"
        kinds = {
            _kind(media["schema"])
            for kind, media in answer.get("content", {}).items()
            if "problem" not in kind
        }
        headers = "".join(f", <code>{escape(name)}</code>" for name in answer.get("headers", {}))
        shown = " or ".join(sorted(kinds))
        tail = f' <span class="kind">{shown}{headers}</span>' if shown or headers else ""
        yield f'<div><dt class="{good}">{status}</dt><dd>{_line(answer["description"])}{tail}</dd></div>'


def _shapes(document: dict[str, Any]) -> str:
    parts = ['<h2 id="shapes">Shapes</h2><p>What is sent and answered.</p>']
    for name, schema in document["components"]["schemas"].items():
        required = schema.get("required", [])
        fields = "".join(
            _field(field, "required" if field in required else "", found.get("description", ""), found)
            for field, found in schema.get("properties", {}).items()
        )
        rows = f"<dl>{fields}</dl>" if fields else f'<p class="kind">{_kind(schema)}</p>'
        parts.append(
            f'<article id="shape-{escape(name)}"><h3>{escape(name)}</h3>'
            f"{_prose(schema.get('description', ''))}{rows}</article>"
        )
    return "".join(parts)


def _kind(schema: dict[str, Any]) -> str:
    """A schema in words."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#shape-{name}">{name}</a>'
    if "x-made-of" in schema:
        return f"lines, each {_kind(schema['x-made-of'])}"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(choice) for choice in schema["anyOf"])) + _default(schema)
    if "enum" in schema:
        return (
            "one of "
            + ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
            + _default(schema)
        )
    match schema.get("type"):
        case "array":
            words = f"list of {_kind(schema.get('items', {}))}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            words = f"object of {_kind(schema['additionalProperties'])}"
        case "string":
            words = {"date-time": "moment (RFC 3339)"}.get(schema.get("format", ""), "text")
        case "integer":
            words = "whole number"
        case "boolean":
            words = "true or false"
        case None:
            words = "any JSON"
        case other:
            words = escape(str(other))
    return words + _limits(schema) + _default(schema)


def _limits(schema: dict[str, Any]) -> str:
    found = []
    if "minimum" in schema and "maximum" in schema:
        found.append(f"from {schema['minimum']} to {schema['maximum']}")
    for key, words in (
        ("maxLength", "up to {} characters"),
        ("maxItems", "up to {}"),
        ("maxProperties", "up to {} of them"),
    ):
        if key in schema:
            found.append(words.format(schema[key]))
    return f" {', '.join(found)}" if found else ""


def _default(schema: dict[str, Any]) -> str:
    if schema.get("default") in (None, "", {}, []):
        return ""
    return f", by default <code>{escape(json.dumps(schema['default']))}</code>"


def example(base: str, path: str, method: str, operation: dict[str, Any]) -> str:
    """The operation as a command for a shell."""
    asked: dict[str, Any] = {}
    for parameter in operation.get("parameters", []):
        values = parameter["schema"].get("examples") or parameter["schema"].get("items", {}).get("examples")
        if parameter["in"] == "path":
            name = parameter["name"]
            path = path.replace(f"{{{name}}}", quote(str((values or [name])[0]), safe="/@+"))
        elif parameter["in"] == "query" and values and not asked:
            asked[parameter["name"]] = values[0]
    url = base + path + (f"?{urlencode(asked, safe='/:=')}" if asked else "")
    lines = [f"curl {'' if method == 'get' else f'-X {method.upper()} '}{shlex.quote(url)}"]
    for kind, media in list(operation.get("requestBody", {}).get("content", {}).items())[:1]:
        if "example" in media:
            text = media["example"] if isinstance(media["example"], str) else _written(media["example"])
            lines += [f"-H {shlex.quote(f'Content-Type: {kind}')}", f"-d {shlex.quote(text)}"]
    return " \\\n  ".join(lines)


def _written(value: dict[str, Any]) -> str:
    """JSON with a line for each of its fields."""
    if len(text := json.dumps(value)) < 70:
        return text
    return (
        "{" + ",\n      ".join(f"{json.dumps(key)}: {json.dumps(part)}" for key, part in value.items()) + "}"
    )


def _prose(text: str) -> str:
    return "".join(f"<p>{_line(part)}</p>" for part in text.split("\n\n") if part.strip())


def _line(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
