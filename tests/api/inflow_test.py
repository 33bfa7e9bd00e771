"""What goes out on one connection: a short answer in one piece, the head of a stream at once."""

from __future__ import annotations

import h11

from tocsin.api.door.inflow import MeasuredConnection


def _asked(method: str = "GET") -> MeasuredConnection:
    conn = MeasuredConnection(16 * 1024)
    conn.receive_data(f"{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert isinstance(conn.next_event(), h11.Request)
    return conn


def an_answer_of_known_length_goes_out_in_one_piece() -> None:
    conn = _asked()
    head = conn.send(h11.Response(status_code=200, headers=[("Content-Length", "2")]))
    body = conn.send(h11.Data(data=b"ok"))
    assert head == b""
    assert body.startswith(b"HTTP/1.1 200")
    assert body.endswith(b"\r\n\r\nok")
    assert conn.send(h11.EndOfMessage()) == b""


def the_head_of_an_answer_without_a_body_goes_out_with_its_end() -> None:
    conn = _asked("HEAD")
    conn.send(h11.Response(status_code=200, headers=[("Content-Length", "2")]))
    pieces = [conn.send(h11.Data(data=b"")), conn.send(h11.EndOfMessage())]
    assert b"".join(pieces).endswith(b"\r\n\r\n")


def the_head_of_a_stream_goes_out_at_once() -> None:
    conn = _asked()
    head = conn.send(h11.Response(status_code=200, headers=[("Content-Type", "text/event-stream")]))
    assert head.endswith(b"\r\n\r\n")
