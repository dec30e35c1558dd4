"""Score kvzero and its peers on the same faults.

`python -m tests.peers --venvs DIR --install` makes an environment for each peer, then
runs the score and writes table and JSON below DIR; without ``--install`` it takes the
environments that are there. A peer that crashes or hangs is a row.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
import triton

from tests.peers.marked_copy import make_copy
from tests.peers.score import KILLS, as_json, jobs_for, page, score
from tests.peers.tools import PEERS, install

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers")
    parser.add_argument("--venvs", type=Path, required=True)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--page", type=Path, help="such as docs/peers.md")
    parser.add_argument("--only", help="peers, by name, with commas")
    asked = parser.parse_args()
    folder = asked.venvs.resolve()
    if asked.install:
        for name in install(folder):
            sys.stderr.write(f"{name} could not be installed\n")
    copy = folder / "copy"
    make_copy(ROOT, copy)
    jobs = list(jobs_for(KILLS.glob("*.json")))
    chosen = asked.only.split(",") if asked.only else [peer.name for peer in PEERS]
    scores = []
    for peer in PEERS:
        if peer.name in chosen:
            scores.append(score(peer, jobs, folder, copy))
            counts = dict(scores[-1].counts())
            sys.stderr.write(f"{peer.name}: {counts}, {scores[-1].controls} controls\n")
    versions = f"torch {torch.__version__}, Triton {triton.__version__}"
    command = "python -m tests.peers --venvs DIR --install --page docs/peers.md"
    text = "\n".join(page(scores, command, versions)) + "\n"
    (folder / "scores.json").write_text(json.dumps(as_json(scores), indent=1))
    (asked.page or folder / "peers.md").write_text(text)
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
