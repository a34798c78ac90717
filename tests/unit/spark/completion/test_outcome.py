"""The outcome of work in the form that an event may carry."""

from __future__ import annotations

import json
from asyncio import CancelledError
from types import SimpleNamespace

import pytest
from interlock.spark.completion.outcome import MESSAGE_LIMIT, Failure, failure_of, redacted


@pytest.mark.parametrize("error", [None, SystemExit(), SystemExit(None), SystemExit(0)])
def test_no_error_and_an_exit_with_zero_are_success(error: BaseException | None) -> None:
    assert failure_of(error) is None


class NotebookExit(Exception):
    """As the one of mssparkutils and notebookutils."""


class Thrown(Exception):
    """As py4j's Py4JJavaError of an exception of the JVM; without a class the JVM is gone."""

    def __init__(self, java_class: str = "") -> None:
        def name() -> str:
            if not java_class:
                raise ConnectionRefusedError("the JVM is gone")
            return java_class

        self.java_exception = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=name))


@pytest.mark.parametrize("error", [NotebookExit("done"), Thrown("NotebookExit")])
def test_the_exit_of_a_notebook_with_a_value_is_a_success(error: BaseException) -> None:
    assert failure_of(error) is None


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(1), SystemExit("no input"), KeyboardInterrupt(), GeneratorExit(), CancelledError(),
        ValueError("NotebookExit"), Thrown("SparkException"), Thrown(),
    ],
    ids=repr,
)  # fmt: skip
def test_every_other_error_is_a_failure(error: BaseException) -> None:
    assert failure_of(error) is not None


def test_a_failure_has_its_class_and_the_beginning_of_its_message() -> None:
    assert Failure.of(ValueError("x" * 10_000_000)).message == "x" * (MESSAGE_LIMIT - 1) + "…"
    assert Failure.of(KeyError("cents")) == Failure("KeyError", "'cents'")
    assert Failure.of(json.JSONDecodeError("bad", "{", 0)).name == "json.decoder.JSONDecodeError"


class Unreadable(Exception):
    """As py4j's Py4JJavaError, which asks the JVM for its text."""

    def __str__(self) -> str:
        raise ConnectionRefusedError("the JVM is gone")


def test_a_failure_whose_text_cannot_be_read_has_its_class() -> None:
    assert Failure.of(Unreadable()) == Failure(f"{__name__}.Unreadable", "(its text cannot be read)")


