"""Exact bytes of every part, and intervals for what can only be estimated."""
