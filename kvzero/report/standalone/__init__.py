"""What an exported script does: lay out memory, run the calls, look at every byte.

`kvzero.report.export` copies these modules into the script, with the zeroer under test
and `kvzero.limits`. So they build on torch, Triton and NumPy alone, and repeat in a
plain way what the harness does well: an upstream reader has to see at a glance that the
check is right.
"""
