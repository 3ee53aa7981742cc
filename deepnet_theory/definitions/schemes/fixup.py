from deepnet_theory.definitions.scheme import Scheme, SchemePart

FIXUP = Scheme(
    name="fixup",
    equation="x + learnt(1)*branch(x)",
    final_norm=False,
    optimizer="sgd",
    parts=(
        SchemePart(
            "encoder",
            gains={
                "query": "(2*N)**(-1/6)",
                "key": "(2*N)**(-1/6)",
                "value": "(2*N)**(-1/6)",
                "output": "0",
                "fc1": "(2*N)**(-1/2)",
                "fc2": "0",
            },
        ),
    ),
    summary="no norm; the last matrix of a branch 0, the others small by the branch's length",
    source="Zhang, Dauphin and Ma, arXiv 1901.09321",
    mind="attention counts as a branch of m = 4 matrices; the power of 2N is -1/(2m - 2)",
)
