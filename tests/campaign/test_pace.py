"""How a run's time is shared between checking and drawing."""

from kvzero.campaign.pace import Pace, launches_to_the_byte
from kvzero.limits import LaunchShape
from kvzero.observation import WARMUP_CALL, CallObservation, Launch, Observation


def launch(call: int) -> Launch:
    return Launch(call, "kernel", "kernels.py:1", LaunchShape((1, 1, 1), 1, 1))


SEEN = Observation(
    "subject",
    "footprint",
    "TTIR",
    "cuda:90",
    calls=(CallObservation(), CallObservation(bytes_judged=False)),
    launches=tuple(launch(call) for call in (WARMUP_CALL, 0, 0, 1, 2)),
)


def test_launches_of_calls_whose_bytes_were_judged_count_to_the_byte() -> None:
    assert launches_to_the_byte(SEEN) == 3
    pace = Pace()
    pace.count(SEEN)
    assert (pace.launches, pace.to_the_byte) == (5, 3)


def test_time_inside_is_checking_and_time_between_is_drawing() -> None:
    pace = Pace()
    for _ in range(3):
        with pace.checking():
            inside = pace.drawing_seconds
        assert pace.drawing_seconds == inside
    assert pace.checking_seconds > 0
    assert pace.drawing_seconds > 0
    before = pace.drawing_seconds
    pace.resume()
    assert pace.drawing_seconds == before


def test_pace_says_both_speeds_and_the_share_of_hypothesis() -> None:
    pace = Pace(600, 300, checking_seconds=0.5, drawing_seconds=1.5)
    assert str(pace) == (
        "300 launches checked a second, 1,200 with drawing excluded "
        "(50% to the byte; Hypothesis took 75%)"
    )
    assert pace.as_json() == {
        "checked_launches": 600,
        "checked_to_the_byte": 300,
        "per_second": 300.0,
        "per_second_without_drawing": 1200.0,
        "drawing_share": 0.75,
        "checking_seconds": 0.5,
        "drawing_seconds": 1.5,
    }


def test_a_pace_without_launches_is_zero() -> None:
    assert (Pace().per_second, Pace().per_second_of_checking) == (0.0, 0.0)
