"""Which rule reads which ``model_type``."""

from collections.abc import Callable

from specmemo_sim.inputs.config_reader import ConfigReader
from specmemo_sim.inputs.families.classic import CLASSIC_RULES
from specmemo_sim.inputs.families.dense import DENSE_RULES, build_dense
from specmemo_sim.inputs.families.hybrid import HYBRID_RULES
from specmemo_sim.inputs.families.latent import LATENT_RULES
from specmemo_sim.inputs.families.moe import MOE_RULES
from specmemo_sim.inputs.families.parts import Decoder
from specmemo_sim.inputs.families.remote_code import REMOTE_CODE_RULES

Rule = Callable[[ConfigReader], Decoder]

RULES: dict[str, Rule] = {
    **dict.fromkeys(DENSE_RULES, build_dense),
    **CLASSIC_RULES,
    **REMOTE_CODE_RULES,
    **MOE_RULES,
    **LATENT_RULES,
    **HYBRID_RULES,
}
