"""Mutate kvzero and count what property tests and fuzzing notice.

`python -m tests.mutation --workers 2 --out DIR` lists the mutants with cosmic-ray, runs
each in a copy of the tree, prints totals and survivors, and exits with 0 only if at
least 95 % were killed in each group and every survivor has its reason in
`survivors.toml`. The same command again goes on where it was stopped.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from tests.mutation.campaign import Plan, run
from tests.mutation.groups import GROUPS, group_named
from tests.mutation.survivors import named_survivors
from tests.mutation.totals import as_json, lines_of, stale

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run what the command line says; return the exit code."""
    plan = _plan(_arguments())
    started = time.monotonic()

    def say(line: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - started:5.0f} s] {line}\n")

    totals = run(plan, say)
    named = named_survivors()
    lines = [*lines_of(totals, named), f"{time.monotonic() - started:.0f} s"]
    (plan.out / "totals.txt").write_text("\n".join(lines) + "\n")
    (plan.out / "totals.json").write_text(json.dumps(as_json(totals, named), indent=1))
    sys.stdout.write("\n".join(lines) + "\n")
    good = all(group.is_good(named) for group in totals) and not stale(totals, named)
    return 0 if good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    names = ",".join(group.name for group in GROUPS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="sessions and totals")
    parser.add_argument("--only", default=names, help=f"groups, of {names}")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, help="a sample of every group instead")
    parser.add_argument("--retry", action="store_true", help="run again what survived")
    return parser.parse_args()


def _plan(asked: argparse.Namespace) -> Plan:
    return Plan(
        ROOT,
        asked.out.resolve(),
        tuple(group_named(name) for name in asked.only.split(",")),
        asked.workers,
        asked.sample,
        asked.seed,
        asked.most,
        asked.retry,
    )


if __name__ == "__main__":
    raise SystemExit(main())
