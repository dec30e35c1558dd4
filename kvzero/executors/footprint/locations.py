"""Source locations of TTIR: from ``loc(#loc12)`` to ``"kernels.py:41"``.

Printed IR keeps locations in aliases at the margin, nested by name and by call site.
The line that a reader wants is the innermost one that is not in Triton's own library.
"""

import re
from pathlib import PurePosixPath

_ALIAS = re.compile(r"^(#\w+) = loc\((.*)\)$")
_REFERENCE = re.compile(r"#\w+")
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):\d+')
_LIBRARY = "/triton/language/"
_MAX_DEPTH = 64

UNKNOWN_PLACE = "an unknown line"


class Locations:
    """The location aliases of one module.

    Args:
        text: The module's text.
    """

    def __init__(self, text: str) -> None:
        """Read the aliases; each is resolved when it is first asked for."""
        self._aliases: dict[str, str] = {}
        self._resolved: dict[str, str] = {}
        for line in text.splitlines():
            match = _ALIAS.match(line)
            if match:
                self._aliases[match[1]] = match[2]

    def place(self, location: str) -> str:
        """Return file and line of the inside of a ``loc(...)``."""
        if location not in self._resolved:
            self._resolved[location] = self._place(location)
        return self._resolved[location]

    def _place(self, location: str) -> str:
        files = _FILE.findall(self._expanded(location))
        if not files:
            return UNKNOWN_PLACE
        ours = [found for found in files if _LIBRARY not in found[0]]
        path, line = (ours or files)[0]
        return f"{PurePosixPath(path).name}:{line}"

    def _expanded(self, location: str) -> str:
        # Inner call sites are written first, so that the first file is the innermost.
        for _ in range(_MAX_DEPTH):
            if "#" not in location:
                break
            location = _REFERENCE.sub(
                lambda found: self._aliases.get(found[0], ""), location
            )
        return location
