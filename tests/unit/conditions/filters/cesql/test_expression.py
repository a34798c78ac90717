"""Results of CESQL expressions: a value, and the error if there is one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.conditions.filters.cesql import MAX_STRING_CHARS, compile  # noqa: A004

EVENT: Mapping[str, str | int | bool] = {
    "specversion": "1.0",
    "id": "e-17",
    "source": "https://shop.example/orders",
    "type": "com.shop.orders.done",
    "subject": "orders/2026-11-20",
    "time": "2026-11-20T06:00:00Z",
    "level": "42",
    "urgent": "TRUE",
    "7days": "week",
    "typedlevel": 42,
    "typedurgent": True,
}


def case(expression: str, value: str | int | bool, error: str | None = None, id: str = "") -> object:  # noqa: A002
    return pytest.param(expression, value, error, id=id or expression)


@pytest.mark.parametrize(
    ("expression", "value", "error"),
    [
        # literals
        case("007", 7),
        case("+5", 5),
        case("2147483647", 2147483647),
        case("-2147483648", -2147483648),
        case("fAlSe", False),
        case("''", ""),
        case("'it\\'s'", "it's", id="quote-escaped-in-single"),
        case('"say \\"hi\\""', 'say "hi"', id="quote-escaped-in-double"),
        case("'say \\\"hi\\\"'", 'say \\"hi\\"', id="backslash-stays-before-the-other-quote"),
        case("'C:\\temp\\\\'", "C:\\temp\\\\", id="backslash-stays-elsewhere"),
        case("'two\nlines'", "two\nlines", id="line-break-in-string"),
        case(" \t\r\n'x'\n", "x", id="whitespace"),
        # attributes
        case("id", "e-17"),
        case("SUBJECT", "orders/2026-11-20"),
        case("7DAYS", "week"),
        case("time", "2026-11-20T06:00:00Z"),
        case("typedlevel", 42),
        case("typedurgent", True),
        case("nosuch", False, "MissingAttributeError"),
        case("(nosuch)", False, "MissingAttributeError"),
        case("EXISTS subject", True),
        case("exists nosuch", False),
        case("NOT EXISTS nosuch AND EXISTS Level", True),
        # a missing attribute gives the zero value of the expression around it, whatever else fails there
        case("nosuch = ''", False, "MissingAttributeError"),
        case("nosuch != 'x'", False, "MissingAttributeError"),
        case("NOT nosuch", False, "MissingAttributeError"),
        case("nosuch NOT LIKE 'x'", False, "MissingAttributeError"),
        case("nosuch NOT IN ('x')", False, "MissingAttributeError"),
        case("'x' IN ('y', nosuch)", False, "MissingAttributeError"),
        case("3 % nosuch", 0, "MissingAttributeError"),
        case("nosuch / 0", 0, "MissingAttributeError"),
        case("-nosuch", 0, "MissingAttributeError"),
        case("CONCAT('a', nosuch)", "", "MissingAttributeError"),
        case("INT(nosuch)", 0, "MissingAttributeError"),
        # unary
        case("- 3", -3),
        case("---3", -3),
        case("-'12'", -12),
        case("-(-2147483647 - 1)", 0, "MathError"),
        case("NOT 'fAlSe'", True),
        case("NOT 10", False),
        case("NOT 0", True),
        case("NOT 'maybe'", False, "CastError"),
        # arithmetic
        case("7-2", 5),
        case("7 -2+1", 6),
        case("level-2", 40),
        case("2 + 3 * 4 - 1", 13),
        case("20 / 3 % 4", 2),
        case("20 - 3 - 4", 13),
        case("-7 / 2", -3),
        case("7 / -2", -3),
        case("-7 / -2", 3),
        case("-7 % 3", -1),
        case("7 % -3", 1),
        case("'6' * TRUE", 6),
        case("level / 0", 0, "MathError"),
        case("level % FALSE", 0, "MathError"),
        case("2147483647 + 1", 0, "MathError"),
        case("-2147483648 - 1", 0, "MathError"),
        case("65536 * 65536", 0, "MathError"),
        case("-2147483648 / -1", 0, "MathError"),
        case("-2147483648 % -1", 0),
        case("'four' + 1", 0, "CastError"),
        # comparison: the right side's type decides
        case("level = 42", True),
        case("level = '42'", True),
        case("level = '042'", False),
        case("level = 042", True),
        case("'+42' = 42", True),
        case("42 = level", True),
        case("'042' = typedlevel", True),
        case("typedlevel = level", True),
        case("subject = 42", False, "CastError"),
        case("42 = subject", False),
        case("urgent = true", True),
        case("true = urgent", False),
        case("typedurgent = 'true'", True),
        case("TRUE = 7", False),
        case("7 = TRUE", True),
        case("subject = TRUE", False, "CastError"),
        case("'a' = 'A'", False),
        case("level <> 41", True),
        case("type != 'com.shop.orders.done'", False),
        case("level > 41", True),
        case("'9' < '10'", True),
        case("level <= 42", True),
        case("level >= 43", False),
        case("FALSE < TRUE", True),
        case("time > '2026-01-01T00:00:00Z'", False, "CastError"),
        case("1 = 1 = TRUE", True),
        case("3 > 2 > 1", False),
        case("1 + 1 = 2 AND 2 < 1 + 2", True),
        # logic
        case("TRUE AND 'TRUE' AND 1", True),
        case("FALSE OR 0 OR 'true'", True),
        case("TRUE XOR TRUE XOR TRUE", True),
        case("TRUE XOR FALSE AND FALSE", False),
        case("TRUE OR FALSE AND FALSE", False, id="left-to-right-OR-AND"),
        case("FALSE AND FALSE OR TRUE", True, id="left-to-right-AND-OR"),
        case("TRUE OR FALSE XOR TRUE", False, id="left-to-right-OR-XOR"),
        case("TRUE OR (FALSE AND FALSE)", True),
        case("FALSE AND nosuch", False),
        case("TRUE OR nosuch", True),
        case("FALSE AND nosuch = 1 OR TRUE", True),
        case("TRUE XOR nosuch", False, "MissingAttributeError"),
        case("TRUE AND subject", False, "CastError"),
        case("EXISTS nosuch AND nosuch = 3", False),
        case("nosuch = 3 OR TRUE", False, "MissingAttributeError"),
        case("NOT (nosuch = 3)", False, "MissingAttributeError"),
        # NOT and - bind tighter than LIKE, IN and all operators below
        case("NOT subject = 42", False, "CastError"),
        case("NOT level = 0", True),  # NOT 42 is false, and false is 0
        case("NOT (level = 42)", False),
        case("NOT TRUE LIKE 'f%'", True),
        case("-level IN ('-42')", True),
        case("2 * 21 IN (21)", 2),  # 21 IN (21) is true, and true is 1
        # IN: the left side's type decides; elements are cast until one is equal
        case("level IN (41, 42)", True),
        case("id IN ('E-17')", False),
        case("INT(level) IN ('041', '042')", True),
        case("typedlevel IN (level)", True),
        case("TRUE IN (0, 7)", True),
        case("'7' IN (TRUE, 7)", True),
        case("'true' IN (TRUE)", True),
        case("7 IN (7, 'seven')", True),
        case("7 IN ('seven', 7)", False, "CastError"),
        case("7 NOT IN ('seven', 7)", False, "CastError"),
        case("7 IN (8, 'seven')", False, "CastError"),
        case("7 IN (typedlevel, 'seven')", False, "CastError"),
        case("id NOT IN (subject, source)", True),
        case("id IN (subject, CONCAT('e-', 10 + 7))", True),
        case("(1 IN (1)) IN (TRUE)", True),
        # LIKE
        case("subject LIKE 'orders/%'", True),
        case("subject like '%-__'", True),
        case("source NOT LIKE '%example%'", False),
        case("typedlevel LIKE '4_'", True),
        case("FALSE LIKE 'f_l%'", True),
        case("'100%' LIKE '100\\%'", True),
        case("'1000' LIKE '100\\%'", False),
        case("'x' LIKE 'X'", False),
        case("'a' LIKE 'a' LIKE 'true'", True),
        # casts by function
        case("INT('-0042')", -42),
        case("INT('2147483648')", 0, "CastError"),
        case("INT(' 1')", 0, "CastError"),
        case("INT('1_000')", 0, "CastError"),
        case("INT('')", 0, "CastError"),
        case("INT('+')", 0, "CastError"),
        case("INT('--1')", 0, "CastError"),
        case("INT('\u0661')", 0, "CastError", id="INT-of-other-digits"),
        case("INT('1.0')", 0, "CastError"),
        case("int(TRUE)", 1),
        case("BOOL('tRUE')", True),
        case("BOOL(-3)", True),
        case("BOOL('1')", False, "CastError"),
        case("BOOL(' true')", False, "CastError"),
        case("STRING(-0)", "0"),
        case("STRING(TRUE AND FALSE)", "false"),
        case("IS_INT(level)", True),
        case("IS_INT('x') OR IS_INT('99999999999')", False),
        case("IS_BOOL(urgent)", True),
        case("IS_BOOL(subject)", False),
        # functions of texts: characters are code points, counted from 1
        case("LENGTH('Zürich 🚲')", 8),
        case("LENGTH(12345)", 5),
        case("CONCAT()", ""),
        case("CONCAT(1, TRUE, 'x')", "1truex"),
        case("CONCAT_WS(', ', 'a', 2, 'c')", "a, 2, c"),
        case("CONCAT_WS('-')", ""),
        case("LOWER('ÀB')", "àb"),
        case("UPPER('straße')", "STRASSE"),
        case("TRIM('\u2003\u00a0 x y \u3000\t')", "x y", id="TRIM-of-white-space"),
        case("TRIM('\x1cx\u200b')", "\x1cx\u200b", id="TRIM-leaves-other-characters"),
        case("LEFT('abc', 0)", ""),
        case("LEFT('abc', 9)", "abc"),
        case("LEFT(subject, 6)", "orders"),
        case("LEFT('abc', -1)", "abc", "FunctionEvaluationError"),
        case("(LEFT('abc', -1))", "abc", "FunctionEvaluationError"),
        case("LEFT('abc', -1) = 'abc'", False, "FunctionEvaluationError"),
        case("CONCAT(LEFT('abc', -1))", "", "FunctionEvaluationError"),
        case("RIGHT('abc', 0)", ""),
        case("RIGHT('abc', 2)", "bc"),
        case("RIGHT('abc', 9)", "abc"),
        case("RIGHT('abc', -9)", "abc", "FunctionEvaluationError"),
        case("SUBSTRING('window', 4)", "dow"),
        case("SUBSTRING('window', 6)", "w"),
        case("SUBSTRING('window', 7)", "", "FunctionEvaluationError"),
        case("SUBSTRING('window', -6)", "window"),
        case("SUBSTRING('window', -7)", "", "FunctionEvaluationError"),
        case("SUBSTRING('window', 0)", ""),
        case("SUBSTRING('window', 2, 3)", "ind"),
        case("SUBSTRING('window', -3, 2)", "do"),
        case("SUBSTRING('window', 5, 99)", "ow"),
        case("SUBSTRING('window', 5, 0)", ""),
        case("SUBSTRING('window', 2, -1)", "", "FunctionEvaluationError"),
        case("SUBSTRING('', 1)", "", "FunctionEvaluationError"),
        case("LEFT('abc', 'x')", "", "CastError"),
        case("ABS('-3')", 3),
        case("ABS(-2147483648)", 2147483647, "MathError"),
        case("ABS(-2147483648) = 2147483647", False, "MathError"),
        # calls of unknown functions
        case("NOW()", False, "MissingFunctionError"),
        case("LENGTH()", False, "MissingFunctionError"),
        case("LEFT('abc')", False, "MissingFunctionError"),
        case("LEFT('abc', 1, 2)", False, "MissingFunctionError"),
        case("CONCAT_WS()", False, "MissingFunctionError"),
        case("NOW() LIKE 'x'", False, "MissingFunctionError"),
        case("TRUE OR NOW()", True),
    ],
)  # fmt: skip
def test_an_expression_has_its_result(expression: str, value: str | int | bool, error: str | None) -> None:
    result = compile(expression).evaluate(EVENT)
    assert (type(result.value), result.value) == (type(value), value)
    assert (result.error or "None").split(":")[0] == (error or "None")


# As a Kafka header holds them: the canonical strings of an Integer and a Boolean, and texts that are neither.
UNTYPED: Mapping[str, str] = {
    "id": "7", "source": "true", "type": "0", "subject": "1",
    "n": "7", "zero": "0", "minus": "-12", "most": "2147483647", "more": "2147483648",
    "flag": "true", "off": "false", "code": "07", "loud": "TRUE", "plus": "+7", "word": "seven",
}  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        # the right side is an attribute: the left side is cast to what its text stands for
        ("'07' = n", True), ("'+7' = n", True), ("'7' = n", True), ("7 = n", True), ("'08' = n", False),
        ("'-012' = minus", True), ("'02147483647' = most", True), ("'02147483648' = more", False),
        ("'TRUE' = flag", True), ("'true' = flag", True), ("'False' = off", True), ("'FALSE' = flag", False),
        ("TRUE = flag", True), ("1 = flag", True), ("5 = flag", True), ("0 = off", True), ("TRUE = zero",
        False),
        ("'07' != n", False), ("'TRUE' <> flag", False), ("'08' != n", True),
        # it may be a String too, so a cast that fails makes the sides unequal and is no error
        ("'seven' = n", False), ("'seven' != n", True), ("'yes' != flag", True),
        # texts that are no canonical string of an Integer or a Boolean are Strings
        ("'7' = code", False), ("'07' = code", True), ("'true' = loud", False), ("TRUE = loud", False),
        ("'7' = plus", False), ("7 = code", False),
        # two attributes
        ("code = n", True), ("n = code", False), ("loud = flag", True), ("word = n", False), ("word != n",
        True),
        ("flag = n", False), ("n = flag", True),
        # IN casts the elements to what the attribute's text stands for
        ("n IN ('07')", True), ("n IN ('seven', '07')", True), ("n NOT IN ('seven', '8')", True),
        ("n NOT IN ('07', 'seven')", False), ("flag IN ('TRUE')", True), ("flag IN (1)", True),
        ("n IN (code, 'x')", True), ("n IN (word, code)", True), ("word IN ('7', n)", False),
        ("code IN ('7')", False), ("n IN (TRUE)", False), ("7 IN (flag, n)", True), ("TRUE IN (n)", True),
        ("'07' IN (n)", False),
        # casts of the attribute itself
        ("flag = 1", True), ("flag + 1 = 2", True), ("INT(flag) = 1", True), ("off < 1", True),
        ("n = TRUE", True), ("BOOL(n)", True), ("BOOL(zero)", False), ("NOT zero", True), ("n AND flag",
        True),
        ("zero XOR flag", True), ("IS_INT(flag)", True), ("IS_BOOL(n)", True), ("IS_BOOL(word)", False),
        ("STRING(n) = '07'", False), ("LENGTH(flag) = 4", True), ("n LIKE '7'", True), ("-flag = -1", True),
        # alone
        ("flag", True), ("(flag)", True), ("off", False),
        # CloudEvents' own attributes are Strings, whatever their text
        ("'07' = id", False), ("'TRUE' = source", False), ("id IN ('07')", False), ("subject IN ('01')",
        False),
        ("source = TRUE", True),
    ],
)  # fmt: skip
def test_the_text_of_an_extension_also_stands_for_an_integer_or_a_boolean(
    expression: str, value: bool
) -> None:
    """Reference: CloudEvents SQL 1.0, sections 3.2 and 3.7, for extensions of type Integer and Boolean."""
    assert compile(expression).evaluate(UNTYPED) == (value, None)


@pytest.mark.parametrize(
    "expression",
    ["word = 7", "code AND TRUE", "BOOL(code)", "BOOL(more)", "loud + 1", "BOOL(id)", "subject AND TRUE"],
)
def test_a_text_that_stands_for_no_such_value_is_a_cast_error(expression: str) -> None:
    error = compile(expression).evaluate(UNTYPED).error
    assert error is not None
    assert error.startswith("CastError: ")


@given(
    number=st.integers(-(2**31), 2**31 - 1), flag=st.booleans(), zeros=st.integers(0, 3), upper=st.booleans(),
    operator=st.sampled_from(["{0} = {1}", "{0} != {1}", "{1} IN ({0})", "{1} = {0}", "{1} IN ({0}, 'x')"]),
)  # fmt: skip
def test_an_extension_compares_the_same_as_text_and_with_its_type(
    number: int, flag: bool, zeros: int, upper: bool, operator: str
) -> None:
    """Reference: CloudEvents SQL 1.0, section 3.7; binary mode holds texts, structured mode has types."""
    digits = f"{'-' if number < 0 else ''}{'0' * zeros}{abs(number)}"
    word = str(flag).upper() if upper else str(flag).lower()
    for left, name, typed, text in (
        (f"'{digits}'", "n", number, str(number)),
        (str(number), "n", number, str(number)),
        (f"'{word}'", "flag", flag, str(flag).lower()),
        (str(flag), "flag", flag, str(flag).lower()),
    ):
        expression = compile(operator.format(left, name))
        expected, error = expression.evaluate({name: typed})
        if error is None:
            assert expression.evaluate({name: text}) == (expected, None)


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type", "TYPE"])
def test_a_required_attribute_always_exists(name: str) -> None:
    assert compile(f"EXISTS {name}").evaluate({}) == (True, None)


def test_the_first_error_is_the_one_that_is_reported() -> None:
    assert compile("first + INT('x') + second").evaluate({}).error == (
        "MissingAttributeError: the event has no attribute first"
    )


@pytest.mark.parametrize(
    "value",
    [None, 1.5, 2**31, -(10**5000), b"x", ["x"]],
    ids=["none", "float", "33-bits", "huge", "bytes", "list"],
)
def test_a_value_of_a_type_that_cesql_lacks_is_an_error(value: object) -> None:
    for expression in ["x", "x = 'a'", "'a' = x", "x IN ('a')", "'a' IN (x)", "LENGTH(x) > 0", "x LIKE '%'"]:
        result = compile(expression).evaluate({"x": value})  # type: ignore[dict-item]
        assert result.value is False
        assert result.error is not None
        assert result.error.startswith("GenericError: attribute x is ")
        assert len(result.error) < 200


@pytest.mark.parametrize(
    "expression",
    [
        "CONCAT(x, x, x)",
        "CONCAT_WS(x, '', '', '')",
        "UPPER(CONCAT_WS('-', x, x, x))",
        "LOWER(y)",
        "UPPER(y)",
        "TRIM(y)",
    ],
)
def test_a_function_makes_no_string_beyond_the_limit(expression: str) -> None:
    attributes = {"x": "a" * (MAX_STRING_CHARS // 2 + 1), "y": "a" * (MAX_STRING_CHARS + 1)}
    result = compile(expression).evaluate(attributes)
    assert result.value == ""
    assert result.error is not None
    assert result.error.startswith("FunctionEvaluationError: ")


def test_a_string_as_long_as_the_limit_is_made() -> None:
    half = "a" * (MAX_STRING_CHARS // 2)
    assert compile("CONCAT(x, x)").evaluate({"x": half}) == (half + half, None)


def test_like_refuses_a_text_beyond_the_limit() -> None:
    like = compile("x LIKE '%'")
    assert like.evaluate({"x": "a" * MAX_STRING_CHARS}) == (True, None)
    error = like.evaluate({"x": "a" * (MAX_STRING_CHARS + 1)}).error
    assert error is not None
    assert error.startswith("GenericError: LIKE of 16385 characters")


def test_digits_without_end_are_no_integer() -> None:
    x = compile("x = 1")
    assert x.evaluate({"x": "0" * 9000 + "1"}) == (True, None)
    for digits in ("9" * 9000, "0" * 20_000 + "1", "0" * 1_000_000 + "x", "-" + "1" * 1_000_000):
        error = x.evaluate({"x": digits}).error
        assert error is not None
        assert error.startswith("CastError: ")
        assert len(error) < 200


def test_an_expression_is_equal_by_its_text() -> None:
    one, same, other = compile("a = 1"), compile("a = 1"), compile("a  = 1")
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert str(one) == "a = 1"


def test_an_expression_can_be_copied_and_pickled() -> None:
    expression = compile("a = 1 OR EXISTS b")
    for again in (copy.deepcopy(expression), pickle.loads(pickle.dumps(expression))):
        assert again == expression
        assert again.evaluate({"a": "1"}) == (True, None)
