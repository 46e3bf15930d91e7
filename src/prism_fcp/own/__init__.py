"""Data of your own, from the command line: a table goes in, a calibrated predictor and its page come out."""
