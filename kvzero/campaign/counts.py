"""The counts of a tally as plain data, which workers send and states keep.

What was found is not among them: it has cases and texts, and travels on its own.
"""

from dataclasses import asdict
from typing import Any

from kvzero.campaign.pace import Pace
from kvzero.campaign.tally import Tally

Json = Any  # a JSON document

_SUMS = ("cases", "launches", "programs", "idle_programs")
_PACE = ("launches", "to_the_byte", "checking_seconds", "drawing_seconds")


def counts_to_json(tally: Tally) -> Json:
    """Return the counts of a tally."""
    return {
        **{name: getattr(tally, name) for name in _SUMS},
        "narrowest_store_bytes": tally.narrowest_store_bytes,
        "judged": dict(tally.judged),
        "not_judged": [[*key, n] for key, n in tally.not_judged.items()],
        "environments": [[*key, n] for key, n in tally.environments.items()],
    }


def add_counts(tally: Tally, counts: Json) -> None:
    """Add what `counts_to_json` told to a tally."""
    for name in _SUMS:
        setattr(tally, name, getattr(tally, name) + int(counts[name]))
    seen = {tally.narrowest_store_bytes, int(counts["narrowest_store_bytes"])} - {0}
    tally.narrowest_store_bytes = min(seen, default=0)
    tally.judged.update({str(k): int(n) for k, n in counts["judged"].items()})
    for name, reason, n in counts["not_judged"]:
        tally.not_judged[name, reason] += n
    for executor, semantics, versions, n in counts["environments"]:
        tally.environments[executor, semantics, versions] += n


def pace_to_json(pace: Pace) -> Json:
    """Return the sums of a pace."""
    told = asdict(pace)
    return {name: told[name] for name in _PACE}


def add_pace(pace: Pace, told: Json) -> None:
    """Add what `pace_to_json` told to a pace."""
    for name in _PACE:
        setattr(pace, name, getattr(pace, name) + told[name])
