"""Print what the fault tests saw as the table of docs/federation.md: `python table.py faults.jsonl`."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def table(lines: list[str]) -> str:
    """Return the lines of a fault log as a Markdown table; of two of one fault the later counts."""
    seen = {one["fault"]: one for one in map(json.loads, lines)}
    rows = [f"| {one['fault']} | {one['seen'].replace('|', '/')} | {one['seconds']:.1f} |" for one in seen.values()]
    return "\n".join(["| fault | what was seen | s |", "|---|---|---:|", *rows])


if __name__ == "__main__":
    print(table(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
