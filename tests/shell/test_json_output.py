"""The output of verbs with --json matches `mlxcommctl schema VERB`."""

import json

import jsonschema
import pytest

from conftest import wait_until
from shell.command_table import ARGUMENTS as ALL_TESTS_ARGUMENTS
from shell.command_table import has, mlxcommctl, verbs

VERBS = verbs()
WITH_JSON = [path for path, command in VERBS.items() if has(command, "--json")]

# How to run a verb so that it prints something and ends; without an entry: as it is.
ARGUMENTS = {
    "bench": ["-n", "2", "--to", "4K", "-i", "2", "-w", "1"],
    **ALL_TESTS_ARGUMENTS,
    "ping": ["node-1", "-c", "2", "-i", "1ms"],
    "kill": ["train"],
}
# One line each: they may run forever.
PRINTS_LINES = {"events"}
# Its findings about this machine are not these tests' subject.
# The daemon's key is in a different file from the one that changes here, and the verb reports that.
CODES = {"doctor": (0, 1, 4), "cluster key rotate": (1,),
         "service restart": (0, 1), "service status": (0, 3)}
# Shows other programs' output, line by line; it has none of its own.
PRINTS_OTHERS_OUTPUT = {"launch", "service logs"}


def schema_of(verb):
    done = mlxcommctl("schema", *verb.split())
    assert done.returncode == 0, f"{verb} prints JSON that no schema describes: {done.stderr}"
    return json.loads(done.stdout)


def test_every_verb_has_json():
    assert {verb for verb in VERBS if verb not in WITH_JSON} <= PRINTS_OTHERS_OUTPUT


@pytest.mark.parametrize("verb", WITH_JSON)
def test_every_schema_is_one(verb):
    jsonschema.Draft202012Validator.check_schema(schema_of(verb))


@pytest.mark.parametrize("verb", WITH_JSON)
def test_output_matches_its_schema(duo, verb, tmp_path):
    # Operations for the record, and a job to be shown.
    mlxcommctl("bench", "-n", "2", "--to", "4K", "-i", "2", "-w", "1", "--socket", duo.socket(0))
    mlxcommctl("cluster", "create", "--key-file", "there", cwd=tmp_path)
    if verb == "kill":
        (tmp_path / "wait.py").write_text("import mlxcomm\nmlxcomm.init()\n")
        duo.rank(0, 2, tmp_path / "wait.py", job="train")
        wait_until(lambda: duo.status()["jobs"], "a job waits")
    where = ["--socket", duo.socket(0)] if has(VERBS[verb], "--socket") else []
    done = mlxcommctl(*verb.split(), *ARGUMENTS.get(verb, []), "--json", *where, cwd=tmp_path)
    assert done.returncode != 2, f"say in ARGUMENTS how {verb} is run: {done.stderr}"
    assert done.returncode in CODES.get(verb, (0,)), done.stderr
    reported = done.stdout.splitlines() if verb in PRINTS_LINES else [done.stdout]
    assert reported
    for text in reported:
        jsonschema.validate(json.loads(text), schema_of(verb), cls=jsonschema.Draft202012Validator)


# Why: a schema that allows everything would pass the test above.
def test_a_schema_refuses_wrong_output(solo):
    schema = schema_of("status")
    status = solo.status()
    jsonschema.validate(status, schema)
    for wrong in ({**status, "nodes": "many"}, {**status, "more": 1},
                  {**status, "nodes": [{**status["nodes"][0], "pid": 7}]},
                  {key: value for key, value in status.items() if key != "jobs"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_schema_of_a_verb_without_one_lists_those_that_exist():
    done = mlxcommctl("schema", "nothing")
    assert done.returncode == 2 and "status" in done.stderr.splitlines()
    listed = json.loads(mlxcommctl("schema", "--json").stdout)["verbs"]
    assert sorted(listed) == listed == mlxcommctl("schema").stdout.split("\n")[:-1]
    assert set(listed) == set(WITH_JSON)


# Why: a program that only reads standard output got nothing from a failed verb.
@pytest.mark.parametrize("verb", ["status", "topology", "record", "trace", "events", "ping", "bench"])
def test_a_verb_that_fails_reports_it_in_json(verb, tmp_path):
    socket = str(tmp_path / "nobody.sock")
    arguments = ARGUMENTS.get(verb, [])
    done = mlxcommctl(*verb.split(), *arguments, "--json", "--socket", socket)
    assert done.returncode == 3, done
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    assert error["code"] == "UNAVAILABLE" and error["exit_code"] == 3
    assert socket in error["message"] and error["message"] in done.stderr
    plain = mlxcommctl(*verb.split(), *arguments, "--socket", socket)
    assert plain.returncode == 3 and plain.stdout == "" and socket in plain.stderr
