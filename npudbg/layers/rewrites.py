"""What to write instead of an operator that a target lacks."""

from __future__ import annotations

from npudbg.graph.ir import Node
from npudbg.layers.einsum import as_matmul
from npudbg.session.text import safe

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
SEQUENCES = frozenset(
    {
        "SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt",
        "SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence", "Optional",
        "OptionalGetElement", "OptionalHasElement",
    }
)  # fmt: skip

_REWRITES = {
    "Gelu": "x * 0.5 * (1 + Tanh(0.7978846 * (x + 0.044715 * x^3))): the tanh form",
    "Erf": "the tanh form of Gelu needs no Erf",
    "LayerNormalization": "ReduceMean, Sub, Mul, ReduceMean, Add, Sqrt, Div, Mul, Add; or train "
    "with BatchNormalization, which folds into the Conv",
    "GroupNormalization": "Reshape, InstanceNormalization, Reshape, Mul, Add",
    "InstanceNormalization": "ReduceMean, Sub, Mul, ReduceMean, Add, Sqrt, Div, Mul, Add",
    "RMSNormalization": "Mul, ReduceMean, Add, Sqrt, Div, Mul",
    "GridSample": "a fixed grid becomes a Gather of constant indices with weights; a scaling grid "
    "becomes Resize(linear); else leave it to the CPU at the end of the graph",
    "ConstantOfShape": "fold it: fix the input shapes and simplify (it comes from full_like, "
    "zeros_like, expand)",
    "HardSwish": "x * Clip(x + 3, 0, 6) / 6",
    "HardSigmoid": "Clip(alpha * x + beta, 0, 1)",
    "Mish": "x * Tanh(Softplus(x)); or train with HardSwish",
    "Swish": "x * Sigmoid(x)",
    "Softplus": "Log(1 + Exp(x)), where x is bounded",
    "NonZero": "its result has no fixed size: keep the mask and Mul or Where with it",
    "NonMaxSuppression": "cut the model before it and run it on the CPU on the few boxes left",
    "TopK": "cut the model before it and sort on the CPU, or ReduceMax and ArgMax for k=1",
    "Where": "mask * a + (1 - mask) * b",
    "Expand": "fold it, or let the next operator broadcast",
    "Tile": "let the next operator broadcast, or Concat",
    "ScatterND": "a constant mask: x * (1 - mask) + update * mask; or Concat of slices",
    "ScatterElements": "a constant mask: x * (1 - mask) + update * mask",
    "GatherND": "Gather along one axis after a Reshape, with constant indices",
    "GatherElements": "Gather with constant indices, or a MatMul with a one-hot matrix",
    "CumSum": "MatMul with a triangular matrix of ones",
    "OneHot": "Gather of rows of an identity matrix",
    "LSTM": "unroll it over a fixed length into MatMul, Sigmoid, Tanh, Mul, Add",
    "GRU": "unroll it over a fixed length into MatMul, Sigmoid, Tanh, Mul, Add",
    "RNN": "unroll it over a fixed length into MatMul, Tanh, Add",
    "Attention": "MatMul, Mul, Add, Softmax, MatMul",
    "RoiAlign": "cut the model before it; run it on the CPU",
    "DeformConv": "train with an ordinary Conv; no fixed set of operators replaces it well",
    "Einsum": "MatMul with Transposes where its equation allows, else a Reshape and a Mul with "
    "ReduceSum",
    "STFT": "Conv of one dimension with the window's sine and cosine as weights",
    "DFT": "MatMul with the matrices of sine and cosine",
    "Pow": "Mul for whole exponents, Sqrt for 0.5",
    "Mod": "x - Floor(x / n) * n",
    "If": "export the branch that is taken: trace the model with fixed flags",
    "Loop": "unroll it: export with a fixed number of iterations",
    "Scan": "unroll it over a fixed length",
    "Dropout": "export in evaluation mode",
    "Identity": "simplify the model: it does nothing",
    "RandomNormal": "feed the noise as an input",
    "RandomNormalLike": "feed the noise as an input",
    "Unique": "its result has no fixed size: run it on the CPU",
    "Compress": "its result has no fixed size: keep the mask and Mul with it",
}


def rewrite(node: Node) -> str:
    """Return what to write instead of a node, in one line."""
    if node.op_type == "Einsum" and not node.domain:
        equation = node.attributes.get("equation", "")
        text = equation if isinstance(equation, str) else ""
        matmul = as_matmul(text)
        if matmul is not None:
            return f"rewrite as MatMul: {safe(text, 40)} is {matmul}"
    if node.op_type == "Resize" and node.attributes.get("mode") == "cubic":
        return "mode=linear: the loss is small where it enlarges feature maps"
    if node.op_type in SEQUENCES:
        return "use plain tensors: Concat, Split and Slice with fixed sizes"
    if node.domain:
        return "export without this domain's operators (no fusing optimisation before conversion)"
    return _REWRITES.get(
        node.op_type, "write it with supported operators, or cut the model there and use the CPU"
    )
