"""Expressions over a command and its tensors: our own grammar, never ``eval``."""

from npudbg.debugger.expressions.evaluate import Scope, evaluate
from npudbg.debugger.expressions.parser import parse

__all__ = ["Scope", "evaluate", "parse"]
