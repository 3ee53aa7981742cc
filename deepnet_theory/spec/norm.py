"""The normalisations."""

from __future__ import annotations

from dataclasses import dataclass

from deepnet_theory.spec.discovery import builtin, choose

EPSILON = 1e-5  # under the root, as torch.nn.LayerNorm has it


@dataclass(frozen=True)
class Norm:
    r"""A normalisation, homogeneous of degree 0: :math:`x \mapsto \sqrt d\,Px/\|Px\|`.

    ``centred`` says whether P removes the mean (LayerNorm) or is the identity (RMSNorm);
    ``bias`` whether the norm has a bias vector besides its gain.
    """

    name: str
    centred: bool
    bias: bool
    summary: str = ""
    source: str = ""


def norms() -> dict[str, Norm]:
    return builtin("norms", Norm)


def norm(name: str) -> Norm:
    return choose("norm", name, norms())
