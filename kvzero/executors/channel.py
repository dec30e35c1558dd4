"""JSON messages between two processes, one a line, over a socket.

The far end may be a process that a subject has made wild, so whoever trusts it least
bounds the size and the time of what it sends, and believes nothing but plain data.
"""

import json
import socket
from typing import Any

Json = Any  # a JSON document

MOST_BYTES = 2**26
"""The longest message: an observation of thousands of launches has a few MiB."""
_READ_BYTES = 2**16


class GarbledError(Exception):
    """What came is no message."""


class Channel:
    """One end of a socket that carries messages."""

    def __init__(self, end: socket.socket) -> None:
        """Take over an end of a stream socket."""
        self.socket = end
        self._received = bytearray()

    def send(self, message: Json) -> None:
        """Send a message, within the socket's timeout.

        Raises:
            OSError: The far end is gone, or does not read in time (`TimeoutError`).
        """
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    @property
    def has_message(self) -> bool:
        """Return whether a whole message is there for `take`."""
        return b"\n" in self._received

    def receive(self) -> Json:
        """Wait for the next message and return it.

        Raises:
            EOFError: The far end is gone.
            GarbledError: What came is no message.
        """
        while not self.has_message:
            self.read()
        return self.take()

    def read(self) -> bool:
        """Read once; return whether a whole message is there for `take`.

        Raises:
            EOFError: The far end is gone.
            GarbledError: A message has no end.
        """
        try:
            part = self.socket.recv(_READ_BYTES)
        except ConnectionResetError:
            part = b""
        if not part:
            raise EOFError
        self._received += part
        if len(self._received) > MOST_BYTES:
            raise GarbledError(f"a message beyond {MOST_BYTES} B")
        return self.has_message

    def take(self) -> Json:
        """Return the first message that is there.

        Raises:
            GarbledError: It is no JSON.
        """
        line, _, rest = self._received.partition(b"\n")
        self._received = bytearray(rest)
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise GarbledError(f"a message that is no JSON: {error}") from error
