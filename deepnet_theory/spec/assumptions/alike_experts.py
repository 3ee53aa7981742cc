from deepnet_theory.spec.assumption import Assumption

ALIKE_EXPERTS = Assumption(
    name="alike-experts",
    statement=(
        "all experts are chosen equally often and weighed equally, their outputs are independent, "
        "and the tokens of a batch push them in one direction; tokens that each push their own way "
        "give SGD up to E/k times more and sign-like updates up to sqrt(E/k) times more"
    ),
    source="derived here",
)
