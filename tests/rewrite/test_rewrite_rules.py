"""The driver: fixpoints, the order of rules, cycles, traces.

What each test catches: a driver that visits children once (a rule that makes new children leaves them
unrewritten), one that tries a rule of another class, one that hangs or overflows the stack where it should
name the rules of a cycle.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everfresh.rewrite import Node, Rule, RuleSet, Trace, node, rewrite
from everfresh.rewrite.rules import RewriteCycle


class Term(Node):
    pass


@node
class Num(Term):
    value: int


@node
class Add(Term):
    left: Term
    right: Term


@node
class Wrap(Term):
    body: Term


def _fold(n: Add) -> Node | None:
    return Num(n.left.value + n.right.value) if isinstance(n.left, Num) and isinstance(n.right, Num) else None


def _unwrap(n: Wrap) -> Node | None:
    return n.body


FOLD = Rule("fold", (Add,), _fold)
UNWRAP = Rule("unwrap", (Wrap,), _unwrap)
DOWN = Rule("down", (Num,), lambda n: Num(n.value - 1) if n.value > 0 else None)
UP = Rule("up", (Num,), lambda n: Num(n.value + 1) if n.value < 3 else None)
# distributes: makes children to which rules apply again
SPLIT = Rule(
    "split",
    (Wrap,),
    lambda n: Add(Wrap(n.body.left), Wrap(n.body.right)) if isinstance(n.body, Add) else None,
)
SQUASH = Rule("squash", (Wrap,), lambda n: Num(n.body.value * 2) if isinstance(n.body, Num) else None)

TERMS = st.recursive(
    st.builds(Num, st.integers(0, 5)), lambda t: st.builds(Add, t, t) | st.builds(Wrap, t), max_leaves=10
)


def value(t: Node) -> int:
    match t:
        case Num(v):
            return v
        case Add(a, b):
            return value(a) + value(b)
        case Wrap(b):
            return 2 * value(b)
    raise AssertionError


def is_fixpoint(t: Node, rules: RuleSet) -> bool:
    return all(
        (after := rule.apply(n)) is None or after == n
        for n in t.walk()
        for rule in rules
        if isinstance(n, rule.classes)
    )


@given(TERMS)
def test_the_result_is_a_fixpoint(t: Term) -> None:
    for rules in (RuleSet((FOLD, UNWRAP)), RuleSet((SPLIT, SQUASH)), RuleSet((SPLIT, SQUASH, FOLD))):
        assert is_fixpoint(rewrite(t, rules), rules)
    assert rewrite(t, RuleSet((SPLIT, SQUASH, FOLD))) == Num(value(t))


@given(TERMS)
def test_a_fixpoint_stays(t: Term) -> None:
    assert rewrite(t, RuleSet(())) == t
    trace = Trace()
    done = rewrite(t, RuleSet((SPLIT, SQUASH)))
    assert rewrite(done, RuleSet((SPLIT, SQUASH)), trace) == done
    assert trace.steps == []


def test_earlier_rules_win() -> None:
    to = [Rule(f"to{i}", (Wrap,), lambda _n, i=i: Num(i)) for i in (1, 2)]
    assert rewrite(Wrap(Num(0)), RuleSet(tuple(to))) == Num(1)
    assert rewrite(Wrap(Num(0)), RuleSet(tuple(reversed(to)))) == Num(2)


def test_a_rule_that_gives_the_node_back_does_not_apply() -> None:
    same = Rule("same", (Num,), lambda n: Num(n.value))
    trace = Trace()
    assert rewrite(Num(2), RuleSet((same, DOWN)), trace) == Num(0)
    assert trace.names() == ["down", "down"]


def test_rules_see_only_their_classes() -> None:
    seen: list[Node] = []
    spy = Rule("spy", (Num, Wrap), lambda n: seen.append(n))
    every = Rule("every", (Term,), lambda n: seen.append(n))
    rewrite(Wrap(Add(Num(1), Num(2))), RuleSet((spy,)))
    assert seen == [Num(1), Num(2), Wrap(Add(Num(1), Num(2)))]  # bottom-up
    seen.clear()
    rewrite(Wrap(Num(1)), RuleSet((every,)))
    assert seen == [Num(1), Wrap(Num(1))]


def test_a_shared_subtree_is_rewritten_once() -> None:
    calls: list[Node] = []

    def count(n: Num) -> Node | None:
        calls.append(n)
        return Num(0) if n.value else None

    shared = Add(Num(1), Num(1))
    rewrite(Add(shared, Add(Num(1), Num(1))), RuleSet((Rule("count", (Num,), count),)))
    assert calls == [Num(1), Num(0)]


def test_join_keeps_order() -> None:
    one, two = RuleSet((FOLD,)), RuleSet((UNWRAP, DOWN))
    joined = one + two
    assert [rule.name for rule in joined] == ["fold", "unwrap", "down"]
    assert joined == RuleSet((FOLD, UNWRAP, DOWN))
    assert joined.for_class(Num) == (DOWN,)
    assert one.rules == (FOLD,)  # the parts are as they were


def test_trace_tells_what_happened() -> None:
    trace = Trace()
    start = Wrap(Add(Num(1), Num(2)))
    end = rewrite(start, RuleSet((UNWRAP, FOLD)), trace)
    assert trace.steps == [("fold", Add(Num(1), Num(2)), Num(3)), ("unwrap", Wrap(Num(3)), Num(3))]
    assert end == Num(3)
    empty = Trace()
    rewrite(Num(0), RuleSet((DOWN,)), empty)
    assert empty.names() == []


# -- cycles --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "start", "names"),
    [
        ([UP, DOWN], Num(1), {"up", "down"}),
        # the cycle goes over a parent
        ([UNWRAP, Rule("wrap", (Add,), lambda n: Wrap(n))], Add(Num(0), Num(0)), {"wrap"}),
        # each result holds the node it was made from
        ([Rule("grow", (Num,), lambda n: Add(n, n))], Wrap(Num(1)), {"grow"}),
        # never the same node twice, deeper and deeper
        ([Rule("deeper", (Num,), lambda n: Wrap(Num(n.value + 1)))], Num(1), {"deeper"}),
        # never the same node twice, at one place
        ([Rule("more", (Num,), lambda n: Num(n.value + 1))], Num(0), {"more"}),
    ],
)
def test_a_cycle_raises_and_names_the_rules(rules: list[Rule], start: Term, names: set[str]) -> None:
    with pytest.raises(RewriteCycle) as caught:
        rewrite(start, RuleSet(tuple(rules)))
    assert all(name in str(caught.value).split(" do not end")[0] for name in names)


def test_a_long_chain_is_no_cycle() -> None:
    assert rewrite(Num(900), RuleSet((DOWN,))) == Num(0)


def test_a_tree_in_simplest_form_is_not_looked_at_again() -> None:
    asked: list[Num] = []

    def less(n: Num) -> Num | None:
        asked.append(n)
        return Num(n.value - 1) if n.value else None

    rules = RuleSet((Rule("less", (Num,), less),))
    done = rewrite(Add(Num(1), Wrap(Num(2))), rules)
    asked.clear()
    assert rewrite(done, rules) is done
    assert rewrite(Wrap(done), rules) == Wrap(done)  # new above, known below
    assert asked == []
    assert rewrite(done, RuleSet((Rule("more", (Num,), lambda n: Num(1)),))) == Add(Num(1), Wrap(Num(1)))
