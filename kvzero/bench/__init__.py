"""What zeroing costs, and what testing a zeroer costs: `kvzero bench`.

Subjects are timed against each other and against one memset of as many bytes, in one
run on one machine; nothing here judges, beyond that a wrong result is never timed.
"""
