from __future__ import annotations

from pathlib import Path

import pytest
from interlock.spark.settings import CompletionError, read_settings

SERVERS = "spark.interlock.bootstrap.servers"
FILE = "spark.interlock.client.config.file"


def test_defaults_are_the_bus_interlock_and_ten_seconds() -> None:
    settings = read_settings({SERVERS: "a:9092"})
    assert (settings.client, settings.topic, settings.timeout_s) == (
        {"bootstrap.servers": "a:9092"},
        "interlock-event",
        10.0,
    )


def test_the_client_file_holds_secrets_that_repr_does_not_show(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\n\nbootstrap.servers = a:9092\nsasl.password=p=w\n")
    settings = read_settings({FILE: str(file)})
    assert settings.client == {"bootstrap.servers": "a:9092", "sasl.password": "p=w"}
    assert "p=w" not in repr(settings)


def test_servers_in_the_configuration_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:9092\n")
    assert read_settings({FILE: str(file), SERVERS: "b:9092"}).client["bootstrap.servers"] == "b:9092"


@pytest.mark.parametrize(
    ("name", "hint"), [("startd", "did you mean spark.interlock.started"), ("zzzzzzzzzz", "known are spark.")]
)
def test_an_unknown_setting_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(CompletionError) as caught:
        read_settings({SERVERS: "a:9092", f"spark.interlock.{name}": "true"})
    assert f"unknown setting spark.interlock.{name}: {hint}" in str(caught.value)


def test_reserved_names_of_data_are_refused() -> None:
    with pytest.raises(CompletionError, match=r"data\.error: 'error' is reserved for Interlock"):
        read_settings({SERVERS: "a:9092", "spark.interlock.data.error": "x"})


def test_a_wrong_line_is_named_by_its_number_and_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:9092\nhunter2\n")
    with pytest.raises(CompletionError, match="line 2 of") as caught:
        read_settings({FILE: str(file)})
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
    file = tmp_path / "client.properties"
    file.write_text(f"{name}=x\n")
    with pytest.raises(CompletionError, match=f"sets {name}, which is not allowed"):
        read_settings({FILE: str(file), SERVERS: "a:9092"})


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("10s", 10.0), ("1m", 60.0), ("7", 7.0)])
def test_the_timeout_is_written_like_sparks_durations(text: str, seconds: float) -> None:
    conf = {SERVERS: "a:9092", "spark.interlock.delivery.timeout": text}
    assert read_settings(conf).timeout_s == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["soon", "0s", "-1s", "10 parsecs"])
def test_a_wrong_timeout_is_refused(text: str) -> None:
    conf = {SERVERS: "a:9092", "spark.interlock.delivery.timeout": text}
    with pytest.raises(CompletionError, match=r"delivery\.timeout"):
        read_settings(conf)


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
    with pytest.raises(CompletionError, match=r"events is 'queries': set any of query, streaming, write"):
        read_settings({SERVERS: "a:9092", "spark.interlock.events": "queries"})


def test_a_switch_is_true_or_false() -> None:
    assert read_settings({SERVERS: "a:9092", "spark.interlock.started": "True"}).started
    with pytest.raises(CompletionError, match=r"started is 'yes': set true or false"):
        read_settings({SERVERS: "a:9092", "spark.interlock.started": "yes"})


def test_a_key_in_the_client_file_may_have_its_lines_escaped(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:9092\nssl.key.pem=-----BEGIN\\nabc\\n-----END\n")
    assert read_settings({FILE: str(file)}).client["ssl.key.pem"] == "-----BEGIN\nabc\n-----END"
