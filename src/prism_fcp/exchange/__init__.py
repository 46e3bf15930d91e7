"""Calibration by files: what a site reads and sends, what a coordinator keeps and hands back, and their commands."""
