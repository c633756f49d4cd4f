"""Types README's quick start into two shells, as a user would, and looks at what is said.

It runs inside the chroot, by the system's own Python: type_it.py README FOLDER RESULTS. The first shell
stands in FOLDER, the clone, and so does the second one, which is opened when README tells of it. RESULTS
becomes JUnit's XML, a test case for each line.
"""

import pathlib
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import readme

PATIENCE = 3 * 3600  # Seconds for a line: a build may take long. Never a measurement.
AGAIN = 0.2  # Seconds between two looks at what goes on in the other terminal.
SHOWN_LINES, SHOWN_COLUMNS = 60, 300  # Of what a line has said, in the log.


class Terminal:
    """A shell that gets a line after the other; what it says is read up to a line that tells the code."""

    MARK = "\x01"

    def __init__(self, folder):
        self.shell = subprocess.Popen(["bash", "--noprofile", "--norc"], cwd=folder, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = None

    def begin(self, line):
        # Braces: what follows is read only once it is done, and it cannot eat what follows.
        self.shell.stdin.write(f"{{ {line}\n}} </dev/null; printf '{self.MARK}%d\\n' $?\n")
        self.shell.stdin.flush()
        self.code, self.said = None, []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        watch = threading.Timer(PATIENCE, self.shell.kill)
        watch.start()
        for line in self.shell.stdout:
            before, mark, code = line.partition(self.MARK)
            self.said.append(before)
            if mark:
                self.code = int(code)
                break
        watch.cancel()

    def is_done(self):
        return not self.reader.is_alive()

    def end(self):
        """(exit code, what has been said), once the line is done; no code: the shell has ended."""
        self.reader.join()
        for line in self.said[-SHOWN_LINES:]:
            print(line.rstrip("\n")[:SHOWN_COLUMNS], flush=True)
        return self.code, "".join(self.said)

    def type(self, line):
        self.begin(line)
        return self.end()


class Session:
    def __init__(self, folder):
        self.folder = folder
        self.first = Terminal(folder)
        self.second = None
        self.results = []  # (what, seconds, why it failed or "")
        self.running = None  # The first terminal's command, and when it began.

    def note(self, what, begin, wrong):
        self.results.append((what, time.monotonic() - begin, wrong))
        print(f"{'FAILED: ' + wrong if wrong else 'fine'} ({self.results[-1][1]:.1f} s)\n", flush=True)

    def finish_first(self):
        if self.running is None:
            return
        command, begin = self.running
        self.running = None
        print(f"$ {command.text}", flush=True)
        self.judge(command, begin, *self.first.end())

    def judge(self, command, begin, code, said):
        missing = readme.what_is_missing(command, said)
        self.note(command.text, begin, f"it ended with {code}" if code != 0 else
                  f"README promises {missing}" if missing else "")

    def look(self, command):
        """In the other terminal, until it shows what is promised: the job may not have begun yet."""
        self.second = self.second or Terminal(self.folder)
        begin = time.monotonic()
        while True:
            # A job that ends meanwhile takes its daemon with it: what is said after that is no answer.
            is_late = self.first.is_done()
            print(f"(other terminal) $ {command.text}", flush=True)
            code, said = self.second.type(command.text)
            missing = readme.what_is_missing(command, said)
            if (code == 0 and said and not missing) or is_late:
                self.note(command.text, begin, "" if code == 0 and said and not missing else
                          f"the job has ended; code {code}, README promises {missing}")
                return
            time.sleep(AGAIN)

    def run(self, steps):
        for i, step in enumerate(steps):
            if isinstance(step, readme.File):
                (self.folder / step.name).write_text(step.text, encoding="utf-8")
                continue
            if step.other:
                self.look(step)
                continue
            self.finish_first()
            self.running = (step, time.monotonic())
            self.first.begin(step.text)
            behind = steps[i + 1] if i + 1 < len(steps) else None
            if not (isinstance(behind, readme.Command) and behind.other):
                self.finish_first()
            if self.results and self.results[-1][2]:
                break  # What comes after it builds upon it.
        self.finish_first()
        for terminal in filter(None, (self.first, self.second)):
            terminal.shell.kill()
        return all(not wrong for _, _, wrong in self.results)


def write_results(path, results):
    suite = xml.etree.ElementTree.Element("testsuite", name="quick_start")
    for what, seconds, wrong in results:
        case = xml.etree.ElementTree.SubElement(suite, "testcase", name=what, time=f"{seconds:.1f}")
        if wrong:
            xml.etree.ElementTree.SubElement(case, "failure", message=wrong)
    path.parent.mkdir(parents=True, exist_ok=True)
    xml.etree.ElementTree.ElementTree(suite).write(path, encoding="unicode")


def main():
    text, folder, results = map(pathlib.Path, sys.argv[1:])
    session = Session(folder)
    well = session.run(readme.steps(text.read_text(encoding="utf-8")))
    write_results(results, session.results)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
