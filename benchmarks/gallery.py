"""Run every script that reproduces a figure of a published paper; save figures and tables for the site's gallery.

`benchmarks/gallery.toml` lists the figures. Figures and printed tables are written to `benchmarks/figures/`.

    python -m benchmarks.gallery --seed 1 [--quick] [--names knorm_figure1 ...]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

from benchmarks.common import FIGURES, verdict

LIST = Path(__file__).with_suffix(".toml")


def drawn(script: str, options: list[str]) -> bool:
    """Run a script, save its command and output to a text file, and return whether its targets were met."""
    command = ["-m", f"benchmarks.{script}", *options]
    print("python", *command, flush=True)
    run = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    FIGURES.mkdir(parents=True, exist_ok=True)
    shown = f"python {' '.join(command)}\n\n{run.stdout.replace(str(FIGURES), 'benchmarks/figures').strip()}\n"
    (FIGURES / f"{script}.txt").write_text(shown)
    print(run.stderr, end="")
    return run.returncode == 0


def main() -> int:
    """Run the scripts; return 1 if a script failed or missed a target, and 0 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--quick", action="store_true", help="fewer replicates, and smaller samples")
    parser.add_argument("--names", nargs="*", help="scripts to run; by default all")
    given = parser.parse_args()
    missed = []
    for figure in tomllib.loads(LIST.read_text())["figure"]:
        script = figure["script"]
        if given.names is None or script in given.names:
            options = ["--seed", str(given.seed), *(figure.get("quick", []) if given.quick else [])]
            if not drawn(script, options):
                missed.append(f"{script}: see {script}.txt in {FIGURES}")
    return verdict(missed)


if __name__ == "__main__":
    sys.exit(main())
