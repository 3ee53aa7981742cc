from deepnet_theory.spec.assumption import Assumption

STATED_REGIME = Assumption(
    name="stated-regime",
    statement="where the update adds or compares unlike terms, the stated side is the larger",
    source="derived here",
)
