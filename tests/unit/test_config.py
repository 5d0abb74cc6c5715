"""Configuration: precedence, helpful refusals, and generated documentation."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from farrier import config, errors
from farrier.config.reading import nearest
from farrier.log import Level
from farrier.model.node.limits import Limits


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "farrier.toml"


def refusal(file: Path | None = None, **sources: object) -> str:
    environment = {str(key): str(value) for key, value in sources.items()}
    with pytest.raises(errors.ConfigError) as caught:
        config.load(file, environment=environment)
    assert caught.value.exit_code is errors.ExitCode.USAGE
    return str(caught.value)


def test_the_defaults_apply_without_any_source() -> None:
    assert config.load(environment={}) == config.Config()


def test_flags_override_the_environment_which_overrides_the_file(file: Path) -> None:
    file.write_text("[controller]\nresync = 20\nperiod = 40\nbatch = 10\n")
    environment = {"FARRIER_CONTROLLER_PERIOD": "50s", "FARRIER_CONTROLLER_BATCH": "20"}
    flags = {"controller.batch": 30, "controller.passes": None}
    loaded = config.load(file, environment=environment, flags=flags).controller
    assert loaded.passes == config.ControllerConfig().passes
    assert loaded.resync == timedelta(seconds=20)
    assert loaded.period == timedelta(seconds=50)
    assert loaded.batch == 30


def test_the_embedded_server_on_the_command_line_beats_a_dsn_in_the_environment() -> None:
    environment = {"FARRIER_DATABASE_DSN": "postgresql://db.example/farrier"}
    loaded = config.load(environment=environment, flags={"database.embedded": "/srv/pg"}).database
    assert (loaded.dsn, loaded.embedded) == ("", "/srv/pg")


def test_a_dsn_and_an_embedded_server_in_one_source_contradict_each_other(file: Path) -> None:
    file.write_text('[database]\ndsn = "postgresql://db/farrier"\nembedded = "/srv/pg"\n')
    assert "not both" in refusal(file)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param('"90s"', timedelta(seconds=90), id="units"),
        pytest.param('"1h 30m"', timedelta(minutes=90), id="several units"),
        pytest.param("90", timedelta(seconds=90), id="seconds"),
        pytest.param("0.5", timedelta(milliseconds=500), id="a fraction"),
    ],
)
def test_durations_are_seconds_or_carry_their_unit(file: Path, written: str, meant: timedelta) -> None:
    file.write_text(f"[node]\noffline_after = {written}\n")
    assert config.load(file, environment={}).node.offline_after == meant


@pytest.mark.parametrize("written", ['"soon"', "0", "-1", "true", "[1]", '"nan"'])
def test_an_invalid_duration_is_refused_with_its_place(file: Path, written: str) -> None:
    file.write_text(f"[node]\noffline_after = {written}\n")
    assert f"'offline_after' in [node] of {file}" in refusal(file)


def test_an_unknown_key_is_refused_with_its_section_and_the_nearest_valid_one(file: Path) -> None:
    file.write_text("[controller]\nresinc = 15\n")
    assert refusal(file) == f"unknown key 'resinc' in [controller] of {file}; did you mean 'resync'?"


def test_an_unknown_section_is_refused_likewise(file: Path) -> None:
    file.write_text("[contoller]\nbatch = 15\n")
    assert refusal(file) == f"unknown section 'contoller' in {file}; did you mean 'controller'?"


def test_all_mistakes_are_reported_together(file: Path) -> None:
    file.write_text('[nod]\nx = 1\n[node]\noffline_afer = "3m"\nbrake_share = 5\n[http]\nport = 99999\n')
    first, *rest = refusal(file, FARRIER_LOG_LEVEL="loud").splitlines()
    assert first == "5 mistakes:"
    assert [next(word for word in text.split("'")[1:]) for text in rest] == [
        "nod",
        "offline_afer",
        "brake_share",
        "port",
        "level",
    ]


def test_a_key_without_a_similar_key_is_refused_with_all_keys(file: Path) -> None:
    file.write_text("[http]\nxyzzy = 1\n")
    assert "expected one of: host, port, names, bearer_token" in refusal(file)


def test_a_misspelt_variable_of_a_section_is_refused_and_other_variables_are_ignored() -> None:
    message = refusal(FARRIER_HTTP_PROT="80")
    assert message == "unknown key 'prot' in [http] of the environment; did you mean 'port'?"
    other = {"FARRIER_SECRET_BMC": "x", "FARRIER_TEST_PG15_BIN": "/x", "FARRIER_TOKEN": "x", "PATH": "/bin"}
    other |= {"FARRIER_PORT": "tcp://10.0.0.1:80", "FARRIER_SERVICE_HOST": "10.0.0.1", "FARRIER_PORT_80_TCP": "x"}
    assert config.load(environment=other) == config.Config()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("FARRIER_DATABSE_DSN", "did you mean 'FARRIER_DATABASE_DSN'?"),
        ("FARRIER_DSN", "did you mean 'FARRIER_DATABASE_DSN'?"),
        ("FARRIER_API", "did you mean 'FARRIER_CLIENT_API'?"),
        ("FARRIER_QZX", "expected FARRIER_SECTION_KEY with a section and a key that farrier config prints"),
        ("FARRIER_SLA_STATUS_OFFLINE", "[sla] of a file"),
    ],
)
def test_a_variable_of_no_section_is_refused_with_the_nearest(name: str, advice: str) -> None:
    message = refusal(None, **{name: "hunter2"})
    assert name in message and advice in message
    assert "hunter2" not in message


def test_a_name_that_only_shares_letters_is_not_suggested() -> None:
    assert nearest("nope", ["name", "gone"]) == "expected one of: name, gone"
    assert nearest("nmae", ["name", "gone"]) == "did you mean 'name'?"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("FARRIER_DATABASE_PGBOUNCER", "yes", "expected true or false"),
        ("FARRIER_HTTP_PORT", "abc", "expected a whole number"),
    ],
)
def test_a_value_of_another_type_in_the_environment_is_refused_with_its_variable(
    name: str, value: str, expected: str
) -> None:
    message = refusal(None, **{name: value})
    assert f"({name}): {expected}" in message


def test_variables_of_credentials_may_have_another_prefix() -> None:
    other = {"FARRIER_CREDENTIALS_ENV_PREFIX": "FARRIER_KEYS_", "FARRIER_KEYS_BMC": "x"}
    assert config.load(environment=other).credentials.env_prefix == "FARRIER_KEYS_"


def test_the_environment_spells_numbers_switches_lists_and_labels() -> None:
    environment = {
        "FARRIER_HTTP_PORT": "8080",
        "FARRIER_BMC_INSECURE": "true",
        "FARRIER_BMC_ALLOWED_NETWORKS": "10.0.0.0/8, fd00::/8",
        "FARRIER_LOG_LEVEL": "debug",
    }
    loaded = config.load(environment=environment)
    assert loaded.http.port == 8080
    assert loaded.bmc.insecure is True
    assert loaded.bmc.allowed_networks == ("10.0.0.0/8", "fd00::/8")
    assert loaded.log.level is Level.DEBUG


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("[http]\nport = 70000\n", "'port' in [http]", id="out of range"),
        pytest.param('[http]\nport = "80"\n', "'port' in [http]", id="text for a number"),
        pytest.param('[http]\nbearer_token = "s3kr1t"\n', "bearer_token must be a reference", id="a token itself"),
        pytest.param('[http]\ndashboards_url = "/d/gpu"\n', "must be an absolute URL", id="a dashboard without a host"),
        pytest.param(
            '[http]\ndashboards_url = "https://g/d?node={node}"\n',
            "expected kind, name, site in braces, got {node}",
            id="a dashboard of an unknown value",
        ),
        pytest.param('[http]\nbearer_token = "https:s3kr1t"\n', "must be a reference", id="unknown scheme of a token"),
        pytest.param('[http]\nbearer_token = "file:"\n', "must be a reference", id="a scheme without a path"),
        pytest.param(
            '[log]\nlevel = "loud"\n', "expected one of 'debug', 'info', 'warning', 'error'", id="unknown value"
        ),
        pytest.param("port = 80\n", "outside of any section", id="outside of any section"),
        pytest.param("[http\n", "is not valid TOML", id="not TOML"),
        pytest.param(
            '[node]\npower_sync_interval = "1h"\n', "because otherwise each reading would be stale", id="reads too rare"
        ),
        pytest.param(
            '[bmc]\nallowed_networks = ["10.0.0.1/8"]\n',
            "allowed_networks: expected networks such as 10.0.0.0/8; 10.0.0.1/8 has host bits",
            id="host bits in a network",
        ),
        pytest.param(
            '[[credentials.bindings]]\nreferences = ["file:x"]\nnetworks = ["bmcs"]\n',
            "networks: expected networks such as 10.0.0.0/8; 'bmcs' does not appear to be",
            id="no network of a binding",
        ),
        pytest.param('[bmc]\nca_file = "/ca.pem"\ninsecure = true\n', "set only one of", id="ca_file and insecure"),
        pytest.param(
            '[bmc.hosts.bmc-1]\nfingerprint = "ab"\ninsecure = true\n',
            "set only one of",
            id="fingerprint and insecure of a host",
        ),
        pytest.param('[bmc.hosts.bmc-1]\nca_flie = "/ca.pem"\n', "ca_flie", id="unknown key of a host"),
        pytest.param('[bmc]\nauth = "digest"\n', "'auth' in [bmc]", id="unknown auth"),
    ],
)
def test_an_invalid_value_is_refused_with_its_place_and_the_reason(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)
    message = refusal(file)
    assert complaint in message
    assert str(file) in message


def test_each_bmc_host_may_have_a_separate_table(file: Path) -> None:
    file.write_text(config.as_toml() + '\n[bmc.hosts."10.0.0.2"]\ninsecure = true\n')
    assert config.load(file, environment={}).bmc.hosts == {"10.0.0.2": config.BmcHostConfig(insecure=True)}


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "absent.toml")


def test_sla_limits_are_keyed_by_layer_and_state_quoted_or_not(file: Path) -> None:
    file.write_text('[sla]\n"status.offline" = "1h"\nmanagement.verifying = 90\n')
    assert config.load(file, environment={}).sla == Limits(
        everywhere={"status.offline": timedelta(hours=1), "management.verifying": timedelta(seconds=90)}
    )


def test_sla_limits_of_a_site_and_of_a_model_are_read_from_separate_tables(file: Path) -> None:
    file.write_text(
        "[sla]\nmaas_region.failing = 60\n"
        '[sla.site.north]\nstatus.offline = "2h"\nmaas_region.failing = "10m"\n'
        '[sla.model."HGX H100 rev. 2.1"]\n"onboarding.running.wait_for_ready" = "90m"\n'
    )
    assert config.load(file, environment={}).sla == Limits(
        everywhere={"maas_region.failing": timedelta(minutes=1)},
        models={"HGX H100 rev. 2.1": {"onboarding.running.wait_for_ready": timedelta(minutes=90)}},
        sites={"north": {"status.offline": timedelta(hours=2), "maas_region.failing": timedelta(minutes=10)}},
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[sla]\nstatus.ofline = 60\n", "'status.ofline' in [sla] of FILE; did you mean 'status.offline'?"),
        ("[sla.site.x]\nstatus.ofline = 60\n", "[sla.site.x] of FILE; did you mean 'status.offline'?"),
        ("[sla.model.x]\nmaas_region.failing = 60\n", "unknown limit 'maas_region.failing' in [sla.model.x]"),
        ("[sla]\nonboarding.running = 60\n", "unknown limit 'onboarding.running'"),
        ('[sla.site]\nstatus.offline = "1h"\n', "unknown limit 'offline' in [sla.site.status]"),
        ('[sla]\nsite = "1h"\n', "[sla.site.NAME]"),
        ('[sla.site.x]\nstatus.offline = "soon"\n', "'status.offline' in [sla.site.x] of FILE"),
        ("[sla]\nstatus.offline = 0\n", "expected a duration longer than 0"),
    ],
)
def test_an_invalid_limit_is_refused_with_its_place(file: Path, text: str, complaint: str) -> None:
    file.write_text(text)
    assert complaint in refusal(file).replace(str(file), "FILE")


def test_a_password_in_the_dsn_is_not_in_the_repr() -> None:
    loaded = config.load(environment={"FARRIER_DATABASE_DSN": "postgresql://me:hunter2@db/farrier"})
    assert "hunter2" not in repr(loaded)
    assert "me:***@db" in repr(loaded)


def test_the_documented_file_sets_every_setting_to_its_default(file: Path) -> None:
    file.write_text(config.as_toml())
    assert config.load(file, environment={}) == config.Config()
    for setting in config.settings():
        assert f"{setting.key} = {setting.default}" in config.as_toml()


def test_every_setting_is_described_and_can_be_set_by_the_variable_it_names() -> None:
    for setting in config.settings():
        assert len(setting.description) > 20, setting
        if not setting.environment:
            continue
        value = setting.default.strip('"[]').replace('", "', ",")
        config.load(environment={setting.environment: value})
