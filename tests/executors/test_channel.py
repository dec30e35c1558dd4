"""The channel: whole messages, whatever the pieces they come in."""

import json
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.executors import channel as channel_module
from kvzero.executors.channel import Channel, GarbledError

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
MESSAGES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Channel]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, Channel(there)


@given(st.lists(MESSAGES, max_size=4), st.integers(1, 50))
def test_a_channel_gives_back_each_message_of_any_pieces(
    messages: list[object], piece: int
) -> None:
    here, there = socket.socketpair()
    with here, there:
        sent = b"".join(json.dumps(each).encode() + b"\n" for each in messages)
        received, channel = [], Channel(there)
        for begin in range(0, len(sent), piece):
            here.sendall(sent[begin : begin + piece])
            whole = channel.read()
            while whole:
                received.append(channel.take())
                whole = channel.has_message
        assert received == messages


def test_a_channel_sends_what_the_other_end_receives(
    ends: tuple[socket.socket, Channel],
) -> None:
    here, channel = ends
    Channel(here).send({"a": [1, None]})
    assert channel.receive() == {"a": [1, None]}


def test_a_closed_end_is_the_end(ends: tuple[socket.socket, Channel]) -> None:
    here, channel = ends
    here.sendall(b'{"torn": ')
    here.close()
    with pytest.raises(EOFError):
        channel.receive()


@pytest.mark.parametrize("sent", [b"{\n", b"\xff\n", b"[" * 200_000 + b"\n"])
def test_a_message_that_is_no_json_is_garbled(
    ends: tuple[socket.socket, Channel], sent: bytes
) -> None:
    here, channel = ends
    here.setblocking(False)
    while sent:
        sent = sent[here.send(sent) :]
        if sent:
            channel.read()
    with pytest.raises(GarbledError):
        channel.receive()


def test_a_message_without_end_is_garbled(
    ends: tuple[socket.socket, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "MOST_BYTES", 100)
    here, channel = ends
    here.sendall(b"x" * 200)
    with pytest.raises(GarbledError, match="beyond 100 B"):
        channel.receive()
