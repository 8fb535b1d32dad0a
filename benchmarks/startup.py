"""Start-up of the command line, as ratios to what it cannot do without.

``specmemo plan`` against importing numpy, scipy.optimize and pydantic; ``specmemo --help`` against
importing click. Run: python benchmarks/startup.py
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 9
SPECMEMO = str(Path(sys.executable).with_name("specmemo"))
PLAN = [SPECMEMO, "plan", "lmsys/vicuna-7b-v1.3", "--device", "nvidia-titan-rtx", "--turns", "20"]
PAIRS = (
    ("specmemo plan", PLAN, "import numpy, scipy.optimize, pydantic"),
    ("specmemo --help", [SPECMEMO, "--help"], "import click"),
)


def median_s(command: list[str]) -> float:
    """Median wall time of a process over the repeats, the first (cold) one dropped."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    """Print one line per pair: both times and their ratio (the bar is 3)."""
    for name, command, imports in PAIRS:
        ours, floor = median_s(command), median_s([sys.executable, "-c", imports])
        print(f"{name}: {ours:.3f} s, python -c '{imports}': {floor:.3f} s, {ours / floor:.2f}x")


if __name__ == "__main__":
    main()
