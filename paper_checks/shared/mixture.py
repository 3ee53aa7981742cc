"""A small mixture of experts with explicit matrices: one step, and what noise each group sees.

Every token x goes to one of E experts, :math:`y = (D + W_e) x`, against a teacher and labels with
noise. A is the error of D, C_e that of an expert, both of normal entries, as ξ.
"""

from __future__ import annotations

from dataclasses import dataclass

from paper_checks.shared.later import Array, np

SIDE = 12


def polar(g: Array) -> Array:
    """U Vᵀ of the singular value decomposition: Muon's update."""
    u, _, v = np.linalg.svd(g, full_matrices=False)
    found: Array = u @ v
    return found


@dataclass(frozen=True)
class Mixture:
    """E experts, one for each token; ``tokens`` a batch, labels with noise of this size."""

    experts: int
    tokens: int
    noise: float
    seed: int

    def gradients(self, batches: int) -> dict[str, Array]:
        """The gradients of D, and of all experts, in batches; "mean" in front without noise."""
        source, e = np.random.default_rng(self.seed), self.experts
        own = source.standard_normal((e + 1, SIDE, SIDE))
        errors = own[:1] + own[1:]  # A + C_e, of every expert
        dense, sparse = np.zeros((batches, 1, SIDE, SIDE)), np.zeros((batches, e, SIDE, SIDE))
        for batch in range(batches):
            x = source.standard_normal((self.tokens, SIDE))
            to = source.integers(e, size=self.tokens)
            wrong = np.einsum("tij,tj->ti", errors[to], x)
            wrong += self.noise * source.standard_normal(wrong.shape)
            each = wrong[:, :, None] * x[:, None, :] / self.tokens
            dense[batch, 0] = each.sum(0)
            mine = (to == np.arange(e)[:, None]).astype(float)
            sparse[batch] = (mine @ each.reshape(self.tokens, -1)).reshape(e, SIDE, SIDE)
        means = {"mean dense": errors.mean(0)[None, None], "mean experts": errors[None] / e}
        return {"dense": dense, "experts": sparse, **means}


def over_noise(found: dict[str, Array], group: str) -> float:
    """B_noise over the batch, from batches: tr Σ/|G|² of a group, |G|² without its noise."""
    g = found[group]
    spread = float(g.var(axis=0, ddof=1).sum())
    signal = float((g.mean(0) ** 2).sum()) - spread / len(g)
    return spread / signal


def best(found: dict[str, Array], group: str) -> Array:
    """The rate of one step by polar factors that gains most over that without noise, by batch.

    Every expert sees its share of the tokens, and so does the curvature: both cancel in the ratio.
    """
    mean, alone = found[f"mean {group}"], polar(found[f"mean {group}"])
    limit = (alone * mean).sum() / (alone**2).sum()
    u = polar(found[group])
    gained = (u * mean).sum((1, 2, 3)) / (u**2).sum((1, 2, 3))
    return np.asarray(gained / limit)
