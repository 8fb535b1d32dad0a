"""Speed of the simulator's building blocks, as times and as ratios to a plain loop over the nodes.

Best-first trees of 64 and 1024 nodes, weights of 94 layers with 128 experts each, one search.
Run: python benchmarks/library_speed.py
"""

import statistics
import time
from collections.abc import Callable

from specmemo_sim.acceptance.profile import load_profile
from specmemo_sim.inputs.catalog import load_device
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model_source import load_model
from specmemo_sim.inputs.quantization import cast_format, uniform_format
from specmemo_sim.inputs.workload import Workload
from specmemo_sim.memory.weights import weight_bytes
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.planner.search import plan_search
from specmemo_sim.tree.optimize import best_first

REPEATS = 15


def median_ms(work: Callable[[], object]) -> float:
    """Median milliseconds of a call, the first one dropped."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[1:])


def main() -> None:
    """Print one line per building block."""
    table = load_profile("medusa-vicuna-7b").rank_probabilities(10)
    experts = load_model("Qwen/Qwen3-235B-A22B-FP8")
    request = PlanRequest(
        model=load_model("lmsys/vicuna-7b-v1.3"),
        device=load_device("nvidia-titan-rtx"),
        workload=Workload(turns=6),
    )
    rows: list[tuple[str, Callable[[], object]]] = [
        ("best-first tree, 64 nodes", lambda: best_first(table, 64)),
        ("best-first tree, 1024 nodes", lambda: best_first(table, 1024)),
        (
            "weights, 94 layers x 128 experts, bf16",
            lambda: weight_bytes(experts, cast_format(DType.BF16)),
        ),
        ("weights, the same in int4", lambda: weight_bytes(experts, uniform_format(4))),
        ("search, Vicuna-7B on a Titan RTX", lambda: plan_search(request)),
    ]
    unit = median_ms(lambda: sum(range(100_000)))
    print(f"unit, sum of 100,000 integers: {unit:.2f} ms")
    for name, work in rows:
        took = median_ms(work)
        print(f"{name}: {took:.2f} ms, {took / unit:.2f} units")


if __name__ == "__main__":
    main()
