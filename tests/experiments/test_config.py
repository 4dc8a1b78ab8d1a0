import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from controller.schedule import NAMED
from experiments.config import CONFIGS_DIR, NAMED_SCHEDULES, ExperimentConfig
from experiments.identity import identity, run_prefix
from experiments.planning import plan_experiment
from experiments.run import make_runtime
from experiments.runtime import read_runtime
from experiments.sources import load_config, parse_assignments
from testbed.errors import InputError

PUBLISHED = sorted(path.stem for path in CONFIGS_DIR.glob("*.yaml"))


def write(folder: Path, text: str) -> str:
    path = folder / "experiment.yaml"
    path.write_text(text)
    return str(path)


def refused(config=None, **overrides) -> str:
    with pytest.raises(InputError) as error:
        load_config(config, overrides)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_named_schedules_are_the_planners():
    assert NAMED_SCHEDULES == NAMED


def test_defaults_are_the_papers_setting():
    config = load_config(None, {})
    assert config.schedule == "triangles"
    assert config.clock == "virtual"
    assert config.payload_bytes == 1_790_000_000
    assert config.memory_bytes == 32_000_000_000
    assert (config.scale, config.rounds, config.seed) == (100, 4, 1)
    assert config.multicast
    assert config.aggregation


def test_a_file_overrides_defaults_and_the_command_line_overrides_both(tmp_path):
    path = write(tmp_path, "schedule: pairs\nmemory: 200MB\nrounds: 2\nmulticast: off\n")
    config = load_config(path, {"memory": "0", "aggregation": "off", "seed": None})
    assert config.schedule == "pairs"
    assert config.memory_bytes == 0
    assert config.rounds == 2
    assert not config.multicast
    assert not config.aggregation
    assert config.seed == 1


@pytest.mark.parametrize("word", ["on", "ON", "true", "yes", '"on"'])
def test_every_spelling_of_on_works_in_a_file(tmp_path, word):
    assert load_config(write(tmp_path, f"multicast: {word}\n"), {}).multicast is True


def test_an_empty_file_gives_the_defaults(tmp_path):
    assert load_config(write(tmp_path, "# nothing\n"), {}) == load_config(None, {})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("schedule", "triangels", 'SCHEDULE: "triangels" is not a schedule: did you mean "tri'),
        ("clock", "virtul", 'CLOCK: "virtul" is not valid: did you mean "virtual"?'),
        ("memory", "32Gb", 'MEMORY: "32Gb" has the unknown unit "Gb": did you mean "GB"?'),
        ("payload", "0", "PAYLOAD: "),
        ("multicast", "maybe", 'MULTICAST: "maybe" is not valid: write on or off'),
        ("rounds", "2.5", 'ROUNDS: "2.5" is not valid: write a whole number from 1 to 1000'),
        ("rounds", "many", 'ROUNDS: "many" is not a number'),
        ("scale", "0", 'SCALE: "0" is not valid: write a number from 1'),
        ("scale", "nan", 'SCALE: "nan" is not a finite number'),
        ("topology", "nine-citys", 'did you mean "nine-cities"?'),
        ("topology", "none/such.yaml", "does not exist"),
        ("trees", "shortest", 'did you mean "shortest-path"?'),
        ("seed", "-1", "SEED: "),
        ("colour", "red", 'unknown key "colour"'),
        ("ways", "3", 'WAYS: "3" is not valid: write 1, 2, 4'),
        ("collision", "prior", 'COLLISION: "prior" is not valid: did you mean "priority"?'),
        ("memory_model", "keep", 'MEMORY_MODEL: "keep" is not valid: valid: accumulate, hold'),
        ("dtype", "f16", 'DTYPE: "f16" is not valid: valid: f32, i32, i32-exponent'),
        ("dtype", "bf16", 'DTYPE: "bf16" cannot be checked: its 8 bits hold no exact sum'),
        ("engine", "fast", "ENGINE: "),
        ("resend_ms", "5mz", 'RESEND_MS: "5mz" has the unknown unit "mz"'),
        ("repair", "perhaps", 'REPAIR: "perhaps" is not valid: write on or off'),
        ("loss_percent", "101", 'LOSS_PERCENT: "101" is not valid: write a number from 0 to 100'),
        ("impairments", "[{link: access, los: 1}]", 'entry 1: unknown key "los"'),
        ("impairments", "access", "IMPAIRMENTS: "),
        ("limits", "{delay_u: 5}", 'LIMITS: unknown key "delay_u": did you mean "delay_us"?'),
        ("limits", "{delay_us: -5}", "LIMITS: delay_us: "),
        ("limits", "[", "LIMITS: write a mapping"),
        ("limits", "7", 'LIMITS: "7" has no keys'),
    ],
)
def test_a_wrong_value_is_refused_in_one_line(key, value, message):
    assert message in refused(**{key: value})


