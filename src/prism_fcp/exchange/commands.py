"""Which function runs which command of this room."""

from __future__ import annotations

from prism_fcp.exchange import desk, site, use

COMMANDS = {
    "spec": desk.spec,
    "keygen": site.keygen,
    "trust": desk.trust,
    "summarize": site.summarize_file,
    "calibrate": desk.calibrate,
    "withdraw": desk.withdraw,
    "audit": desk.audit,
    "predict": use.predict,
    "evaluate": use.evaluate,
    "report": desk.report,
}
