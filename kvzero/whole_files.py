"""Files that are written whole or not at all, also where a process is killed.

The content goes to a temporary file in the same folder, which then takes the name.
"""

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def write_whole(
    path: Path, content: bytes, *, mode: int = 0o644, synced: bool = False
) -> None:
    """Write a file, all of it or nothing, over any file of that name.

    Args:
        path: The file, in a folder that is there.
        content: What it holds.
        mode: Its permissions.
        synced: Wait for the disk, or a crash of the machine may leave the name without
            its bytes.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    with NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        written = Path(file.name)
        try:
            file.write(content)
            file.flush()
            if synced:
                os.fsync(file.fileno())
            written.chmod(mode)
            written.replace(path)
        except BaseException:  # an interrupt, too, must leave no temporary file
            written.unlink(missing_ok=True)
            raise