def test_a_text_that_no_event_can_carry_is_changed() -> None:
    assert Failure.of(ValueError("bad line caf\udce9")).message == "bad line caf?"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("cannot open jdbc:postgresql://ada:hunter2@db/x", "cannot open jdbc:postgresql://***@db/x"),
        ("amqp://ada:hunt/er@2@db/x and more", "amqp://***@db/x and more"),
        ("Authorization: Bearer abc.def-1", "Authorization: Bearer ***"),
        ("http://db:8080/orders", "http://db:8080/orders"),
        (
            "jdbc:sqlserver://db;user=ada;password=hunter2;x=1",
            "jdbc:sqlserver://db;user=ada;password=***;x=1",
        ),
        ("spark.ssl.keyPassword = hunter2 is wrong", "spark.ssl.keyPassword = *** is wrong"),
        ('{"fs.s3a.secret.key": "hunter 2", "a": 1}', '{"fs.s3a.secret.key": ***, "a": 1}'),
        ("API_KEY:hunter2, token='hunter2'", "API_KEY:***, token=***"),
        ("redis://:hunter2@db:6379/0", "redis://***@db:6379/0"),
        ("jdbc:postgresql://me@example.com:hunter2@db/x", "jdbc:postgresql://***@db/x"),
        ("https://ghp_hunter2@example.com/a.git", "https://***@example.com/a.git"),
        ("https://example.com/a@b", "https://example.com/a@b"),
        ("AccountName=a;AccountKey=hunter2==;x=1", "AccountName=a;AccountKey=***;x=1"),
        ("fs.azure.account.key.a.dfs.example.com=hunter2", "fs.azure.account.key.a.dfs.example.com=***"),
        ("https://example.com/b?sv=1&sig=hunter2&x=1", "https://example.com/b?sv=1&sig=***&x=1"),
        ("?X-Amz-Signature=hunter2", "?X-Amz-Signature=***"),
        ("job.py --api-token hunter2 --date 1", "job.py --api-token *** --date 1"),
        ("['job.py', '--password', 'hunter2', 'x']", "['job.py', '--password', ***, 'x']"),
        (r"{'password': 'hun\'ter2', 'a': 1}", "{'password': ***, 'a': 1}"),
        ("job.py -Xapi.token hunter2, my-token hunter2", "job.py -Xapi.token ***, my-token ***"),
        ("{'--access-key', 'hunter2'}; x.api_key=hunter2", "{'--access-key', ***}; x.api_key=***"),
        ("no signature, and a design of keys", "no signature, and a design of keys"),
        ("path /data/orders not found", "path /data/orders not found"),
        ("a secretary of state", "a secretary of state"),
    ],
)
def test_what_looks_like_a_secret_is_redacted(message: str, expected: str) -> None:
    assert redacted(message) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("jdbc:oracle:thin:ada/hunt@er2@//db:1521/x is down", "jdbc:oracle:thin:***@//db:1521/x is down"),
        ("jdbc:oracle:thin:@//db:1521/x, mail a@b", "jdbc:oracle:thin:@//db:1521/x, mail a@b"),
        ("Map(user -> ada, password -> hunter2, x -> 1)", "Map(user -> ada, password -> ***, x -> 1)"),
        ("(spark.db.passwd,hunter2)", "(spark.db.passwd,***)"),
        ("('db.token', 'hunter2')", "('db.token', ***)"),
        ("OPTIONS (user 'ada', password 'hunter2')", "OPTIONS (user 'ada', password ***)"),
        ("CREATE USER ada IDENTIFIED BY 'hunter2'", "CREATE USER ada IDENTIFIED BY ***"),
        ("jdbc:sqlserver://db;password={hunt;er}}2};x=1", "jdbc:sqlserver://db;password=***;x=1"),
        ("key=-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----; x", "key=***; x"),
        ("pem_private_key: -----BEGIN PRIVATE KEY-----\\nMIIE", "pem_private_key: ***"),
        ("<db.password>hunter2</db.password>", "<db.password>***</db.password>"),
        ("<name>s3.secret</name> <value>hunter2</value>", "<name>s3.secret</name> <value>***</value>"),
        ("job.py --jwt.token='hunter2 hun", "job.py --jwt.token=***"),
        ("a password is wrong (token, retry)", "a password is wrong (token, retry)"),
        ("unexpected token 'x' at 3", "unexpected token 'x' at 3"),
    ],
)
def test_a_secret_in_another_systems_notation_is_redacted(message: str, expected: str) -> None:
    """apache/spark#56630 (Oracle's URLs), apache/airflow#67459 (a value that is cut off),
    snowflakedb/spark-snowflake#525 (private keys)."""
    assert redacted(message) == expected


@pytest.mark.parametrize("scheme", ["abfs", "abfss", "wasb", "wasbs"])
def test_the_container_in_a_path_of_azure_storage_is_no_secret(scheme: str) -> None:
    """It is part of `written.outputs`: without it nobody finds the data."""
    path = f"{scheme}://raw@bank.dfs.example.com/orders"
    assert redacted(path) == path
    assert redacted(f"{scheme}://ada:hunter2@bank.example.com/x") == f"{scheme}://***@bank.example.com/x"


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:oracle:thin:a" * 220,
        "<token>" * 570,
        "-----BEGIN " * 360,
        "token" * 800,  # the words that an option or name may be: once minutes each
        "--api-key" * 440,
        "0123456789abcdef" * 250,
        "com.bank.orders." * 250,
        "password" + " " * 3990,
        "://" * 1300,
        "x://a:" * 660,
        "Bearer" + " " * 3990,
    ],
)
def test_the_text_of_an_error_may_be_one_long_word(text: str) -> None:
    """Regression: the patterns went back over such a word from each of its characters, for minutes."""
    assert redacted(text)[:400] == text[:400]


def test_a_secret_after_a_long_name_is_redacted() -> None:
    name = "x" * 400 + ".token" + "y" * 50
    assert redacted(f"{name}=hunter2") == f"{name}=***"
    assert redacted(f"--{name} hunter2") == f"--{name} ***"
