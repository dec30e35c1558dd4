"""Launch limits as data: one row per rule of a platform or a launcher.

Every recorded launch is judged against all rows, whatever machine recorded it, because
a server ships one kernel to many platforms. `launch_fate` says what one platform would
do with a launch; `broken_limits` lists every row that the launch breaks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

INT32_MAX = 2**31 - 1
CUDA_MAX_YZ = 65_535
HIP_MAX_WORK_ITEMS = 2**32 - 1
"""Work items of one dimension of a HIP launch, inclusive."""
HIP_WIDEST_WARP = 64

Fate = Literal["runs", "skipped", "rejected"]
Grid = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """What the limits judge of a launch.

    Attributes:
        grid: Programs in x, y and z.
        num_warps: Warps of one program.
        num_ctas: Thread blocks of one program (multiplies x).
    """

    grid: Grid
    num_warps: int = 4
    num_ctas: int = 1

    @property
    def programs(self) -> int:
        """Return the programs of the launch."""
        x, y, z = self.grid
        return x * y * z


def wrapped_int32(value: int) -> int:
    """Return `value` as C's signed 32-bit arithmetic leaves it."""
    return (value + 2**31) % 2**32 - 2**31


@dataclass(frozen=True, slots=True)
class LaunchLimit:
    """One row of the table.

    Attributes:
        name: Stable name, used in violations.
        platform: ``"any"``, ``"cuda"`` or ``"hip"``.
        effect: What a launch beyond the limit meets: ``"skipped"`` (no error, nothing
            runs), ``"rejected"`` (an error) or ``"cost"`` (reported, seen to run).
        rule: The limit in words.
        source: How it is known.
        breaks: Whether a launch is beyond the limit.
    """

    name: str
    platform: Literal["any", "cuda", "hip"]
    effect: Literal["skipped", "rejected", "cost"]
    rule: str
    source: str
    breaks: Callable[[LaunchShape], bool]


# Order matters: a launch that is both skipped and over a dimension is skipped first,
# because the launcher looks at the product before the driver sees the launch. What the
# launcher cannot parse (a dimension beyond a C int) comes before both.
LIMITS: tuple[LaunchLimit, ...] = (
    LaunchLimit(
        "launcher-int32",
        "any",
        "rejected",
        "each dimension fits a signed 32-bit int",
        "run: (2**31, 1, 1) raises OverflowError in Triton 3.6 to 3.9",
        lambda s: max(s.grid) > INT32_MAX,
    ),
    LaunchLimit(
        "nvidia-product",
        "cuda",
        "skipped",
        "x*y*z, wrapped to a signed 32-bit int, is above 0",
        "H200, Triton 3.6.0: (32768, 256, 256) leaves memory as it was, with no error",
        lambda s: s.programs > 0 and wrapped_int32(s.programs) <= 0,
    ),
    LaunchLimit(
        "amd-product",
        "hip",
        "skipped",
        "x*y*z, wrapped to a signed 32-bit int, is not 0",
        "source of Triton's AMD launcher, 3.6.0 to 3.9.0",
        lambda s: s.programs > 0 and wrapped_int32(s.programs) == 0,
    ),
    LaunchLimit(
        "cuda-x",
        "cuda",
        "rejected",
        "x * num_ctas <= 2**31 - 1",
        "CUDA's documentation; H200",
        lambda s: s.grid[0] * s.num_ctas > INT32_MAX,
    ),
    LaunchLimit(
        "cuda-y",
        "cuda",
        "rejected",
        "y <= 65,535",
        "H200: (1, 65536, 1) gives `invalid argument`",
        lambda s: s.grid[1] > CUDA_MAX_YZ,
    ),
    LaunchLimit(
        "cuda-z",
        "cuda",
        "rejected",
        "z <= 65,535",
        "H200: (1, 1, 65536) gives `invalid argument`",
        lambda s: s.grid[2] > CUDA_MAX_YZ,
    ),
    LaunchLimit(
        "hip-work-items",
        "hip",
        "rejected",
        "x * num_ctas * num_warps * 64 < 2**32",
        "AMD's documentation of hipModuleLaunchKernel; public reports",
        lambda s: (
            s.grid[0] * s.num_ctas * s.num_warps * HIP_WIDEST_WARP > HIP_MAX_WORK_ITEMS
        ),
    ),
    LaunchLimit(
        "hip-y",
        "hip",
        "cost",
        "y <= 65,535",
        "reported by rocminfo; seen exceeded on MI300X",
        lambda s: s.grid[1] > CUDA_MAX_YZ,
    ),
    LaunchLimit(
        "hip-z",
        "hip",
        "cost",
        "z <= 65,535",
        "reported by rocminfo; seen exceeded on MI300X",
        lambda s: s.grid[2] > CUDA_MAX_YZ,
    ),
)


@lru_cache(maxsize=64)  # a launch is asked for when it is made and when it is judged
def broken_limits(shape: LaunchShape) -> tuple[LaunchLimit, ...]:
    """Return every row that the launch breaks, in the order it would meet them."""
    return tuple(limit for limit in LIMITS if limit.breaks(shape))


def launch_fate(shape: LaunchShape, backend: str) -> tuple[Fate, LaunchLimit | None]:
    """Return what a platform does with a launch, and the row that decides it.

    Args:
        shape: The launch.
        backend: ``"cuda"`` or ``"hip"``.
    """
    for limit in broken_limits(shape):
        if limit.platform in ("any", backend) and limit.effect != "cost":
            return limit.effect, limit
    return "runs", None
