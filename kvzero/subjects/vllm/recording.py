"""What importing vLLM's class reads: run as a program, it prints the files as JSON.

An audit hook sees every file that is opened, data and libraries included, and the table
of modules names those that were loaded otherwise. A process of its own, because an
import cannot be undone.
"""

import json
import sys
from importlib.util import source_from_cache
from pathlib import Path

from kvzero.subjects.vllm.release import installed_release


def recorded() -> list[str]:
    """Return the files that importing the class reads, sorted; sources, not caches.

    Raises:
        EnvironmentMissingError: The class cannot be imported.
    """
    opened: set[str] = set()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("open", "ctypes.dlopen") and isinstance(arguments[0], str):
            opened.add(arguments[0])

    sys.addaudithook(hook)
    installed_release()
    modules = list(sys.modules.values())
    opened.update(str(getattr(module, "__file__", None) or "") for module in modules)
    paths = (Path(_source(name)) for name in opened if name)
    return sorted({str(path.resolve()) for path in paths if path.is_file()})


def _source(name: str) -> str:
    """Return the source of a cached module, or the name itself."""
    return source_from_cache(name) if _is_cache(name) else name


def _is_cache(name: str) -> bool:
    return name.endswith(".pyc") and "__pycache__" in name


if __name__ == "__main__":
    sys.stdout.write(f"\n{json.dumps(recorded())}\n")
