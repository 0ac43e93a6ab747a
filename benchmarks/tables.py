"""The rows of a report, and where and of what they were measured."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def commit():
    git = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return git.stdout.strip()


def machine():
    model = next((text.split(":", 1)[1].strip() for text in Path("/proc/cpuinfo").read_text().splitlines() if text.startswith("model name")), "unknown processor")
    return f"{os.cpu_count()} x {model}"


def row(what, ours, theirs, judged, bar, kind):
    is_met = None if bar is None else (judged >= bar if kind == "at least" else judged <= bar)
    return {"what": what, "ours": ours, "beside": theirs, "judged": round(judged, 3), "bar": bar if bar is None else f"{kind} {bar}", "met": is_met}


def report(rows):
    lines = ["| | ours | beside | judged | bar | | load |", "|---|---|---|---|---|---|---|"]
    verdict = {True: "met", False: "**missed**", None: ""}
    lines += [f"| {one['what']} | {one['ours']} | {one['beside']} | {one['judged']} | {one['bar'] or ''} | {verdict[one['met']]} | {one['load'][0]} to {one['load'][1]} |" for one in rows]
    return "\n".join(lines) + "\n"
