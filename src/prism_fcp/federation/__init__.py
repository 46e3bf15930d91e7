"""A real federation on Flower: partial sharing on the wire, robust rounds, calibration, resume.

Only this room imports flwr, and only in the files that speak to it.
"""
