"""The event log: what happened in a campaign, one JSON object a line.

Each line has ``event``, ``time`` (seconds since 1970) and ``seconds`` (since the
campaign began, those of the runs before included), and the fields of its event:

- ``start``: ``settings``, ``resumed``, ``corpus`` (cases that are replayed first);
- ``worker-started``: ``worker``, ``pid``;
- ``worker-ended``: ``worker``, ``pid``, ``why``;
- ``finding``: ``worker``, ``property``, ``kind``, ``what``, ``place``, ``headline``,
  ``fails``, ``file``;
- ``settled``: as ``finding``, with ``flaky``, ``runs``, ``blocks``, ``n``;
- ``kept``: ``worker``, ``file`` (a passing case that brought something new);
- ``error``: ``worker``, ``type``, ``message``, ``traceback``, ``case`` (of the
  harness);
- ``status``: ``cases``, ``launches``, ``launches_per_second``, ``features``,
  ``feature_pairs``, ``findings``, ``parent_resident_bytes``, and ``workers``, a list of
  ``worker``, ``pid``, ``cases``, ``state``, ``resident_bytes``,
  ``peak_resident_bytes`` (since the status before);
- ``stop``: ``why``, and the fields of ``status``.
"""

import json
import os
import weakref
from pathlib import Path
from time import time
from typing import Any

from kvzero.campaign.writing import writing

Json = Any  # a JSON document


class EventLog:
    """A file that events are added to; each is one write, so lines never mix."""

    def __init__(self, path: Path) -> None:
        """Open it behind what is there.

        Raises:
            EnvironmentMissingError: It cannot be written.
        """
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, flags, 0o644)
        self.close = weakref.finalize(self, os.close, self._file)
        if _is_torn(path):
            self._write(b"\n")

    def write(self, event: str, seconds: float, fields: Json) -> None:
        """Add one event.

        Raises:
            EnvironmentMissingError: The disk is full.
        """
        line = {"event": event, "time": round(time(), 3), "seconds": round(seconds, 3)}
        self._write(json.dumps({**line, **fields}).encode() + b"\n")

    def _write(self, content: bytes) -> None:
        with writing(self._path):
            while content:
                content = content[os.write(self._file, content) :]


def _is_torn(path: Path) -> bool:
    """Return whether the last line of a plain file has no end."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
