"""Sherman-Morrison and its rank-k form (section 6.3.1): the change of an inverse, factored.

With W = inv(E) stored and E changing by P Q', rank k, Woodbury's formula says

    inv(E + P Q') - inv(E) = -(W P) inv(I + Q' W P) (W' Q)'.

`I + Q' W P`, k x k, is the capacitance: E + P Q' is singular exactly if it is, so the runtime checks its
condition number on every update; for k = 1 it is the denominator of Sherman-Morrison. Invariant: the change
of the inverse has the rank of the change.
"""

from __future__ import annotations

from everfresh.linalg.lang.nodes import Expr, Eye, Inverse, MatMul, Scale, Transpose


def woodbury(W: Expr, P: Expr, Q: Expr) -> tuple[Expr, Expr]:
    """The factors of the change of W, the inverse of a matrix that changes by P Q'."""
    moved = MatMul(W, P)
    capacitance = Eye(P.columns) + MatMul(Transpose(Q), moved)
    return Scale(-1.0, MatMul(moved, Inverse(capacitance))), MatMul(Transpose(W), Q)
