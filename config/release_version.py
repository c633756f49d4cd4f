"""Which version a commit has: for config/release.

CMakeLists.txt's project(VERSION) is the only place that says one. A commit with the tag vVERSION is that
release. Every other commit comes before it, and has a version of its own: the number of commits up to it
orders them, its hash tells apart those of two branches.

    of a commit             Python's packages            Debian's
    with the tag v0.1.0     0.1.0                        0.1.0
    without                 0.1.0.dev862+g0123abcd       0.1.0~dev862.g0123abcd

A wheel is for one MLX, and says so behind the plus sign: 0.1.0+mlx.0.32.4. So wheels for different MLX
have different names, mlxcomm==0.1.0 means all of them, and pip takes the one whose MLX fits what else is
asked for. Build tags in a wheel's name would not do: of one version pip looks at one wheel alone
(https://github.com/pypa/pip/issues/13608).
"""

import dataclasses
import re
import subprocess

HASH_DIGITS = 8
CHANGES = ".github/CHANGELOG.md"


class Refused(Exception):
    """The commit cannot be built as it is; says what to do."""


@dataclasses.dataclass
class Version:
    number: str  # "0.1.0", as CMakeLists.txt has it.
    suffix: str  # ".dev862+g0123abcd", or nothing for a release.
    commit: str

    @property
    def full(self):
        return self.number + self.suffix

    @property
    def debian(self):
        return self.number + self.suffix.replace(".dev", "~dev").replace("+", ".")

    def for_mlx(self, mlx):
        return f"{self.full}{'.' if '+' in self.full else '+'}mlx.{mlx}"


def of_commit(root):
    def git(*words):
        return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True,
                              text=True).stdout.strip()

    commit = git("rev-parse", "HEAD")
    number = re.search(r"^project\(mlxcomm VERSION ([0-9]+\.[0-9]+\.[0-9]+)",
                       git("show", "HEAD:CMakeLists.txt"), re.MULTILINE)[1]
    tags = [tag for tag in git("tag", "--points-at", "HEAD").splitlines() if is_of_version(tag)]
    for tag in tags:
        if tag != f"v{number}":
            raise Refused(f"the commit has the tag {tag}, but CMakeLists.txt says project(VERSION {number}): "
                          f"move the tag, or raise the version and tag that commit")
    released = [tag for tag in git("tag", "--merged", "HEAD").splitlines()
                if is_of_version(tag) and tag not in tags and numbers(tag[1:]) >= numbers(number)]
    if released:
        raise Refused(f"{released[-1]} has been released, and CMakeLists.txt says project(VERSION {number}): "
                      f"what comes after it needs a higher one")
    if tags:
        if not re.search(rf"^## {re.escape(number)}(?![0-9.])", git("show", f"HEAD:{CHANGES}"), re.MULTILINE):
            raise Refused(f"{CHANGES} has no section for this release: give what is below \"## Not "
                          f"released\" the heading \"## {number}\", commit, and tag that commit v{number}")
        return Version(number, "", commit)
    if git("rev-parse", "--is-shallow-repository") == "true":
        raise Refused("the clone is shallow, and the number of commits is part of a version: "
                      "git fetch --unshallow --tags")
    return Version(number, f".dev{git('rev-list', '--count', 'HEAD')}+g{commit[:HASH_DIGITS]}", commit)


def is_of_version(tag):
    return re.fullmatch(r"v[0-9]+(\.[0-9]+)*", tag) is not None


def numbers(version):
    return [int(number) for number in version.split(".")]
