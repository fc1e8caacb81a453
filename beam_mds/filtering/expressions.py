"""Conditions as Python's syntax trees, computed for many samples at once; see `where`.

A few kinds of nodes are computed by numpy and pyarrow.compute; nothing is ever run as Python.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_mds.filtering import exact
from beam_mds.format.encodings.base import decoded_dictionary, is_binary, is_text

Mask: TypeAlias = npt.NDArray[np.bool_]
# A literal; numbers (integers of any width, float64) or a mask in numpy; the rest in Arrow.
Value: TypeAlias = Any

# Levels of a tree: far below what Python's stack has room for.
_DEEPEST = 60

# What a value is, in the words of the messages.
_CONDITION, _NUMBER, _TEXT, _BYTES, _LIST = 'a condition', 'a number', 'text', 'bytes', 'a list'

# How numbers are compared, and how Arrow arrays.
_COMPARISONS: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], Any]] = {
    ast.Eq: (operator.eq, pc.equal),
    ast.NotEq: (operator.ne, pc.not_equal),
    ast.Lt: (operator.lt, pc.less),
    ast.LtE: (operator.le, pc.less_equal),
    ast.Gt: (operator.gt, pc.greater),
    ast.GtE: (operator.ge, pc.greater_equal),
}
# With the sides swapped.
_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}

_SIGNS = {ast.Add: '+', ast.Sub: '-', ast.Mult: '*', ast.Div: '/', ast.Mod: '%'}

_TESTS: dict[str, Any] = {
    'startswith': pc.starts_with,
    'endswith': pc.ends_with,
    'contains': pc.match_substring,
    'matches': pc.match_substring_regex,
}

# What people write who think of another language.
_HINTS: dict[type[ast.AST], str] = {
    ast.BitAnd: 'write `and`, not &',
    ast.BitOr: 'write `or`, not |',
    ast.Invert: 'write `not`, not ~',
    ast.Is: 'write ==, not `is`: there are no nulls',
    ast.IsNot: 'write !=, not `is not`: there are no nulls',
    ast.Attribute: "there are no methods: write lower(x) or startswith(x, 'p')",
}


class Refused(Exception):  # noqa: N818 - becomes the error of its place
    """A part of an expression that means nothing, or has no exact value for a sample.

    Attributes:
        reason: What is wrong.
        place: The node, or line and character from 1.
        row: The sample, if it is about one.
        allowed: Whether it helps to say what may stand in an expression.
    """

    def __init__(
        self, reason: str, place: Any, row: int | None = None, *, allowed: bool = False
    ) -> None:
        """Makes the error; see the class for the arguments."""
        super().__init__(reason)
        self.reason, self.place, self.row, self.allowed = reason, place, row, allowed


class Rows:
    """Some samples of a batch, which an expression is computed for.

    Attributes:
        used: Names of the columns that were asked for.
    """

    def __init__(
        self,
        text: str,
        columns: Mapping[str, pa.Array],
        rows: npt.NDArray[np.int64],
        used: set[str] | None = None,
    ) -> None:
        """Takes the samples.

        Args:
            text: What the expression was parsed from.
            columns: All samples' values, by the name of the column; without nulls.
            rows: Numbers of the samples that count.
            used: Where the names of the columns are collected.
        """
        self.used: set[str] = set() if used is None else used
        self._text, self._columns, self._rows = text, columns, rows

    def condition(self, node: ast.expr, depth: int = 0) -> Mask:
        """Which samples a condition holds for.

        Raises:
            Refused: It means nothing, or has no exact value for one of the samples.
        """
        value = self._value(node, depth)
        if isinstance(value, bool):
            return np.full(len(self._rows), value)
        if (kind := _kind_of(value)) != _CONDITION:
            compare = {_NUMBER: '!= 0', _TEXT: "!= ''", _BYTES: "!= b''"}.get(kind)
            hint = f': compare it, like {compare}' if compare else ''
            raise Refused(f'this is {kind}, not a condition{hint}', node)
        mask: Mask = value
        return mask

    def _value(self, node: ast.expr, depth: int) -> Value:
        compute = _NODES.get(type(node))
        if compute is None:
            raise _unknown(node)
        if depth > _DEEPEST:
            raise Refused(f'more than {_DEEPEST} levels', node)
        try:
            return compute(self, node, depth + 1)
        except exact.InexactError as error:
            row = None if error.row is None else int(self._rows[error.row])
            raise Refused(error.reason, node, row) from None

    def _number(self, node: ast.expr, depth: int) -> Any:
        value = self._value(node, depth)
        if (kind := _kind_of(value)) != _NUMBER:
            raise Refused(f'this is {kind}: only numbers can be computed with', node)
        return value

    def _name(self, node: ast.Name, depth: int) -> Value:  # noqa: ARG002
        # Python takes some different letters of names for the same; columns are not named so.
        return self._column(ast.get_source_segment(self._text, node) or node.id, node)

    def _column(self, name: str, node: ast.expr) -> Value:
        if name not in self._columns:
            raise Refused(f'there is no column {name!r}{_nearest(name, self._columns)}', node)
        self.used.add(name)
        values = decoded_dictionary(self._columns[name])
        if len(self._rows) != len(values):
            values = values.take(pa.array(self._rows))
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            return values
        numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return numbers if numbers.dtype.kind in 'iu' else numbers.astype(np.float64, copy=False)

    def _constant(self, node: ast.Constant, depth: int) -> Value:  # noqa: ARG002
        value = node.value
        if not isinstance(value, (str, bytes, int, float)):
            hint = 'there are no nulls' if value is None else f'{value!r} is no literal here'
            raise Refused(hint, node, allowed=True)
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Refused('this text has no UTF-8 form', node) from None
        return value

    def _bool_op(self, node: ast.BoolOp, depth: int) -> Mask:
        return self._all(node.values, depth, isinstance(node.op, ast.And))

    def _all(self, nodes: Iterable[ast.expr], depth: int, go_on: bool = True) -> Mask:
        """`and` of conditions, or `or` of them; each decides about the samples left over.

        Args:
            nodes: The conditions.
            depth: Of the tree.
            go_on: What lets the next condition be looked at: True for `and`, False for `or`.
        """
        mask = np.full(len(self._rows), go_on)
        for node in nodes:
            left = mask == go_on
            rows = Rows(self._text, self._columns, self._rows[left], self.used)
            mask[left] = rows.condition(node, depth)
        return mask

    def _unary_op(self, node: ast.UnaryOp, depth: int) -> Value:
        if isinstance(node.op, ast.Not):
            return ~self.condition(node.operand, depth)
        if not isinstance(node.op, ast.USub):
            raise _unknown(node.op, node)
        value = self._number(node.operand, depth)
        if _is_array(value) and value.dtype.kind != 'f':
            return exact.compute('-', 0, value)
        return -value

    def _bin_op(self, node: ast.BinOp, depth: int) -> Value:
        sign = _SIGNS.get(type(node.op))
        if sign is None:
            raise _unknown(node.op, node)
        left, right = self._number(node.left, depth), self._number(node.right, depth)
        return exact.compute(sign, left, right)

    def _compare(self, node: ast.Compare, depth: int) -> Value:
        sides = [node.left, *node.comparators]
        if len(node.ops) > 1:
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            parts = (ast.Compare(left, [op], [right]) for left, op, right in pairs)
            return self._all((ast.copy_location(part, part.left) for part in parts), depth)
        kind = type(node.ops[0])
        if kind in (ast.In, ast.NotIn):
            return self._is_in(node.left, sides[1], depth, kind is ast.In)
        if kind not in _COMPARISONS:
            raise _unknown(node.ops[0], node)
        left, right = _as_numbers(*(self._value(side, depth) for side in sides))
        if _kind_of(left) != _kind_of(right):
            raise Refused(f'{_kind_of(left)} cannot be compared with {_kind_of(right)}', node)
        if _kind_of(left) == _LIST:
            raise Refused('a list cannot be compared: only len(x) takes one', node)
        if not _is_array(left):
            if not _is_array(right):
                return _COMPARISONS[kind][0](left, right)
            left, right, kind = right, left, _MIRRORED.get(kind, kind)
        plain, arrow = _COMPARISONS[kind]
        if isinstance(left, np.ndarray):
            return exact.compare(plain, left, right)
        other = right if _is_array(right) else pa.scalar(right, left.type)
        return arrow(left, other).to_numpy(zero_copy_only=False)

    def _is_in(self, node: ast.expr, collection: ast.expr, depth: int, wanted: bool) -> Value:
        """Whether values are among literals."""
        if not isinstance(collection, (ast.List, ast.Tuple, ast.Set)):
            hint = "write a list, like ['en', 'de'], or contains(x, 'part')"
            raise Refused(f'`in` takes a list of literals: {hint}', collection)
        value = self._value(node, depth)
        kind = _kind_of(value)
        if not _is_array(value) or kind in (_CONDITION, _LIST):
            raise Refused('`in` takes a column first: numbers, texts or bytes', node)
        items = []
        for element in collection.elts:
            item = _as_numbers(self._value(element, depth), value)[0]
            if _is_array(item):
                raise Refused('`in` takes a list of literals', element)
            if _kind_of(item) != kind:
                raise Refused(f'{kind} cannot be compared with {_kind_of(item)}', element)
            items.append(item)
        if isinstance(value, np.ndarray):
            return exact.among(value, items) == wanted
        found = pc.is_in(value, value_set=pa.array(items, value.type))
        return found.to_numpy(zero_copy_only=False) == wanted

    def _call(self, node: ast.Call, depth: int) -> Value:
        if not isinstance(node.func, ast.Name):
            raise _unknown(node.func)
        name, given = node.func.id, node.args
        if name not in ('column', *_TESTS, *_FUNCTIONS):
            near = _nearest(name, ('column', *_TESTS, *_FUNCTIONS))
            raise Refused(f'there is no function {name!r}{near}', node, allowed=True)
        if len(given) != 1 + (name in _TESTS) or node.keywords:
            wanted = 'a column and a literal' if name in _TESTS else 'one argument'
            raise Refused(f'{name} takes {wanted}', node)
        if name == 'column':
            if isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
                return self._column(given[0].value, node)
            raise Refused("column takes a name, like column('a name')", node)
        value = self._value(given[0], depth)
        kinds, compute = _FUNCTIONS.get(name, ((_TEXT, _BYTES), None))
        if not _is_array(value) or _kind_of(value) not in kinds:
            what = _kind_of(value) if _is_array(value) else 'a literal'
            raise Refused(f'{name} takes a column of {_choice(kinds)}, not {what}', given[0])
        if compute is None:
            return _test(name, value, given[1])
        return compute(value)


def _test(name: str, value: Any, given: ast.expr) -> Mask:
    """Asks texts or bytes for a part."""
    kind, pattern = _kind_of(value), getattr(given, 'value', None)
    if not isinstance(pattern, str if kind == _TEXT else bytes):
        raise Refused(f'{name} takes a literal here, of {kind} like the column', given)
    if name == 'matches' and '\b' in str(pattern):
        raise Refused("'\\b' is a backspace: write r'...'", given)
    try:
        # Arrow looks at a regular expression only where there is a value.
        _TESTS[name](pa.array([pattern[:0]], value.type), pattern)
        found: Mask = _TESTS[name](value, pattern).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise Refused(str(error), given) from None
    return found


def _length(value: pa.Array) -> Any:
    """Characters of texts, bytes of bytes, items of lists."""
    if is_text(value.type):
        return pc.utf8_length(value).to_numpy()
    count = pc.binary_length if is_binary(value.type) else pc.list_value_length
    return count(value).to_numpy()


def _absolute(value: npt.NDArray[Any]) -> Any:
    if value.dtype.kind == 'i':
        return exact.compute('*', value, np.where(value < 0, -1, 1))
    return np.abs(value)


# Name -> what it takes, and how it is computed.
_FUNCTIONS: dict[str, tuple[tuple[str, ...], Callable[[Any], Any] | None]] = {
    'abs': ((_NUMBER,), _absolute),
    'isnan': ((_NUMBER,), np.isnan),
    'len': ((_TEXT, _BYTES, _LIST), _length),
    'lower': ((_TEXT,), pc.utf8_lower),
    'upper': ((_TEXT,), pc.utf8_upper),
}

_NODES: dict[type[ast.AST], Callable[[Rows, Any, int], Value]] = {
    ast.Name: Rows._name,
    ast.Constant: Rows._constant,
    ast.BoolOp: Rows._bool_op,
    ast.UnaryOp: Rows._unary_op,
    ast.BinOp: Rows._bin_op,
    ast.Compare: Rows._compare,
    ast.Call: Rows._call,
}


def _is_array(value: Value) -> bool:
    return isinstance(value, (np.ndarray, pa.Array))


def _kind_of(value: Value) -> str:
    if isinstance(value, np.ndarray):
        return _CONDITION if value.dtype.kind == 'b' else _NUMBER
    if isinstance(value, pa.Array):
        if is_text(value.type):
            return _TEXT
        return _BYTES if is_binary(value.type) else _LIST
    if isinstance(value, bool):
        return _CONDITION
    if isinstance(value, (int, float)):
        return _NUMBER
    return _TEXT if isinstance(value, str) else _BYTES


def _as_numbers(*values: Value) -> list[Value]:
    """The values; a literal True or False beside a number is 1 or 0."""
    number = _NUMBER in map(_kind_of, values)
    return [int(value) if number and isinstance(value, bool) else value for value in values]


def _choice(kinds: tuple[str, ...]) -> str:
    plural = {_NUMBER: 'numbers', _TEXT: 'texts', _BYTES: 'bytes', _LIST: 'lists'}
    return ' or '.join(plural[kind] for kind in kinds)


def _nearest(name: str, names: Iterable[str]) -> str:
    """`: did you mean 'x'?`, or what there is."""
    listed = sorted(names)
    if near := difflib.get_close_matches(name, listed, 1):
        return f': did you mean {near[0]!r}?'
    return f': there are {", ".join(listed)}'


def _unknown(node: Any, place: Any = None) -> Refused:
    """The error about a node that may not be there."""
    hint = _HINTS.get(type(node), 'this may not stand here')
    return Refused(hint, place or node, allowed=True)
