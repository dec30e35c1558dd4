"""Implementations under test: the protocol, the registry and the built-in subjects."""
