"""The numbers by which kernels know rules, attacks and columns. Without numba, so settings can be looked at cheaply."""

from __future__ import annotations

from typing import Final

# Rules. A median is a trimmed mean that trims all it can; Krum is Multi-Krum that selects one.
MEAN, MEAN_OF_SHARERS, TRIMMED_MEAN, KRUM = range(4)
NO_ATTACK, GAUSSIAN, ALIE = range(3)
# Columns of an arm's row in `Arms.table`.
EXCHANGE, NUM_SHARED, UPLOAD, DOWNLOAD, RULE, TRIM, SUSPECTS, CLOSEST, SELECTED, LEAST = range(10)
ARM_COLUMNS: Final = 10
DEFAULT: Final = -1  # a `closest` or `selected` the rule works out from the number of uploads
# Columns of a deck's row in `Arms.decks`, and what its first column may hold.
KIND, COMMON, UNITS = range(3)
SEND_THIS_ROUND, SEND_LAST_ROUND, RECEIVE, EVERYTHING = range(4)
# Columns of `State.counts` and of `State.sums`.
COORDINATES, INJECTIONS, REFUSALS, WEAKENED, DIVERGED_AT = range(5)
COUNTS: Final = 5
A_POSTERIORI, GLOBAL_MSD, LOCAL_MSD, ENERGY = range(4)
