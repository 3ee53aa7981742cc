from deepnet_theory.spec.assumption import Assumption

WIDE_HIDDEN_LAYER = Assumption(
    name="wide-hidden-layer",
    statement="the branch's inner width is at least the model's: m ≥ d",
    source="layer cake, §5.1",
)
