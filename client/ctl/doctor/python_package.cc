#include "client/ctl/doctor/python_package.h"

#include <unistd.h>

#include <algorithm>
#include <deque>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/ctl/cli/text.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kPythonsMax = 8;
constexpr std::size_t kLinesKept = 3;
constexpr std::size_t kLineBytesKept = 300;

// `python -m` and `-c` search the current folder first, where anyone may have left an "mlxcomm".
// (-P avoids that, but only since Python 3.11.)
constexpr char kNotFromHere[] =
    "import sys\n"
    "sys.path[:] = [folder for folder in sys.path if folder]\n";
// A plain folder of that name is also a package, but has no origin.
constexpr char kHasPackage[] =
    "import importlib.util\n"
    "found = importlib.util.find_spec('mlxcomm')\n"
    "sys.exit(0 if found is not None and found.origin else 1)\n";
constexpr char kSelfTest[] =
    "import runpy\n"
    "runpy.run_module('mlxcomm.check_results', run_name='__main__')\n";

// Apple's own is too old for mlxcomm, and without the developer tools it only opens a window to
// install them.
bool IsApplesOwn([[maybe_unused]] const std::string& python) {
#if defined(__APPLE__)
  return python == "/usr/bin/python3";
#else
  return false;
#endif
}

// Also false for a program that is not a Python.
absl::StatusOr<bool> HasPackage(const std::string& python, std::uint64_t timeout_ns) {
  const auto answer = RunProgram({python, "-c", absl::StrCat(kNotFromHere, kHasPackage)},
                                 {.timeout_ns = timeout_ns});
  if (answer.ok()) return answer->exit_code == 0;
  if (absl::IsNotFound(answer.status()) || absl::IsUnavailable(answer.status())) return false;
  return answer.status();
}

std::string Cut(absl::string_view line) {
  const bool whole = line.size() <= kLineBytesKept;
  return Shown(std::string(line.substr(0, kLineBytesKept))) + (whole ? "" : " ...");
}

}  // namespace

std::vector<std::string> FindPythons(const std::string& own_path, const char* path) {
  std::vector<std::string> folders = {own_path.substr(0, own_path.rfind('/'))};
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    folders.emplace_back(folder);
  }
  std::vector<std::string> pythons;
  for (const std::string& folder : folders) {
    const std::string python = folder + "/python3";
    const bool is_new = std::ranges::find(pythons, python) == pythons.end();
    // A relative folder depends on the current folder.
    if (!folder.starts_with('/') || !is_new || IsApplesOwn(python)) continue;
    if (::access(python.c_str(), X_OK) == 0) pythons.push_back(python);
    if (pythons.size() == kPythonsMax) break;
  }
  return pythons;
}

PythonFacts CollectPython(const PythonOptions& options, std::vector<std::string>& unknown) {
  for (const std::string& python : options.pythons) {
    const auto has = HasPackage(python, options.looking_timeout_ns);
    if (!has.ok()) unknown.emplace_back(has.status().message());
    if (!has.ok() || !*has) continue;
    ProgramOptions how{.timeout_ns = options.testing_timeout_ns, .with_errors = true};
    if (!options.socket_path.empty()) {
      how.environment.emplace_back("MLXCOMM_SOCKET", options.socket_path);
    }
    PythonFacts facts;
    if (const auto output = RunProgram({python, "-c", absl::StrCat(kNotFromHere, kSelfTest)}, how);
        output.ok()) {
      facts = ReadSelfTest(*output);
    } else {
      facts.results = ResultsKind::kTestFailed;
      facts.message = std::string(output.status().message());
    }
    facts.program = python;
    return facts;
  }
  return {};
}

PythonFacts ReadSelfTest(const ProgramOutput& output) {
  PythonFacts facts;
  // Other modules may print too: the last line of a known form is the self test's.
  std::deque<absl::string_view> last;
  for (const absl::string_view whole : absl::StrSplit(output.text, '\n')) {
    const absl::string_view line = absl::StripAsciiWhitespace(whole);
    if (line.empty()) continue;
    last.push_back(line);
    if (last.size() > kLinesKept) last.pop_front();
    absl::string_view why = line;
    if (line == "shared") {
      facts.results = ResultsKind::kShared;
      facts.message.clear();
    } else if (absl::ConsumePrefix(&why, "copied: ")) {
      const bool asked_for = absl::StartsWith(why, "MLXCOMM_RESULTS=");
      facts.results = asked_for ? ResultsKind::kCopiedAsAsked : ResultsKind::kCopied;
      facts.message = Cut(why);
    } else if (absl::ConsumePrefix(&why, "wrong: ")) {
      facts.results = ResultsKind::kWrong;
      facts.message = Cut(why);
    }
  }
  const int wanted = facts.results == ResultsKind::kWrong ? 1 : 0;
  if (facts.results != ResultsKind::kNotTested && output.exit_code == wanted) return facts;
  facts.results = ResultsKind::kTestFailed;
  std::vector<std::string> lines = {"ended " + HowEnded(output.exit_code)};
  for (const absl::string_view line : last) lines.push_back(Cut(line));
  facts.message = absl::StrJoin(lines, "\n");
  return facts;
}

}  // namespace mlxcomm::ctl
