"""``Names``: which modules a quantisation config names, in the pattern language of its method."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from fnmatch import translate
from functools import cached_property
from math import factorial
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from specmemo_sim.spec import Spec

_PLAIN = re.compile(r"\.?[\w\-/]+(?:\.[\w\-/]+)*")
"""A path to be looked up literally; a dot at its end is an expression for any character."""
_ESCAPE = re.compile(r"\\.")
_CHARACTER_CLASS = re.compile(r"\[\^?\]?[^\]]*\]")
_REPEAT_OF_GROUP = re.compile(r"\)[*+{]")
_OPTIONAL = re.compile(r"(?<![(*+?}])\?")
_BACK_REFERENCE = re.compile(r"\\[1-9]|\(\?P=|\(\?\(")
_NUMBER_IN_PATH = re.compile(r"(?:(?<![\w-])|([\w-]+)\.)(\d+)(?=\.|$)")
_NUMBERS_UNDER = re.compile(r"(\w+)\\?\.(?:\((?:\?:)?)?[\[\]\d|\-]+")
_EXPERT_NUMBER = re.compile(r"\.experts\.\d+\.")

_TYPICAL_NAME_LENGTH = 64
_MAX_MATCH_STEPS = 4_000_000
"""Bound on the backtracking steps all expressions may need on one name."""


class NameSyntax(StrEnum):
    """How a method reads its list of modules."""

    TRANSFORMERS = "transformers"
    """An expression for a leading part of the path up to a dot, or a literal end of the path."""
    COMPRESSED_TENSORS = "compressed-tensors"
    """An exact path, ``re:`` and an expression for the start of the path, or a class of module."""
    MODELOPT = "modelopt"
    """A path, some whole components of one, or shell wildcards for the whole path."""
    GPTQ = "gptq"
    """An expression for the start of the path."""
    EXACT = "exact"
    """An exact path; MLX's ``switch_mlp`` names the routed experts of a layer all at once."""


class Names(Spec):
    """A set of module names, as patterns of one syntax.

    Source: ``should_convert_module`` of transformers 5.24, ``match_name`` of compressed-tensors
        0.20, the ModelOpt exclusion rule of vLLM, ``dynamic`` of GPTQModel 7.7. ModelOpt substrings
        are matched in whole components here, so that ``layers.1`` does not name ``layers.10``.
    """

    syntax: NameSyntax = NameSyntax.TRANSFORMERS
    patterns: tuple[Annotated[str, Field(min_length=1, max_length=2000)], ...] = Field(
        default=(), max_length=200_000
    )

    @field_validator("patterns")
    @classmethod
    def _harmless(cls, patterns: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        syntax = info.data.get("syntax")
        if syntax is NameSyntax.MODELOPT:
            return patterns  # fnmatch translates wildcards so that they do not backtrack
        expressions = [p for p in patterns if not _PLAIN.fullmatch(p)]
        if syntax is NameSyntax.EXACT and expressions:
            raise ValueError(f"{expressions[0][:60]!r} is no module path; name the module itself")
        if syntax is NameSyntax.COMPRESSED_TENSORS:
            expressions = [p[3:] for p in expressions if p.startswith("re:")]
        steps = sum(_match_steps(p) for p in expressions)
        if steps > _MAX_MATCH_STEPS:
            raise ValueError("the module patterns repeat too much to be matched; simplify them")
        return patterns

    def matches(self, module: str, class_name: str = "Linear") -> bool:
        """True if a pattern names the module with this full path, or its class."""
        if not self.patterns:
            return False
        if self.syntax is NameSyntax.TRANSFORMERS:
            return self._matches_start_or_end(module)
        if self.syntax is NameSyntax.EXACT:
            return (
                module in self._plain or _EXPERT_NUMBER.sub(".switch_mlp.", module) in self._plain
            )
        if self.syntax is NameSyntax.MODELOPT:
            return not self._plain.isdisjoint(_runs(module)) or self._matches_expression(module)
        if module in self._plain and self.syntax is NameSyntax.COMPRESSED_TENSORS:
            return True
        named = class_name in self._plain and self.syntax is NameSyntax.COMPRESSED_TENSORS
        return named or self._matches_expression(module)

    def told_apart(self, component: str) -> frozenset[int] | None:
        """Numbers after ``component`` that the patterns may treat unlike others; None for all.

        Numbers outside the set are alike when they have equally many digits.
        """
        if component not in self._told_apart:
            self._told_apart[component] = self._find_told_apart(component)
        return self._told_apart[component]

    def _find_told_apart(self, component: str) -> frozenset[int] | None:
        numbers: set[int] = set()
        for pattern in self.patterns:
            if _PLAIN.fullmatch(pattern):
                for before, number in _NUMBER_IN_PATH.findall(pattern):
                    if not before:
                        return None
                    if component.endswith(before):
                        numbers.add(int(number[:9]))
            elif _may_test_number(pattern, component):
                return None
        return frozenset(numbers)

    @cached_property
    def _told_apart(self) -> dict[str, frozenset[int] | None]:
        return {}

    @cached_property
    def _plain(self) -> frozenset[str]:
        return frozenset(p for p in self.patterns if _PLAIN.fullmatch(p))

    @cached_property
    def _composed(self) -> tuple[str, ...]:
        return tuple(p for p in self.patterns if p not in self._plain)

    @cached_property
    def _plain_lengths(self) -> tuple[int, ...]:
        return tuple({len(p) for p in self._plain})

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], ...]:
        if self.syntax is NameSyntax.GPTQ:
            return tuple(re.compile(p) for p in self.patterns)
        if self.syntax is NameSyntax.COMPRESSED_TENSORS:
            return tuple(re.compile(p[3:]) for p in self.patterns if p.startswith("re:"))
        if self.syntax is NameSyntax.MODELOPT:
            return tuple(re.compile(translate(p)) for p in self.patterns if p not in self._plain)
        edge = r"(?:(?<=\.)|(?=\.|$))"
        return tuple(re.compile(f"(?:{p}){edge}") for p in self.patterns if p not in self._plain)

    def _matches_expression(self, module: str) -> bool:
        return any(expression.match(module) for expression in self._expressions)

    def _matches_start_or_end(self, module: str) -> bool:
        if any(module[-length:] in self._plain for length in self._plain_lengths):
            return True
        dot = module.find(".")
        while dot >= 0:
            if module[:dot] in self._plain or module[: dot + 1] in self._plain:
                return True
            dot = module.find(".", dot + 1)
        return self._matches_expression(module) or module.endswith(self._composed)


