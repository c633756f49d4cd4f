"""Exit codes are those that the man page and --help list, and all of them occur."""

import re

from shell.command_table import has, mlxcommctl, verbs

# Files that a verb needs before it calls a daemon.
ARGUMENTS = {
    "ping": ["node-0"],
}


def test_help_and_man_page_list_the_same():
    section = mlxcommctl("manual").stdout.split(".Sh EXIT STATUS")[1].split(".Sh ")[0]
    listed = re.findall(r"^\.It (\d)$", section, re.MULTILINE)
    codes = mlxcommctl("--help").stdout.split("Exit codes:")[1]
    assert listed == re.findall(r"^ +(\d)  ", codes, re.MULTILINE) == ["0", "1", "2", "3", "4"]


def test_success_is_0():
    assert mlxcommctl("--help").returncode == mlxcommctl("--version").returncode == 0


def test_wrong_usage_is_2():
    assert mlxcommctl("cluster").returncode == mlxcommctl("nonsense").returncode == 2
    for verb in verbs():
        done = mlxcommctl(*verb.split(), "--no-such-option-exists")
        # Options after a program that a verb runs belong to the program.
        assert done.returncode == 2, (verb, done.stdout)


def test_wrong_usage_names_the_mistake_and_the_help():
    expected = {"cluster": ("a verb of mlxcommctl cluster is required", "mlxcommctl cluster --help"),
                "nonsense": ('mlxcommctl has no verb "nonsense"', "mlxcommctl --help"),
                "topologie": ('mlxcommctl has no verb "topologie"; did you mean "topology"?',
                              "mlxcommctl --help"),
                "firstlight --yes": ('mlxcommctl has no verb "firstlight"; did you mean "python -m mlxcomm '
                                     'firstlight"?', "mlxcommctl --help"),
                "cluster key shwo": ('mlxcommctl cluster key has no verb "shwo"; did you mean "show"?',
                                     "mlxcommctl cluster key --help"),
                "status --jsn": ('The following argument was not expected: --jsn; did you mean "--json"?',
                                 "mlxcommctl status --help"),
                "completion bsh": ('no completion for bsh; did you mean "bash"? '
                                   "Expected one of bash, zsh, fish", ""),
                "schema statuz": ('no schema of "statuz"; did you mean "status"? '
                                  "Expected one of these verbs", "status\ntopology\n"),
                "bench --op all_redcue": ('--op all_redcue; did you mean "all_reduce"? Expected one of '
                                          "all_reduce, all_gather, ", ""),
                "ping": ("node is required", "mlxcommctl ping --help")}
    for words, (what, where) in expected.items():
        done = mlxcommctl(*words.split())
        said = done.stderr
        assert done.returncode == 2, (words, said)
        assert said.startswith(f"mlxcommctl: {what}") and where in said, (words, said)


# Why: an unset variable of a script must not select the usual daemon or this machine.
def test_a_value_that_is_empty_is_wrong_usage():
    options = [(verb, "--socket") for verb, command in verbs().items() if has(command, "--socket")]
    options += [("launch", "--hosts"), ("launch", "--nodes"), ("launch", "--hostfile")]
    for verb, option in options:
        done = mlxcommctl(*verb.split(), option, "", *ARGUMENTS.get(verb, []))
        assert done.returncode == 2 and f"{option}: expected" in done.stderr, (verb, option, done)
