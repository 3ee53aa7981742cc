from deepnet_theory.spec.closure import Closure

LEARNING_RATE = Closure(
    name="learning-rate",
    conditions=(("alpha", "1"), ("beta", "1")),
    knobs=("alpha", "beta", "eta"),
    summary="the plain network, balanced by the learning rate alone",
    source="Su, §Increment explosion, warm-up",
)
