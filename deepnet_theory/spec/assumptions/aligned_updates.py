from deepnet_theory.spec.assumption import Assumption

ALIGNED_UPDATES = Assumption(
    name="aligned-updates",
    statement=(
        "the sublayers' changes of the output point in similar directions, so that their sizes add"
    ),
    measurement="aligned_updates",
    slope=0.0,
    source="Su, §Increment explosion",
)