def test_limits_are_those_of_the_clock_but_for_what_is_given(tmp_path):
    path = tmp_path / "lax.yaml"
    path.write_text("limits: {delay_us: 5, fail_factor: 3}\n")
    limits = load_config(str(path), {}).limits.at("virtual")
    assert (limits.delay_us, limits.fail_factor, limits.rate_percent) == (5, 3, 0.1)
    assert load_config(None, {"limits": "{rtt_us: 7}"}).limits.at("real").rtt_us == 7


def test_losses_of_the_last_hop_that_cannot_be_are_refused():
    text = refused(loss_percent="60", loss_burst="1")
    assert text.startswith("LOSS_BURST: runs of 1 lost packets")


def test_the_keys_of_the_last_hop_are_one_more_lossy_link():
    assert load_config(None, {}).lossy_links == ()
    config = load_config(
        None, {"loss_percent": "1", "impairments": "[{link: nyc-chi, duplicate_percent: 2}]"}
    )
    assert [(link.link, link.loss_percent) for link in config.lossy_links] == [
        ("nyc-chi", 0.0),
        ("access", 1.0),
    ]


def test_a_link_that_is_not_in_the_topology_is_refused_with_its_line(tmp_path):
    text = "rounds: 2\nimpairments:\n  - {link: nyc-chj, loss_percent: 1}\n"
    path = write(tmp_path, text)
    assert refused(path) == (
        f'{path}:2: impairments: no link "nyc-chj" in the topology: did you mean "nyc-chi"?'
    )


def test_sums_in_order_need_every_stream_by_itself():
    assert load_config(None, {}).memory_use == "accumulate"
    assert load_config(None, {"ordered": "on"}).memory_use == "hold"
    assert plan_experiment(load_config(None, {"ordered": "on"})).memory_model == "hold"


def test_what_is_kept_to_resend_comes_out_of_the_memory():
    plan = plan_experiment(load_config(None, {"resend_ms": "20"}))
    assert plan.resend_ms == 20
    assert max(plan.round(0).resend_bytes.values()) > 0


def test_more_to_resend_than_there_is_memory_is_refused_with_the_arithmetic():
    config = load_config(None, {"memory": "200MB", "resend_ms": "20"})
    with pytest.raises(InputError) as error:
        plan_experiment(config)
    assert "20 ms × 100 Gbit/s" in str(error.value)
    assert "= 250MB, more than MEMORY of 200MB" in str(error.value)


def test_streams_and_what_is_kept_to_resend_must_fit_the_memory_together():
    given = {"memory": "300MB", "resend_ms": "20", "trees": "shortest-path"}
    plan = plan_experiment(load_config(None, given))
    assert not plan.feasible
    assert "of stream beside 250MB to resend (20 ms × 100 Gbit/s), memory is 300MB" in plan.reason
    assert plan_experiment(load_config(None, {**given, "memory": "32GB"})).feasible


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resend_ms": "20", "aggregation": "off"}, "RESEND_MS: aggregators keep what they send"),
        ({"loss_burst": "4"}, "LOSS_BURST: without LOSS_PERCENT nothing is lost"),
    ],
)
def test_settings_without_effect_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        plan_experiment(load_config(None, settings))


