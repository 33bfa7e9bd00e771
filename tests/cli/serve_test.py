"""``tocsin serve``: its greeting, its settings, and what it says when it cannot start."""

from __future__ import annotations

import inspect
import json
import re
import socket
import subprocess
import sys
from pathlib import Path

from tocsin.cli.serve import serve as serve_command
from tocsin.cli.service import Start, _greet
from tocsin.config import Settings

START = Start(given={}, example=False, as_json=False)


def the_greeting_tells_where_it_is_and_what_to_type_next(serve, tmp_path):
    running = serve("--data", str(tmp_path / "data"))
    assert re.search(r"ready at http://127\.0\.0\.1:\d+", running.greeting)
    assert str(tmp_path / "data") in running.greeting
    assert "tocsin add" in running.greeting
    assert len(running.greeting.strip().splitlines()) <= 8
    status, err = running.stop()
    assert status == 0
    assert "took office" in err


def the_service_loads_nothing_that_only_commands_need(serve, tmp_path, monkeypatch):
    """They would be a fifth of its memory. No argument shows what was given in the environment."""
    monkeypatch.setenv("TOCSIN_HERD_LIMIT", "12345")
    running = serve("--data", str(tmp_path / "data"))
    maps = Path(f"/proc/{running.process.pid}/maps").read_text()
    arguments = Path(f"/proc/{running.process.pid}/cmdline").read_text()
    assert "pydantic" not in maps
    assert "greenlet" not in maps
    assert "yaml" not in maps
    assert "serve" in arguments.split("\0")
    assert "12345" not in arguments
    assert running.stop()[0] == 0


