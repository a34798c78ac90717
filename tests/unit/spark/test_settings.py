from __future__ import annotations

import re
from pathlib import Path

import pytest
from interlock.engine.config import BusConfig
from interlock.spark.settings import CompletionError, client_file_text, proof_in, read_settings

SERVERS = "spark.interlock.bootstrap.servers"
FILE = "spark.interlock.client.config.file"


def test_defaults_are_the_bus_interlock_and_ten_seconds() -> None:
    settings = read_settings({SERVERS: "a:9092"})
    assert settings.client == {"bootstrap.servers": "a:9092"}
    assert (settings.topic, settings.timeout_s) == ("interlock-event", 10.0)


def with_file(folder: Path, text: str) -> dict[str, str]:
    """A configuration that names a client file with this text."""
    file = folder / "client.properties"
    file.write_text(text)
    return {FILE: str(file)}


def test_the_client_file_holds_secrets_that_repr_does_not_show(tmp_path: Path) -> None:
    text = "# ours\n\nbootstrap.servers = a:9092\nsasl.password=p=w\n"
    settings = read_settings(with_file(tmp_path, text))
    assert settings.client == {"bootstrap.servers": "a:9092", "sasl.password": "p=w"}
    assert "p=w" not in repr(settings)


def test_servers_in_the_configuration_win_over_the_file(tmp_path: Path) -> None:
    conf = with_file(tmp_path, "bootstrap.servers=a:9092\n")
    assert read_settings({**conf, SERVERS: "b:9092"}).client["bootstrap.servers"] == "b:9092"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("startd", "true", "unknown setting spark.interlock.startd: did you mean spark.interlock.started"),
        ("zzzzzzzzzz", "true", "unknown setting spark.interlock.zzzzzzzzzz: known are spark."),
        ("data.error", "x", "data.error: 'error' is reserved for Interlock"),
        *(("delivery.timeout", text, "delivery.timeout") for text in ("soon", "0s", "-1s", "10 parsecs")),
        ("events", "queries", "events is 'queries': set any of query, streaming, write"),
        ("started", "yes", "started is 'yes': set true or false"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, text: str, message: str) -> None:
    with pytest.raises(CompletionError, match=re.escape(message)):
        read_settings({SERVERS: "a:9092", f"spark.interlock.{name}": text})


def test_a_wrong_line_is_named_by_its_number_and_not_quoted(tmp_path: Path) -> None:
    with pytest.raises(CompletionError, match="line 2 of") as caught:
        read_settings(with_file(tmp_path, "bootstrap.servers=a:9092\nhunter2\n"))
    assert "hunter2" not in str(caught.value)


def test_a_missing_file_is_reported_with_its_setting() -> None:
    with pytest.raises(CompletionError, match=r"spark\.interlock\.client\.config\.file: /no/such"):
        read_settings({FILE: "/no/such"})


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "sasl.oauthbearer.token.endpoint.url",
        "transactional.id",
    ],
)
def test_properties_that_run_code_or_show_tokens_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CompletionError, match=f"sets {name}, which is not allowed"):
        read_settings({**with_file(tmp_path, f"{name}=x\n"), SERVERS: "a:9092"})


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("10s", 10.0), ("1m", 60.0), ("7", 7.0)])
def test_the_timeout_is_written_like_sparks_durations(text: str, seconds: float) -> None:
    conf = {SERVERS: "a:9092", "spark.interlock.delivery.timeout": text}
    assert read_settings(conf).timeout_s == pytest.approx(seconds)


def test_events_beside_the_end_are_listed_by_kind() -> None:
    listed = {
        None: {"write", "streaming"},
        "none": set(),
        "": set(),
        "query": {"query"},
        " query , streaming": {"query", "streaming"},
    }
    for text, kinds in listed.items():
        conf = {SERVERS: "a:9092"} | ({} if text is None else {"spark.interlock.events": text})
        assert read_settings(conf).kinds == kinds


def test_a_switch_is_true_in_any_case() -> None:
    assert read_settings({SERVERS: "a:9092", "spark.interlock.started": "True"}).started


def test_a_key_in_the_client_file_may_have_its_lines_escaped(tmp_path: Path) -> None:
    conf = with_file(tmp_path, "bootstrap.servers=a:9092\nssl.key.pem=-----BEGIN\\nabc\\n-----END\n")
    assert read_settings(conf).client["ssl.key.pem"] == "-----BEGIN\nabc\n-----END"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.key.pem", "-----BEGIN\nabc\n-----END\n"),
        ("ssl.key.pem", "-----BEGIN\r\nabc\r\n-----END\r\n"),
        ("sasl.password", r"C:\new"),
        ("sasl.password", "p\rw\u2028p\x85w\x0cp=#"),
    ],
)
def test_the_driver_reads_the_value_that_the_submitting_task_wrote(
    tmp_path: Path, name: str, value: str
) -> None:
    (tmp_path / "client").write_text(client_file_text({"bootstrap.servers": "a:9092", name: value}))
    settings = read_settings({FILE: str(tmp_path / "client")})
    assert settings.client == {"bootstrap.servers": "a:9092", name: value}


def test_a_file_with_the_line_ends_of_windows_is_read(tmp_path: Path) -> None:
    (tmp_path / "client").write_bytes(b"# ours\r\n\r\nbootstrap.servers=a:9092\r\nclient.id=x\r\n")
    settings = read_settings({FILE: str(tmp_path / "client")})
    assert settings.client == {"bootstrap.servers": "a:9092", "client.id": "x"}


def test_a_line_end_in_another_property_than_a_key_is_refused_without_its_value() -> None:
    with pytest.raises(CompletionError, match=r"sasl\.password contains a line end.*remove it") as caught:
        client_file_text({"bootstrap.servers": "a:9092", "sasl.password": "canary\nsecret"})
    assert "canary" not in str(caught.value)


CANARY = "canary-secret-" + "c" * 32


def test_the_client_file_of_a_submitting_task_has_the_secret_of_the_proof(tmp_path: Path) -> None:
    """Not the Spark configuration, which the UI and the event log show."""
    extra = {"bootstrap.servers": "a:9092", "interlock.proof.secret": CANARY}
    bus = BusConfig.from_extra(extra, name="b", deployment="d", connection="c")
    conf = {**with_file(tmp_path, client_file_text(bus.client)), "spark.interlock.bus": "b"}
    settings = read_settings(conf)
    assert settings.client == bus.client
    assert CANARY not in repr(settings)
    found = proof_in(conf[FILE], "b")
    assert found is not None
    assert bus.proof is not None
    assert (found.topic, found.secrets) == (settings.topic, bus.proof.secrets)
    assert proof_in(None, "b") is None


def test_a_secret_that_cannot_be_used_is_refused_without_its_value(tmp_path: Path) -> None:
    conf = with_file(tmp_path, "bootstrap.servers=a:9092\ninterlock.proof.secret=canary\n")
    with pytest.raises(CompletionError, match=r"file: interlock\.proof\.secret is not usable") as caught:
        read_settings(conf)
    assert "canary" not in str(caught.value)


def test_a_secret_in_the_spark_configuration_is_refused_without_its_value() -> None:
    with pytest.raises(CompletionError, match=r"unknown setting spark\.interlock\.proof\.secret") as caught:
        read_settings({SERVERS: "a:9092", "spark.interlock.proof.secret": CANARY})
    assert CANARY not in str(caught.value)