def test_runs_of_losses_without_losses_are_refused():
    text = refused(impairments="[{link: nyc-chi, loss_burst: 8}]")
    assert "loss_burst means nothing without loss_percent" in text


def test_repair_without_recovery_is_refused():
    with pytest.raises(InputError, match="REPAIR: on needs recovery"):
        plan_experiment(load_config(None, {"repair": "on"}))


def test_fewer_blocks_than_ways_are_refused_before_anything_runs():
    given = {"schedule": "pairs", "memory": "0", "fifo_datagrams": "1", "ways": "2"}
    with pytest.raises(InputError, match="1 blocks // 2 ways = no set of slots"):
        plan_experiment(load_config(None, given))
    assert plan_experiment(load_config(None, {**given, "fifo_datagrams": "2"})).schedule == "pairs"


def test_a_fault_after_the_end_of_the_run_is_refused():
    def events(at_ms):
        return {"events": [{"at_ms": at_ms, "event": "island-restart", "city": "nyc"}]}

    with pytest.raises(InputError, match="island-restart nyc at 60000 ms: 4 rounds are over after"):
        plan_experiment(load_config(None, events(60_000)))
    assert plan_experiment(load_config(None, events(900))).feasible


def test_sums_in_order_cannot_accumulate():
    text = refused(ordered="on", memory_model="accumulate")
    assert text.startswith("MEMORY_MODEL: accumulate cannot be with ORDERED=on")
    ordered = load_config(None, {"ordered": "on"})
    again = load_config(None, ordered.resolved())
    assert (ordered.memory_use, again.memory_use) == ("hold", "hold")


def test_every_setting_reaches_the_agents(tmp_path):
    config = load_config(
        None,
        {
            "ways": "2", "collision": "priority", "hash": "mix", "dtype": "f32", "ordered": "on",
            "engine": "reference", "resend_ms": "5", "repair": "on", "loss_percent": "1",
            "events": "[{at_ms: 1, event: island-restart, city: nyc}]",
        },
    )  # fmt: skip
    runtime = make_runtime(config, plan_experiment(config), tmp_path)
    assert (runtime.ways, runtime.collision, runtime.hash) == (2, "priority", "mix")
    assert (runtime.memory_model, runtime.dtype, runtime.ordered) == ("hold", "f32", True)
    assert (runtime.engine, runtime.resend_ms, runtime.repair) == ("reference", 5.0, True)
    assert (runtime.impairments, runtime.events) == (config.lossy_links, config.events)
    runtime.write(tmp_path / "runtime.json")
    assert read_runtime(tmp_path / "runtime.json") == runtime


@pytest.mark.parametrize(("direction", "burst"), [("down", 4), ("up", 1), ("both", 1)])
def test_islands_send_single_packets_where_their_own_side_is_lossy(tmp_path, direction, burst):
    links = f"[{{link: 'access:nyc', direction: {direction}, loss_percent: 1}}]"
    config = load_config(None, {"impairments": links})
    runtime = make_runtime(config, plan_experiment(config), tmp_path)
    assert runtime.burst_datagrams == burst


def test_a_wrong_value_in_a_file_names_the_line(tmp_path):
    path = write(tmp_path, "schedule: pairs\n\nclock: rael\n")
    message = refused(path)
    assert message == f'{path}:3: clock: "rael" is not valid: did you mean "real"?'


def test_an_unknown_key_in_a_file_names_the_line_and_the_nearest_key(tmp_path):
    message = refused(write(tmp_path, "schedule: pairs\nmemmory: 0\n"))
    assert ":2:" in message
    assert 'did you mean "memory"?' in message


