r"""When ReLU's true mask may be treated as a fair coin.

The mask R_k = 1[(xW)_k > 0] is a function of column k of W. Under W_{·k} → −W_{·k} it becomes
1 − R_k, and a Gaussian column keeps its law. So for f even in the column E[R_k f] = E f / 2,
which is what an independent coin gives; for odd f it gives E[sign f]/2, the coin gives 0.
Columns are independent, hence a polynomial that is even in every column of W, once the other
random tensors have been contracted, has the coin's expectation exactly.
"""

from __future__ import annotations

from collections import Counter
from itertools import product as every

from paper_checks.shared.expectation import (
    Factor,
    Index,
    Polynomial,
    Tensor,
    Term,
    partitions_into,
)


def even_in_columns(polynomial: Polynomial, tensor: Tensor, axis: int = 1) -> bool:
    """Whether every surviving term is even in each column of ``tensor``.

    The other centred Gaussian tensors are contracted in pairs first; masks are left alone.
    """
    return all(_even(term, tensor, axis) for term in polynomial.terms)


def _even(term: Term, tensor: Tensor, axis: int) -> bool:
    groups: dict[Tensor, list[Factor]] = {}
    for factor in term.factors:
        law = factor.tensor.law
        if law is not None and factor.tensor != tensor and law.moment(1) == 0:
            groups.setdefault(factor.tensor, []).append(factor)
    pairings = [list(partitions_into(factors, {2})) for factors in groups.values()]
    for choice in every(*pairings):
        names: dict[Index, Index] = {}

        def root(index: Index, names: dict[Index, Index] = names) -> Index:
            while index in names:
                index = names[index]
            return index

        for blocks in choice:
            for first, second in blocks:
                for a, b in zip(first.indices, second.indices, strict=True):
                    a, b = root(a), root(b)
                    if a != b:
                        names[a] = b
        columns = Counter(root(f.indices[axis]) for f in term.factors if f.tensor == tensor)
        if any(count % 2 for count in columns.values()):
            return False
    return True
