"""Phase 1, robust training: sharing, local steps, aggregation rules, attacks, and the readable loop."""
