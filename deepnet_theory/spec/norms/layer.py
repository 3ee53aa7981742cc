from deepnet_theory.spec.norm import Norm

LAYER = Norm(name="layer", centred=True, bias=True, summary="LayerNorm")
