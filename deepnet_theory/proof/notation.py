"""The notation of the whole project: what every symbol stands for, and how named sizes are shown.

A name is looked up whole, then without its last subscripts: the part (``alpha_e``), the kind of
sublayer (``r_ffn``), the matrix (``lambda_q``) or the order (``norm_dF_2``) that it belongs to.
"""

from __future__ import annotations

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.printing.printer import Printer

# the symbols of a claim are its source's own
NOTATION = {
    "N": "layers of the encoder",
    "M": "layers of the decoder",
    "S": "residual sublayers of the part",
    "alpha": "residual multiplier: what x is multiplied by before the branch is added",
    "beta": "initialisation gain: the scaled matrices' standard deviation over Xavier's",
    "kappa": "learning-rate multiplier of the scaled matrices",
    "eta": "learning rate",
    "eta_0": "learning rate in units of that of a shallow stack",
    "rho": "relative update: size of an update of a matrix against eta and the matrix's own",
    "r": "branch weight: size of the branch against that of the identity path",
    "theta": "a matrix",
    "g": "gradient of the loss with respect to a matrix",
    "s": "a factor on theta, to count degrees",
    "t": "a factor on g, to count degrees",
    "omega": "weight decay beside the update",
    "lambda": "magnitude of a matrix, W = lambda U",
    "U": "direction of a matrix, of order one",
    "V": "direction across that of a matrix",
    "h": "a small move: along V, or of the branch",
    "P": "product of the gains of the branch's scaled matrices",
    "v": "magnitude of the last scaled matrix of the branch",
    "w": "magnitude of the first scaled matrix of the branch",
    "b": "magnitude of a scaled matrix of the branch",
    "c": "multiplier in the forward pass, of a map or of a whole branch",
    "C": "constant of order one, which an order drops",
    "x": "stream that enters the sublayer",
    "x_rms": "root mean square of the stream",
    "y": "memory: the encoder's output, which cross-attention reads",
    "z": "what the sublayer's norm reads, divided by alpha",
    "L_x": "size of the loss's gradient with respect to the sublayer's output",
    "xi": "sign of the branch, at random",
    "A": "amplification of a change of the encoder's output by the decoder's cross-attentions",
    "q": "weight of a cross-attention: its branch against the decoder's stream",
    "Q": "sublayers that a product of Jacobians runs over",
    "X": "size of the change of a sublayer's input; that of the encoder's output is X_e",
    "X()": "size of the change of the l-th sublayer's input",
    "X_d()": "X of the decoder's sublayers",
    "J": "size of a sublayer's Jacobian with respect to its input",
    "J()": "size of the l-th sublayer's Jacobian with respect to its input",
    "J_norm": "largest singular value of a norm's Jacobian",
    "D": "size of a sublayer's Jacobian with respect to its parameters",
    "D()": "size of the i-th sublayer's Jacobian with respect to its parameters",
    "D_d()": "D of the decoder's sublayers",
    "T": "size of the change of a sublayer's parameters",
    "T()": "size of the change of the i-th sublayer's parameters",
    "T_d()": "T of the decoder's sublayers",
    "d": "width of the model, that of the stream",
    "sigma": "root mean square of a parameter's entries at the start",
    "i": "index of a sublayer, or of an entry",
    "l": "index of a layer or sublayer",
    "Branch()": "the branch with its gains taken out",
    "Normalise()": "the norm",
    "Softmax()": "the softmax of the attention scores",
    "Activation()": "the activation",
    "Transpose()": "the transpose",
    "Hadamard()": "the product entry by entry",
    "u()": "the optimizer's update, as a function of eta, g and theta",
    "norm_B": "Euclidean norm of the branch with its gains taken out",
    "norm_dF": "Euclidean norm of the change of the stack's output",
    "norm_dL_dF": "Euclidean norm of the loss's gradient with respect to the stack's output",
}


def named(expression: sp.Basic) -> dict[str, sp.Expr]:
    """What in it has a name: its symbols, and its functions, whose names end in parentheses."""
    # of several with one name the first in order of what is printed, whatever the sets' order is
    applied = sorted(expression.atoms(sp.Function), key=str, reverse=True)
    functions = {
        f"{type(f).__name__}()": f
        for f in applied
        if isinstance(f, AppliedUndef) or "deepnet_theory" in type(f).__module__
    }
    return {symbol.name: symbol for symbol in expression.free_symbols} | functions


def meaning(name: str) -> str | None:
    """The meaning of a symbol; None where nobody has said it."""
    bare = name.split("[")[0]
    while bare not in NOTATION and "_" in bare:  # alpha_d_ffn is the α of the decoder's ffn
        bare = bare.rsplit("_", 1)[0]
    return NOTATION.get(bare)


# ---- named sizes ----


class NamedQuantity(sp.Symbol):  # type: ignore[misc]
    """A named real quantity, positive unless its assumptions say otherwise, with its own LaTeX."""

    latex: str

    def __new__(cls, name: str, latex: str = "", **assumptions: bool) -> NamedQuantity:
        quantity = super().__new__(cls, name, **(assumptions or {"positive": True}))
        quantity.latex = latex or sp.latex(sp.Symbol(name))
        return quantity  # type: ignore[no-any-return]

    def __getnewargs_ex__(self) -> tuple[tuple[str, str], dict[str, bool]]:
        return (self.name, self.latex), self._assumptions_orig

    def _latex(self, printer: Printer) -> str:
        return self.latex


def norm_of(name: str, latex: str = "") -> NamedQuantity:
    """The norm of the named vector or matrix."""
    return NamedQuantity(f"norm_{name}", rf"\|{latex or name}\|")


def output_change(of: str = "") -> NamedQuantity:
    """‖ΔF‖, how far an update moves the stack's output; of a sublayer or an order its share."""
    below = f"_{{{of}}}" if len(of) < 2 else rf"_{{\mathrm{{{of}}}}}"
    return norm_of(f"dF_{of}", rf"\Delta F{below}") if of else norm_of("dF", r"\Delta F")
