"""The numbers by which kernels know rules, attacks and columns. Without numba, so settings can be looked at cheaply."""

from __future__ import annotations

from typing import Final

# Rules. A median is a trimmed mean that trims all it can; Krum is Multi-Krum that selects one.
MEAN, MEAN_OF_SHARERS, TRIMMED_MEAN, KRUM, TABLE = range(5)
# Attacks. A sleeper is a shift that starts late; label flip sends what the attacker learned.
NO_ATTACK, GAUSSIAN, ALIE, SIGN_FLIP, SHIFT, CONCENTRATE, PUSH, LABEL_FLIP = range(8)
INNER_PRODUCT, FIRST, NOISIEST, HIGHEST, LOWEST, MIN_MAX, MIN_SUM = range(8, 15)  # all attackers send the same
IMITATIONS: Final = (ALIE, INNER_PRODUCT, FIRST, NOISIEST, HIGHEST, LOWEST, MIN_MAX, MIN_SUM)
# Columns of an arm's row in `Arms.table`.
EXCHANGE, NUM_SHARED, UPLOAD, DOWNLOAD, RULE, TRIM, SUSPECTS, CLOSEST, SELECTED, LEAST = range(10)
DOWN_SHARED, AVERAGED_FROM, SLOT, FIRST_LOOK, EVERY, MEAN_SLOT = range(10, 16)
ARM_COLUMNS: Final = 16
# Columns of an arm's row in `Arms.numbers`.
MIXING, CLIP, POWER, CUTOFF, ALIGNED, CLIENT_POWER = range(6)
NUMBERS: Final = 6
DEFAULT: Final = -1  # a `closest` or `selected` the rule works out from the number of uploads
# Columns of a deck's row in `Arms.decks`, and what its first column may hold.
KIND, COMMON, UNITS = range(3)
SEND_THIS_ROUND, SEND_LAST_ROUND, RECEIVE, EVERYTHING = range(4)
# Columns of `State.counts` and of `State.sums`.
COORDINATES, INJECTIONS, REFUSALS, WEAKENED, DIVERGED_AT = range(5)
COUNTS: Final = 5
A_POSTERIORI, GLOBAL_MSD, LOCAL_MSD, ENERGY = range(4)
# What the readable rules and the kernels must have alike. The ledger: median absolute deviations in a standard
# deviation, the most one squared distance counts for, the least a distance is, the clients that judging takes.
NORMAL, FARTHEST, LEAST_DISTANCE, ENOUGH = 1.4826, 1e6, 1e-12, 4
ROUNDING: Final = 1e-6  # a spread below so much of the middle is float32's, not the clients'
CLIP_RATE: Final = 0.05  # by which the running norm of a clipped rule steps up or down, a round
# The table's median: weights below the first are no weight, sums within the second of half the weight are half of it.
NO_WEIGHT, SLACK = 1e-6, 1e-12
# The ledger: an entry whose weight is a smaller share of this round's is old news, which is not judged.
FRESH: Final = 0.05
# The ledger's search for a common direction: passes, steps of the power iteration, clients below which it is not tried.
PASSES, STEPS, MANY = 3, 30, 10
TIE: Final = 1 - 1e-4  # the noisiest client is farther than the one before it by more than this
