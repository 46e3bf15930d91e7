"""The audit page: one HTML file that says what was calibrated, who was left out and why, and what can be relied on.

`page.render(calibration, evaluation)` makes it from the bodies of the JSON files alone; it opens offline.
"""