def the_service_loads_no_package_that_it_never_uses():
    """Other packages would load them."""
    program = (
        "import sys; from tocsin.cli import service; service.leave_out_unused(); "
        "import tocsin.node, tocsin.api.server, tocsin.api.app, tocsin.ui.console; "
        "print(*{name for name, module in sys.modules.items() if module}, sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"tocsin", "uvicorn", "litestar"} <= loaded
    assert not loaded & {"bdb", "click", "greenlet", "pydantic", "rich", "typer"}


def a_replica_greets_in_two_lines(capsys, tmp_path):
    cluster = Settings(data=tmp_path, name="a", cluster="a=127.0.0.1:1, b=127.0.0.1:4,c=127.0.0.1:7")
    _greet("http://127.0.0.1:8401", cluster, 0, START)
    ready, command = capsys.readouterr().out.splitlines()
    assert ready == "Tocsin is ready at http://127.0.0.1:8401 as replica a of a, b, c"
    assert command.endswith(" cluster --url http://127.0.0.1:8401")


def only_a_replica_that_has_the_admin_token_shows_its_file(capsys, tmp_path):
    cluster = Settings(data=tmp_path, name="a", cluster="a=10.0.0.1,b=10.0.0.2,c=10.0.0.3")
    _greet("http://127.0.0.1:8400", cluster, 0, START)
    assert "admin.token of " in capsys.readouterr().out
    cluster.admin_file().write_text("secret")
    _greet("http://127.0.0.1:8400", cluster, 0, START)
    assert f"TOCSIN_TOKEN=$(cat {tmp_path}/admin.token)" in capsys.readouterr().out


def the_disk_of_a_replica_is_not_taken_for_a_single_service(tmp_path, alone):
    member = tmp_path / "data" / "member" / "member.json"
    member.parent.mkdir(parents=True)
    member.write_text('{"name": "b", "token": "t", "condition": "founded"}')
    done = alone.process("serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert (done.status, done.out) == (1, "")
    assert "the disk of replica b of a cluster" in done.err
    assert "--cluster" in done.err
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["member"], "nothing was begun"


def the_examples_are_added_to_an_empty_store_only(serve, tmp_path, tocsin, wait):
    running = serve("--data", str(tmp_path / "data"), "--example")
    url = re.search(r"http://\S+?(?=,)", running.greeting)
    assert url is not None
    listed = tocsin("list", "--url", url[0], "--json").json["items"]
    assert {item["id"] for item in listed} == {
        "example/date",
        "example/flaky",
        "example/minutely",
        "example/rehearsal",
    }
    wait(lambda: "succeeded" in tocsin("launches", "--schedule", "example/date", "--url", url[0]).out)
    tocsin("rm", "example/flaky", "--url", url[0])
    assert running.stop()[0] == 0
    again = serve("--data", str(tmp_path / "data"), "--example", "--json")
    url = json.loads(again.greeting)["url"]
    assert len(tocsin("list", "--url", url, "--json").json["items"]) == 3


def a_second_one_on_the_same_data_is_refused(serve, tmp_path, alone):
    serve("--data", str(tmp_path / "data"))
    done = alone.process("serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    assert (done.status, done.out) == (1, "")
    assert "another Tocsin" in done.err
    assert "--data" in done.err
    assert len(done.err.splitlines()) <= 2


def a_port_in_use_is_told(tmp_path, alone):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = alone.process("serve", "--data", str(tmp_path / "data"), "--listen", address)
    assert done.status == 1
    assert f"cannot listen on {address}" in done.err
    assert "--listen" in done.err
    assert not (tmp_path / "data").exists(), "it did not even look at the data"


def a_setting_that_cannot_be_is_told_with_its_name(tmp_path, alone):
    for words, told in (
        (("--tokens", "never"), ["tokens", "never", "auto or always"]),
        (("--allow-exec", "maybe"), ["allow_exec", "maybe", "auto or yes or no"]),
        (("--rate-limit", "-1"), ["rate_limit", "-1"]),
        (("--http-deny", "10.0.0.0/40"), ["http_deny", "10.0.0.0/40"]),
        (("--http-allow", "a b"), ["http_allow", "a b"]),
        (("--tls-cert", "/dev/null"), ["tls_key", "both"]),
        (("--tls-cert", "/no/cert", "--tls-key", "/no/key"), ["tls_cert", "/no/cert", "No such file"]),
        (("--listen", "nonsense"), ["listen", "HOST:PORT"]),
        (("--journal", "mysql://x"), ["journal", "mysql"]),
        (("--history-age", "soon"), ["history_age", "soon"]),
        (("--snapshot-interval", "5"), ["snapshot_interval", "5s"]),
        (("--log-format", "xml"), ["log_format", "text or json"]),
        (("--cluster-secret", "/some/file"), ["--cluster-secret is for a replica", "give --cluster too"]),
        (("--recover",), ["--recover is for a replica", "give --cluster too"]),
    ):
        done = alone.process("serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *words)
        assert (done.status, done.out) == (1, ""), words
        for part in told:
            assert part in done.err, done.err
        assert len(done.err.splitlines()) <= 2, done.err


def a_data_directory_that_cannot_be_written_is_told(alone):
    done = alone.process("serve", "--data", "/proc/nothing", "--listen", "127.0.0.1:0")
    assert done.status == 1
    assert "/proc/nothing" in done.err
    assert len(done.err.splitlines()) <= 2


def every_setting_is_an_option_and_a_variable():
    options = inspect.signature(serve_command, eval_str=True).parameters
    for field in Settings.__struct_fields__:
        assert field in options, field
        (option,) = options[field].annotation.__metadata__
        assert option.envvar == f"TOCSIN_{field.upper()}"
        default = getattr(Settings(), field)
        if default:
            assert str(default) == option.show_default


def log_lines_are_json_when_asked_for(serve, tmp_path):
    running = serve("--data", str(tmp_path / "data"), "--log-format", "json")
    _, err = running.stop()
    lines = [json.loads(line) for line in err.splitlines()]
    assert {"event", "level", "timestamp"} <= set(lines[0])


def lists_that_are_longer_than_a_variable_may_be_are_taken(serve, tmp_path, monkeypatch):
    many = ",".join(f"10.{number // 256}.{number % 256}.0/24" for number in range(5_200))
    monkeypatch.setenv("TOCSIN_HTTP_ALLOW", many)
    monkeypatch.setenv("TOCSIN_HTTP_DENY", many)
    serve("--data", str(tmp_path / "data"))
