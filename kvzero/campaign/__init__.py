"""Running many cases: verifying files and presets, fuzzing, replaying."""
