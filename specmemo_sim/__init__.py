"""SpecMemo's simulator: memory, acceptance and speed of speculative decoding on a device.

The names below are loaded on first use, so that ``specmemo --help`` starts at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specmemo_sim.acceptance.profile import load_profile as load_profile
    from specmemo_sim.inputs.catalog import load_device as load_device
    from specmemo_sim.inputs.catalog import load_devices as load_devices
    from specmemo_sim.inputs.hf_config import model_from_config as model_from_config
    from specmemo_sim.inputs.model_source import load_model as load_model
    from specmemo_sim.inputs.workload import Workload as Workload
    from specmemo_sim.planner.explain import explain as explain
    from specmemo_sim.planner.make_plan import make_plan as make_plan
    from specmemo_sim.planner.plan import Plan as Plan
    from specmemo_sim.planner.plan import read_plan as read_plan
    from specmemo_sim.planner.plan import write_plan as write_plan
    from specmemo_sim.planner.request import PlanRequest as PlanRequest
    from specmemo_sim.planner.search import plan_search as plan_search
    from specmemo_sim.tree.token_tree import TokenTree as TokenTree
    from specmemo_sim.tree.tree_file import load_tree as load_tree

__version__ = "0.1.0"

_HOME = {
    "Plan": "planner.plan",
    "PlanRequest": "planner.request",
    "TokenTree": "tree.token_tree",
    "Workload": "inputs.workload",
    "explain": "planner.explain",
    "load_device": "inputs.catalog",
    "load_devices": "inputs.catalog",
    "load_model": "inputs.model_source",
    "load_profile": "acceptance.profile",
    "load_tree": "tree.tree_file",
    "make_plan": "planner.make_plan",
    "model_from_config": "inputs.hf_config",
    "plan_search": "planner.search",
    "read_plan": "planner.plan",
    "write_plan": "planner.plan",
}
"""Module of each public name."""

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    """A public name, imported now."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    """The public names."""
    return __all__
