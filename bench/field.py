"""Measures the share of exact traces of real applications: `bench/accuracy --field`.

usage: bench/accuracy --field [--users 1,10,…] [--requests N] [--runs R] [--stack NAME…] [--keep DIR] [--page-only]

Each stack of tests/apps/field runs under `wirespan run` in a network namespace of its own. The logs of its servers
are the truth. Of R runs the worst counts. Results go to docs/accuracy/field.json, and from it to
docs/accuracy/field.svg and the tables between the marks of docs/accuracy.md. The leaf's pause grows with the users
(3 ms for each), so that users do not merely wait for two processors. `--keep` keeps what each cell left: its traces,
its spans before their causes were inferred (`cargo run -p wirespan-ship --example replay` infers them again), and the
logs of its servers. Needs root and a built target/release/wirespan (WIRESPAN names another).
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIELD = ROOT / "tests/apps/field"
WIRESPAN = os.environ.get("WIRESPAN", str(ROOT / "target/release/wirespan"))
RESULTS = ROOT / "docs/accuracy/field.json"
PLOT = ROOT / "docs/accuracy/field.svg"
PAGE = ROOT / "docs/accuracy.md"
MARKS = ("<!-- bench/accuracy --field: begin -->\n", "<!-- bench/accuracy --field: end -->\n")
USERS = (1, 10, 50, 200)
PAUSE_US = 3000  # for each user

sys.path.insert(0, str(FIELD))

from stacks import STACKS  # noqa: E402 - from tests/apps/field


@contextlib.contextmanager
def folder_of(cell, keep):
    """Where a cell leaves its files; without `keep` they go when it has been compared."""
    if keep:
        folder = pathlib.Path(keep).resolve() / cell
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        yield folder
    else:
        with tempfile.TemporaryDirectory(prefix="wirespan-field-") as scratch:
            os.chmod(scratch, 0o755)  # the database runs as a user of its own
            yield pathlib.Path(scratch)


def measure(name, users, requests, keep=None):
    """What compare.py says of one run, or why there is nothing to compare."""
    with folder_of(f"{name}-{users}", keep) as folder:
        work, spans = folder / "work", folder / "spans.jsonl"
        command = [WIRESPAN, "run", "--no-ui", "--print", "0", "--config", FIELD / "masks.toml", "--otlp-file", spans]
        command += ["--", sys.executable, FIELD / "run.py", "--dir", work, "--users", users, "--requests", requests]
        command += ["--pause-us", users * PAUSE_US, name]
        env = {**os.environ, "WIRESPAN_RECORD_SPANS": str(folder / "recorded")} if keep else None
        try:
            ran = subprocess.run([str(w) for w in command], capture_output=True, text=True, timeout=600, env=env)
        except subprocess.TimeoutExpired:
            return {"failed": "no end in 600 s"}
        load = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"stack"')]
        if not load:
            return {"failed": (ran.stdout + ran.stderr)[-400:]}
        if "skipped" in load[0]:
            return load[0]
        compare = [sys.executable, str(FIELD / "compare.py"), "--format", "json", str(spans), str(work)]
        compared = subprocess.run(compare, capture_output=True, text=True, timeout=600)
        if compared.returncode:
            return {"failed": compared.stderr[-400:]}
        lost = [line.strip() for line in ran.stderr.splitlines() if "lost" in line]
        return {**json.loads(compared.stdout), "load": load[0], "lost": lost}


def commit():
    git = ["git", "-C", str(ROOT)]
    said = subprocess.run([*git, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    dirty = subprocess.run(
        [*git, "status", "--porcelain", "--", "crates", "src"], stdout=subprocess.PIPE, text=True
    ).stdout
    return said + ("+" if dirty.strip() else "")


def percent(share):
    """Never rounded up to 100 %."""
    return "100 %" if share == 1 else f"{int(share * 1000) / 10:.1f} %"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"


def aim(stack, users):
    return STACKS[stack].aim[USERS.index(users)] if users in USERS else 0


def page(rows):
    """What stands between the marks."""
    users = sorted({row["users"] for row in rows})
    cells = {(row["stack"], row["users"]): row for row in rows}
    body, wrong = [], []
    for name in (name for name in STACKS if any((name, u) in cells for u in users)):
        said, routes = [], collections.Counter()
        for u in users:
            row = cells.get((name, u))
            if not row:
                said.append("–")
                continue
            share = percent(row["share"])
            said.append(f"**{share}**" if row["share"] * 100 < aim(name, u) else share)
            sure, bad = row["links at 0.9"], row["wrong at 0.9"]
            routes["sure"] += sure
            routes["bad"] += bad
        body.append([name, STACKS[name].what, *said, f"{routes['bad']:,} of {routes['sure']:,}"])
    bins = collections.defaultdict(lambda: [0, 0.0, 0.0])
    for row in rows:
        for low, (n, mean, right) in row["confidence"].items():
            at = bins[low]
            at[0], at[1], at[2] = at[0] + n, at[1] + n * mean, at[2] + n * right
    calibration = [
        [f"{float(low):.1f}–{float(low) + 0.1:.1f}", f"{n:,}", f"{c / n:.3f}", percent(r / n)]
        for low, (n, c, r) in sorted(bins.items())
    ]
    where = sorted({(row["commit"], row["date"], row["kernel"], row["machine"], row["asked"]) for row in rows})
    return "\n".join(
        [
            f"![Real applications: traces exactly right by stack and users](accuracy/{PLOT.name})\n",
            "**Bold**: below the aim. The last column: links stated at 0.9 or more that are wrong.\n",
            table(["stack", "what", *(f"{u} users" if u > 1 else "1 user" for u in users), "wrong at ≥ 0.9"], body),
            "Confidence over all of them:\n",
            table(["confidence", "links", "mean", "right"], calibration),
            table(["commit", "date", "kernel", "machine", "requests a cell"], where),
            *wrong,
        ]
    )


def plot(rows):
    """Stacks down, users across, the share as number and colour."""
    users = sorted({row["users"] for row in rows})
    cells = {(row["stack"], row["users"]): row["share"] for row in rows}
    names = [name for name in STACKS if any((name, u) in cells for u in users)]
    left, top, wide, high = 160, 40, 78, 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide * len(users) + 10} '
        f'{top + high * len(names) + 10}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{left}" y="14" font-weight="bold">traces exactly right, by users; green: the aim</text>',
    ]
    for c, u in enumerate(users):
        out.append(f'<text x="{left + c * wide + wide / 2}" y="{top - 6}" text-anchor="middle">{u}</text>')
    for r, name in enumerate(names):
        y = top + r * high
        out.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{name}</text>')
        for c, u in enumerate(users):
            if (name, u) not in cells:
                continue
            share, wanted = cells[name, u] * 100, aim(name, u)
            fill = "hsl(130,50%,75%)" if share >= wanted else f"hsl({share / max(wanted, 1) * 55:.0f},80%,72%)"
            x = left + c * wide
            out.append(f'<rect x="{x}" y="{y}" width="{wide - 2}" height="{high - 2}" fill="{fill}"/>')
            out.append(f'<text x="{x + wide / 2}" y="{y + 13}" text-anchor="middle">{percent(share / 100)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def write(rows):
    RESULTS.write_text("[\n" + ",\n".join(json.dumps(row, sort_keys=True) for row in rows) + "\n]\n")
    text = PAGE.read_text()
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(before + MARKS[0] + page(rows) + MARKS[1] + after)
    PLOT.write_text(plot(rows))


def main(words):
    parser = argparse.ArgumentParser(prog="bench/accuracy --field", description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=lambda text: [int(n) for n in text.split(",")], default=list(USERS))
    parser.add_argument("--requests", type=int, default=2000, metavar="N")
    parser.add_argument("--runs", type=int, default=1, metavar="R", help="the worst of so many runs counts (1)")
    parser.add_argument("--stack", nargs="+", choices=list(STACKS), metavar="NAME", default=list(STACKS))
    parser.add_argument("--keep", metavar="DIR", help="keep the spans and logs of each cell there")
    parser.add_argument("--page-only", action="store_true", help="make the page from the kept results")
    args = parser.parse_args(words)
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    if args.page_only:
        write(rows)
        return 0
    failures = 0
    cells = [(users, name) for users in args.users for name in args.stack]
    for n, (users, name) in enumerate(cells, 1):
        found = [measure(name, users, args.requests, args.keep) for _ in range(args.runs)]
        good = [run for run in found if "share" in run]
        if len(good) < len(found):
            why = next(run for run in found if "share" not in run)
            failures += "failed" in why
            print(f"[{n}/{len(cells)}] {name:16} {users:4} users  {why}", flush=True)
            continue
        worst = min(good, key=lambda run: run["share"])
        routes = "  ".join(f"{route} {a / of * 100:.1f}" for route, (a, of) in worst["routes"].items())
        print(
            f"[{n}/{len(cells)}] {name:16} {users:4} users  {percent(worst['share']):>8} exact  {routes}  "
            f"wrong at ≥ 0.9: {worst['wrong at 0.9']} of {worst['links at 0.9']}  {'; '.join(worst['lost'])}",
            flush=True,
        )
        worst.pop("differences", None)
        row = {
            "stack": name,
            "users": users,
            "date": time.strftime("%Y-%m-%d"),
            "kernel": platform.release(),
            "machine": f"{os.cpu_count()} processors",
            "commit": commit(),
            "asked": args.requests,
            "runs": args.runs,
            **worst,
        }
        rows = [r for r in rows if (r["stack"], r["users"]) != (name, users)] + [row]
        write(rows)
    return 1 if failures else 0
