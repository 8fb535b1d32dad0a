"""Placeholder until the family rules are written."""

from collections.abc import Callable

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.parts import Decoder

LATENT_RULES: dict[str, Callable[[ConfigReader], Decoder]] = {}
