"""Which backend multiplies the experts, whatever the checkpoint's quantisation."""

from __future__ import annotations

from m3probe.fastpaths._experts import Pick, no_such_word
from m3probe.fastpaths._experts_mxfp4 import mxfp4_pick
from m3probe.fastpaths._experts_mxfp8 import mxfp8_pick
from m3probe.fastpaths._tp_group import no_amd
from m3probe.schema.setup import Setup


def pick(setup: Setup) -> Pick:
    """The backend by the checkpoint's quantisation."""
    if no_such_word(setup):
        return Pick(None, no_such_word(setup), starts=False)
    if no_amd(setup):
        return Pick(None, no_amd(setup), None)
    by_quant = {"mxfp8": mxfp8_pick, "mxfp4": mxfp4_pick}
    quant = setup.model.moe_quant
    if quant in by_quant:
        return by_quant[quant](setup)
    return Pick(None, f"experts are {quant}: not judged" if quant else "the experts' quantisation is not known", None)
