"""The footprint executor: kernels evaluated from Triton's IR, with no GPU."""

from kvzero.executors.footprint.executor import FootprintExecutor

__all__ = ["FootprintExecutor"]