def alike_groups(
    names: Iterable[Names], component: str, indices: Sequence[int]
) -> list[tuple[int, int]]:
    """(one index, how many it stands for): indices after ``component`` that no pattern separates.

    Args:
        names: Every pattern list that is going to be asked.
        component: Path component before the number, such as ``layers``.
        indices: The numbers to group.
    """
    asked = [n for n in names if n.patterns]
    marked: set[int] = set()
    for patterns in asked:
        told = patterns.told_apart(component)
        if told is None:
            return [(index, 1) for index in indices]
        marked |= told
    groups: dict[tuple[int, int], list[int]] = {}
    for index in indices:
        key = (1, index) if index in marked else (0, len(str(index)) if asked else 0)
        groups.setdefault(key, [index, 0])[1] += 1
    return [(first, size) for first, size in groups.values()]


def _runs(module: str) -> list[str]:
    """Every run of whole components of a path."""
    parts = module.split(".")
    ends = range(1, len(parts) + 1)
    return [".".join(parts[start:end]) for end in ends for start in range(end)]


def _match_steps(pattern: str) -> int:
    """Upper bound on the backtracking steps of an expression on a name of usual length.

    Python cannot interrupt a match, and the patterns come from a file: repeated groups can need
    exponential time and are refused; the rest is polynomial in the number of repeats.
    """
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        raise ValueError(f"{pattern[:60]!r} is no valid module pattern; correct it") from None
    if _BACK_REFERENCE.search(pattern):
        raise ValueError(f"{pattern[:60]!r} refers back to a group; name the modules plainly")
    bare = _CHARACTER_CLASS.sub("x", _ESCAPE.sub("x", pattern))
    if _REPEAT_OF_GROUP.search(bare):
        raise ValueError(f"{pattern[:60]!r} repeats a group; name the modules without that")
    repeats = sum(bare.count(sign) for sign in "*+{")
    choices = 1 << min(len(_OPTIONAL.findall(bare)), 60)
    for part in bare.replace(")", "(").split("("):
        choices *= part.count("|") + 1
    return int(_TYPICAL_NAME_LENGTH ** min(repeats, 30)) // factorial(min(repeats, 30)) * choices


def _may_test_number(pattern: str, component: str) -> bool:
    """True unless the pattern plainly treats all numbers after ``component`` alike."""

    def drop(found: re.Match[str]) -> str:
        return found[0] if component.endswith(found[1]) else ""

    rest = _NUMBERS_UNDER.sub(drop, pattern)
    return any(character.isdigit() or character == "[" for character in rest)
