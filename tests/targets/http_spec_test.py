"""What an http target cannot do is refused when it is written, not at night."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidInput
from tocsin.model.schedule import convert


def _write(**target):
    return convert(
        {"id": "a", "cron": "@daily", "target": {"kind": "http", "url": "http://a.example/", **target}}
    )


@pytest.mark.parametrize("code", [*range(9), *range(10, 32), 127])
def a_header_with_a_control_character_is_refused(code):
    with pytest.raises(InvalidInput) as refused:
        _write(headers={"X-Note": f"a{chr(code)}b"})
    assert refused.value.field == "target.headers"


def a_header_with_a_tab_or_an_accent_is_fine():
    _write(headers={"X-Note": "a\tb \u00e9 \u4e16"})


def a_call_lasts_an_hour_at_most():
    _write(timeout="1h")
    with pytest.raises(InvalidInput) as refused:
        _write(timeout="1h1s")
    assert refused.value.field == "target.timeout"
    assert "1h" in str(refused.value.allowed)
