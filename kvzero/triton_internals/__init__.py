"""Everything that kvzero needs of Triton beyond what Triton promises.

Two ways to see launches. `dry_driver` puts a driver in place that has no device: a
launch goes through Triton's own binder, specialisation key, compile cache and compiler,
to machine code, and is handed to a callback instead of launched. `recording_launches`
wraps the launcher of the driver that is active, so that real launches are seen on their
way to the device. Both report the same `LaunchEvent`. No function of Triton is patched
for them; for its interpreter, which has no launcher, one is (`interpreter`).

Where a newer Triton has moved something, one `EnvironmentMissingError` names it.
"""

from kvzero.triton_internals.dry import DryDriver, dry_driver
from kvzero.triton_internals.internals import TRITON_VERSION, warm_cache_key
from kvzero.triton_internals.kernels import (
    Kernel,
    LaunchEvent,
    OnLaunch,
    Parameter,
    gpu_target,
    platform_of,
)
from kvzero.triton_internals.recording import recording_launches

__all__ = [
    "TRITON_VERSION",
    "DryDriver",
    "Kernel",
    "LaunchEvent",
    "OnLaunch",
    "Parameter",
    "dry_driver",
    "gpu_target",
    "platform_of",
    "recording_launches",
    "warm_cache_key",
]
