"""What holds for all tests."""

from hypothesis import settings

# A busy machine is no failure: time is measured in benchmarks, never asserted in tests.
settings.register_profile("kvzero-tests", settings.default, deadline=None)
settings.load_profile("kvzero-tests")
