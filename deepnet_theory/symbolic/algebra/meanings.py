"""What every symbol of a derivation stands for, in words.

A name is looked up whole, then without its last subscripts: the part (``alpha_e``), the kind of
sublayer (``r_ffn``) or the matrix (``lambda_q``) that it belongs to.
"""

from __future__ import annotations

import sympy as sp
from sympy.core.function import AppliedUndef

_OF_ALL = {
    "N": "layers of the encoder",
    "M": "layers of the decoder",
    "S": "residual sublayers of the part",
    "alpha": "residual multiplier: what x is multiplied by before the branch is added",
    "beta": "initialisation gain: the scaled matrices' standard deviation over Xavier's",
    "kappa": "learning-rate multiplier of the scaled matrices",
    "eta": "learning rate",
    "eta_0": "learning rate in units of that of a shallow stack",
    "g": "gradient of the loss with respect to a matrix",
    "theta": "a matrix",
    "s": "a factor on theta, to count degrees",
    "t": "a factor on g, to count degrees",
    "r": "branch weight: size of the branch against that of the identity path",
    "rho": "relative update: size of an update of a matrix against eta and the matrix's own",
    "tau": "number of updates",
    "A": "amplification of a change of the encoder's output by the decoder's cross-attentions",
    "A_sum": "A where all cross-attentions push one way",
    "P": "product of the gains of the branch's scaled matrices",
    "v": "magnitude of the last scaled matrix of the branch",
    "w": "magnitude of the first scaled matrix of the branch",
    "b": "magnitude of a scaled matrix of the branch",
    "c": "weight of a cross-attention: its branch against the decoder's stream",
    "x": "stream that enters the sublayer",
    "y": "memory: the encoder's output, which cross-attention reads",
    "G": "a branch with its weight taken out, as a map of the stream",
    "i": "index of a sublayer, or of an entry",
    "j": "index of a sublayer, or of an entry",
    "k": "order of an update, or index of a hidden unit",
    "l": "index of a layer or sublayer",
    "epsilon": "a small number: a change of the branch, or what an optimizer adds to a divisor",
    "Branch()": "the branch with its gains taken out",
    "Normalise()": "the norm",
    "Softmax()": "the softmax of the attention scores",
    "Activation()": "the activation",
    "Transpose()": "the transpose",
    "Hadamard()": "the product entry by entry",
    "DirectionalDifferential()": "the change of a function along a direction, to first order",
    "u()": "the optimizer's update, as a function of eta, g and theta",
    "L()": "the loss, as a function of a matrix",
    "W'": "the matrix that is stepped where c W' stands in the forward pass",
    "lambda": "weight decay",
    "m_t": "running mean of the gradient",
    "v_t": "running mean of the gradient's square",
}
_OF_ROUTE = {
    "probe": {
        "lambda": "magnitude of a matrix, W = lambda U; of an optimizer its weight decay",
        "U": "direction of a matrix, of order one",
        "V": "direction across that of a matrix",
        "delta": "distance along V, 0 where the derivative is taken",
        "z": "what the sublayer's norm reads, divided by alpha",
        "L_x": "size of the loss's gradient with respect to the sublayer's output",
        "J": "size of the norm's Jacobian",
        "B": "size of B(x), the branch with its gains taken out",
        "c": "constant of order one, which the probe drops",
    },
    "lemma": {
        "K": "sublayers that a product of Jacobians runs over",
        "sigma": "sign of the branch, at random",
        "delta": "size of the loss's gradient with respect to the stack's output",
        "m": "memory: the encoder's output, which cross-attention reads",
        "y": "the decoder's stream",
        "X": "size of the change of a sublayer's input; that of the encoder's output is X_e",
        "X()": "size of the change of the l-th sublayer's input",
        "F()": "size of the change of the decoder's stream",
        "J": "size of a sublayer's Jacobian with respect to its input",
        "J()": "size of the l-th sublayer's Jacobian with respect to its input",
        "D": "size of a sublayer's Jacobian with respect to its parameters",
        "D()": "size of the i-th sublayer's Jacobian with respect to its parameters",
        "D_d()": "D of the decoder's sublayers",
        "T": "size of the change of a sublayer's parameters",
        "T()": "size of the change of the i-th sublayer's parameters",
        "T_d()": "T of the decoder's sublayers",
    },
    "moments": {
        "d": "width of the stream",
        "m": "hidden width of the branch",
        "K": "cross-attentions of the decoder",
        "c": "what the branch is multiplied with before it is added to the stream",
        "dz": "change of z, which is path and branch, to first order",
        "z_i": "entry i of z",
        "delta_i": "entry i of the loss's gradient with respect to z",
        "dz_i/dx_j": "derivative of z_i in an entry of the stream",
        "dz_i/dV_kj": "derivative of z_i in an entry of the last scaled matrix",
        "dz_i/dW_jk": "derivative of z_i in an entry of the first scaled matrix",
        "T()": "size of the change of the i-th sublayer's parameters",
        "T_e()": "T of the encoder's sublayers",
        "T_d()": "T of the decoder's sublayers",
    },
}  # fmt: skip
_NORM_OF = {
    "J": "the norm's Jacobian, its largest singular value",
    "Pz": "z without its mean",
    "a": "the attention's average of the memory",
    "da": "the change of that average",
    "dm": "the change of the memory",
    "dF": "the change of the stack's output",
    "dF_d": "the change of the decoder's output",
    "dL_dF": "the loss's gradient with respect to the stack's output",
    "dV": "the change of the last scaled matrix",
    "dW": "the change of the first scaled matrix",
    "xdW": "x times the change of the first scaled matrix",
    "delta": "the loss's gradient with respect to z",
    "dtheta": "the change of the sublayer's parameters",
    "g": "the loss's gradient behind a cross-attention",
    "x": "the stream that enters the sublayer",
    "dx": "the change of the stream",
    "dx_next": "the change behind the norm that follows the sublayer",
    "y": "what the branch reads",
    "dy": "the change of what the branch reads",
    "z": "what the norm reads",
    "z_theta": "the change of z through the sublayer's parameters",
    "z_x": "the change of z through the sublayer's input",
}


def named(expression: sp.Basic) -> dict[str, sp.Expr]:
    """What in it has a name: its symbols, and its functions, whose names end in parentheses."""
    # of several with one name the first in order of what is printed, whatever the sets' order is
    applied = sorted(expression.atoms(sp.Function), key=str, reverse=True)
    functions = {f"{type(f).__name__}()": f for f in applied if _ours(f)}
    return {symbol.name: symbol for symbol in expression.free_symbols} | functions


def _ours(function: sp.Function) -> bool:
    return isinstance(function, AppliedUndef) or "deepnet_theory" in type(function).__module__


def meaning(name: str, method: str) -> str | None:
    """What the symbol stands for in the route ``method``; None where nobody has said it."""
    known = {**_OF_ALL, **_OF_ROUTE.get(method, {})}
    bare = name.split("[")[0]
    if bare.startswith("norm_"):
        inner = _NORM_OF.get(bare.removeprefix("norm_"))
        return inner and f"Euclidean norm of {inner}"
    while bare not in known and "_" in bare:  # alpha_d_ffn is the α of the decoder's ffn
        bare = bare.rsplit("_", 1)[0]
    return known.get(bare)
