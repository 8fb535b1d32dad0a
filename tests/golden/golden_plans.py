"""The plans kept as golden files, and how they are made.

Run ``python tests/golden/golden_plans.py`` to rewrite them after a wanted change, then read the
difference.
"""

import json
from pathlib import Path

from specmemo_sim.inputs.catalog import load_device
from specmemo_sim.inputs.model_source import load_model
from specmemo_sim.inputs.workload import Workload
from specmemo_sim.planner.make_plan import make_plan
from specmemo_sim.planner.plan import plan_document
from specmemo_sim.planner.request import PlanRequest
from specmemo_sim.planner.search import plan_search

FOLDER = Path(__file__).parent / "plans"
REQUESTS = {
    "vicuna-7b-titan-rtx": ("lmsys/vicuna-7b-v1.3", "nvidia-titan-rtx", Workload(turns=20)),
    "llama-3-8b-h100": (
        "meta-llama/Meta-Llama-3-8B",
        "nvidia-h100-sxm",
        Workload(context=8192, batch=8),
    ),
    "gemma-2-9b-rtx-4090": ("google/gemma-2-9b", "nvidia-rtx-4090", Workload(turns=8)),
    "qwen3.5-27b-m4-max": ("Qwen/Qwen3.5-27B", "apple-m4-max-128gb", Workload(turns=4)),
    "deepseek-r1-b200": ("deepseek-ai/DeepSeek-R1", "nvidia-b200-sxm", Workload(turns=4)),
}


def golden_text(name: str) -> str:
    """The plan file of a request, as it would be written now."""
    model, device, workload = REQUESTS[name]
    request = PlanRequest(model=load_model(model), device=load_device(device), workload=workload)
    document = plan_document(make_plan(plan_search(request)))
    # The inventory of tensors has tests of its own and would drown the rest.
    del document["model"], document["device"], document["digest"]
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in REQUESTS:
        (FOLDER / f"{name}.json").write_text(golden_text(name), encoding="utf-8")
