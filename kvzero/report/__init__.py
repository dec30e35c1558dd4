"""Verdicts in the form that a reader wants: located text and one JSON object."""
