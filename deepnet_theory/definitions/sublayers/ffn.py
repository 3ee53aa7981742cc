from deepnet_theory.definitions.sublayer import Sublayer

FFN = Sublayer(
    branch="phi(x*fc1 + fc1_bias)*fc2 + fc2_bias",
    summary="feed-forward with one hidden layer",
    source="Su, §Feed-forward gradient; layer cake, §5.1",
)