@pytest.mark.parametrize(
    "text", ["schedule: [pairs\n", "- pairs\n", "rounds: 1\nrounds: 2\n", "pairs\n", "1: 2\n"]
)
def test_malformed_files_are_refused(tmp_path, text):
    assert "experiment.yaml:" in refused(write(tmp_path, text))


def test_a_missing_file_and_an_unknown_published_name_are_told_apart():
    assert "cannot read" in refused("./no-such.yaml")
    assert 'did you mean "triangles-32gb"?' in refused("triangles-32g")


def test_paths_in_a_file_are_seen_from_the_file(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("rounds:\n- - [nyc, lon]\n")
    path = write(tmp_path, "schedule: mine.yaml\n")
    monkeypatch.chdir("/")
    config = load_config(path, {})
    assert config.schedule_file == tmp_path / "mine.yaml"
    assert config.schedule_name == "mine"


def test_assignments_of_the_command_line():
    assert parse_assignments(["mtu_bytes=1500", "hash=mix"]) == {"mtu_bytes": "1500", "hash": "mix"}
    with pytest.raises(InputError, match="KEY=VALUE"):
        parse_assignments(["mtu_bytes"])
    with pytest.raises(InputError, match='did you mean "mtu_bytes"'):
        parse_assignments(["mtu_byte=1500"])


def test_a_config_is_frozen_and_its_resolved_form_loads_to_the_same(tmp_path):
    config = load_config(None, {"memory": "200MB", "timeout_ms": "0.7s"})
    assert config.timeout_ms == 700
    with pytest.raises(ValidationError):
        config.rounds = 9
    assert ExperimentConfig.model_validate(config.resolved()) == config
    path = write(tmp_path, json.dumps(config.resolved()))
    assert load_config(path, {}) == config


def test_the_real_clock_has_its_own_scale_unless_one_is_given():
    assert load_config(None, {"clock": "real"}).scale == 1000
    assert load_config(None, {"clock": "real", "scale": "50"}).scale == 50
    assert load_config(None, {"clock": "auto"}).at_clock("real").scale == 1000
    assert load_config(None, {"clock": "auto"}).at_clock("virtual").scale == 100


def test_the_run_id_follows_what_can_change_a_result():
    base = load_config(None, {})
    prefix = run_prefix(base)
    assert prefix.startswith("triangles-")
    assert len(prefix) == len("triangles-") + 8
    assert run_prefix(load_config(None, {"payload": "1790MB", "seed": "1"})) == prefix
    for key, value in (("seed", "2"), ("memory", "0"), ("mtu_bytes", "1500"), ("scale", "200")):
        assert run_prefix(load_config(None, {key: value})) != prefix, key
    for key, value in (("wall_limit_s", "60"), ("guest_memory_mb", "8192"), ("force", "on")):
        assert run_prefix(load_config(None, {key: value})) == prefix, key


def test_the_run_id_follows_the_content_of_files_not_their_place_or_comments(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    (first / "mine.yaml").write_text("rounds:\n- - [nyc, lon]\n")
    (second / "mine.yaml").write_text("# a comment\nrounds:\n- - [nyc, lon]\n")
    ids = [
        run_prefix(load_config(None, {"schedule": str(d / "mine.yaml")})) for d in (first, second)
    ]
    assert ids[0] == ids[1]
    assert str(tmp_path) not in identity(load_config(None, {"schedule": str(first / "mine.yaml")}))
    (second / "mine.yaml").write_text("rounds:\n- - [nyc, ams]\n")
    assert run_prefix(load_config(None, {"schedule": str(second / "mine.yaml")})) != ids[0]


def test_every_published_experiment_has_a_header_and_a_plan():
    assert len(PUBLISHED) >= 10
    for name in PUBLISHED:
        text = (CONFIGS_DIR / f"{name}.yaml").read_text()
        assert text.startswith("# "), name
        plan = plan_experiment(load_config(name, {}))
        assert plan.feasible == (name != "all-to-all-no-memory"), name
