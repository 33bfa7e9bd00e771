"""Which secrets a schedule may sign with, and what it may not learn about the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tocsin.config import Settings
from tocsin.errors import Forbidden, InvalidInput
from tocsin.model.schedule import convert
from tocsin.targets.permissions import permissions_of
from tocsin.targets.secrets import SecretMissingError, SecretRules, Use, read_secret


def _rules(text: str) -> SecretRules:
    return SecretRules.parse(text, default=None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``in`` is permitted, ``out`` is not."""
    for name in ("in", "in/deep", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text("hush\n")
    return tmp_path


def only_what_is_named_may_be_used(folder, monkeypatch):
    monkeypatch.setenv("HOOK_ONE", "hush")
    monkeypatch.setenv("OTHER", "hush")
    rules = _rules(f"env:HOOK_*, file:{folder}/in/*")
    for reference in ("env:HOOK_ONE", f"file:{folder}/in/key"):
        assert read_secret(Use(reference), rules) == b"hush"
    for reference in (
        "env:OTHER",
        f"file:{folder}/out/key",
        f"file:{folder}/in/deep/key",
        f"file:{folder}/in/../out/key",
        f"file:{folder}/in/./key",
        f"file:{folder}//in/key",
        "file:/proc/self/environ",
    ):
        assert rules.refusal(Use(reference))
        with pytest.raises(SecretMissingError, match="the setting secrets does not name it"):
            read_secret(Use(reference), rules)


def a_link_out_of_the_folder_is_not_followed(folder):
    (folder / "in" / "link").symlink_to(folder / "out" / "key")
    (folder / "in" / "near").symlink_to("deep/key")
    (folder / "alias").symlink_to(folder / "in")
    with pytest.raises(SecretMissingError):
        read_secret(Use(f"file:{folder}/in/link"), _rules(f"file:{folder}/in/*"))
    assert read_secret(Use(f"file:{folder}/in/near"), _rules(f"file:{folder}/in/*")) == b"hush"
    assert read_secret(Use(f"file:{folder}/alias/key"), _rules(f"file:{folder}/alias/*")) == b"hush"
    assert read_secret(Use(f"file:{folder}/in/link"), _rules(f"file:{folder}/in/link")) == b"hush"


def a_secret_that_cannot_be_read_tells_nothing_about_the_files_there_are(folder):
    os.mkfifo(folder / "in" / "pipe")
    (folder / "in" / "blank").touch()
    (folder / "in" / "link").symlink_to(folder / "out" / "key")
    rules = _rules(f"file:{folder}/in/*")
    messages = set()
    for name in ("pipe", "blank", "link", "deep", "missing"):
        with pytest.raises(SecretMissingError) as refused:
            read_secret(Use(f"file:{folder}/in/{name}"), rules)
        messages.add(str(refused.value).replace(name, "NAME"))
    assert len(messages) == 1


@pytest.mark.parametrize("text", ["HOOK", "file:relative", "env:", "file:/", "env:A file:/b, x:y", "env:A@"])
def a_list_of_secrets_that_cannot_be_meant_is_refused(text):
    with pytest.raises(InvalidInput, match="secrets"):
        SecretRules.parse(f"env:FINE, {text}", default=None)


def where_tokens_are_needed_only_secrets_for_that_purpose_may_be_used(tmp_path):
    def check(settings: Settings, secret: str) -> None:
        target = {"kind": "http", "url": "https://good.example/", "secret": secret}
        permissions_of(settings).check(convert({"id": "a", "cron": "@daily", "target": target}))

    guarded = Settings(data=tmp_path / "da[t]a", tokens="always")
    for secret in ("env:TOCSIN_SECRET_PAYROLL", f"file:{tmp_path}/da[t]a/secrets/payroll"):
        check(guarded, secret)
    for secret in ("env:TOCSIN_TOKEN", "env:PATH", f"file:{tmp_path}/da[t]a/admin.token", "file:/etc/shadow"):
        with pytest.raises(Forbidden, match="secrets"):
            check(guarded, secret)
        check(Settings(data=tmp_path), secret)
    check(Settings(data=tmp_path, tokens="always", secrets="env:PATH"), "env:PATH")


def a_secret_is_sent_only_to_the_hosts_that_are_named_for_it(tmp_path):
    rules = _rules("env:SIGNS, env:PAY@pay.example.org, env:ANY_*@*.example.org, file:/run/k@y/*")

    def refusal(name: str, *hosts: str, is_sent: bool = True) -> str:
        return rules.refusal(Use(name, hosts, is_sent))

    assert not refusal("env:PAY", "pay.example.org")
    assert not refusal("env:ANY_ONE", "pay.example.org")
    assert not refusal("env:SIGNS", "evil.example", is_sent=False)
    assert not refusal("env:PAY", "pay.example.org", is_sent=False)
    assert not refusal("file:/run/k@y/a", "x", is_sent=False)
    assert "env:SIGNS@evil.example" in refusal("env:SIGNS", "evil.example")
    assert "another host" in refusal("env:PAY", "evil.example")
    assert "another host" in refusal("env:PAY", "evil.example", is_sent=False)
    assert "another host" in refusal("env:PAY", "pay.example.org", "evil.example")
    assert "does not name it" in refusal("env:OTHER", "pay.example.org")
    assert not SecretRules().refusal(Use("env:ANYTHING", ("anywhere",), is_sent=True))


def where_tokens_are_needed_no_secret_is_sent_anywhere_unless_its_host_is_named(tmp_path):
    def check(settings: Settings, **target: object) -> None:
        spec = {"kind": "http", "url": "https://good.example/", **target}
        permissions_of(settings).check(convert({"id": "a", "cron": "@daily", "target": spec}))

    header = {"headers": {"Authorization": "Bearer ${env:TOCSIN_SECRET_PAY}"}}
    query = {"url": "https://good.example/?key=${env:TOCSIN_SECRET_PAY}"}
    for target in (header, query):
        with pytest.raises(Forbidden, match="may sign, but not be sent"):
            check(Settings(data=tmp_path, tokens="always"), **target)
        named = Settings(data=tmp_path, tokens="always", secrets="env:TOCSIN_SECRET_PAY@good.example")
        check(named, **target)
        check(Settings(data=tmp_path), **target)
    with pytest.raises(Forbidden, match="another host"):
        check(named, url="https://evil.example/", headers={"X-Key": "${env:TOCSIN_SECRET_PAY}"})
    with pytest.raises(Forbidden, match="another host"):
        check(named, headers={"Host": "evil.example", "X-Key": "${env:TOCSIN_SECRET_PAY}"})
    with pytest.raises(Forbidden, match="does not name it"):
        check(Settings(data=tmp_path, tokens="always"), secret="env:TOCSIN_SECRET_A", old_secret="env:PATH")


def where_tokens_are_needed_commands_must_be_allowed_in_so_many_words(tmp_path):
    assert Settings().allows_exec()
    assert not Settings(tokens="always").allows_exec()
    assert not Settings(listen="0.0.0.0:1").allows_exec()
    assert Settings(tokens="always", allow_exec="yes").allows_exec()
