"""Immutable trees and the one driver that rewrites them.

Every IR of everfresh (scalar expressions, the calculus, linear algebra, ...) is made of `Node`s; every
simplification is a `Rule`, a named piece of data; `rewrite` runs a `RuleSet` to its fixpoint and raises,
naming the rules, if there is none.
"""

from everfresh.rewrite.node import Node, node, remembered
from everfresh.rewrite.rules import Rule, RuleSet, Trace, rewrite

__all__ = ["Node", "Rule", "RuleSet", "Trace", "node", "remembered", "rewrite"]
