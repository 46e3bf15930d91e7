"""Fuzzing of summaries: `python -m tests.fuzz --cases 200000 --seed 1`; docs/security.md has the figures."""
