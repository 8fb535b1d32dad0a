"""Where the bundled data lies; ``specmemo_sim.inputs.catalog`` reads it."""

from pathlib import Path

# Not importlib.resources: the wheel is always installed unpacked, and start-up time counts.
_HERE = Path(__file__).parent

DEVICES = _HERE / "devices"
"""Folder of ``<id>.toml``, one device each."""
MODELS = _HERE / "models"
"""Folder of ``<org>--<name>.toml``, one model configuration each."""
EFFICIENCY = _HERE / "efficiency.toml"
"""Fractions of peak reached and fixed costs, by class of device."""
