#include "client/ctl/launch/rank_command.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "proto/system/program.h"
#include "proto/system/small_file.h"
#include "proto/types/did_you_mean.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kJobNameBytesMax = 40;
constexpr std::size_t kProgramsMax = 20'000;  // In PATH, for a suggestion.
#if defined(__linux__)
constexpr std::size_t kMapsBytesMax = 4 << 20;
#else
constexpr std::uint64_t kListTimeoutNs = 2'000'000'000;
#endif

std::string NameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }
bool IsPythonScript(const std::string& word) { return word.size() > 3 && word.ends_with(".py"); }

struct PythonWords {
  std::vector<std::string> options;  // Python's own, without -c and -m.
  std::size_t script = 0;            // Its index; the number of words: none.
};

// Reads `python -uB train.py` as `python --help` describes it.
PythonWords Split(const std::vector<std::string>& command) {
  PythonWords words;
  std::size_t at = 1;
  for (; at < command.size() && command[at].starts_with('-'); ++at) {
    const std::string& word = command[at];
    const bool is_long = word.starts_with("--");
    const std::size_t last = is_long ? std::string::npos : word.find_first_of("cmWX", 1);
    if (word == "-" || (last != std::string::npos && (word[last] == 'c' || word[last] == 'm'))) {
      if (word != "-" && last > 1) words.options.push_back(word.substr(0, last));
      words.script = command.size();
      return words;
    }
    words.options.push_back(word);
    const bool has_value = word == "--check-hash-based-pycs" || last + 1 == word.size();
    if (has_value && at + 1 < command.size()) words.options.push_back(command[++at]);
  }
  words.script = std::min(at, command.size());
  return words;
}

std::string In(const std::string& directory, const std::string& path) {
  return directory.empty() || path.starts_with('/') ? path : directory + "/" + path;
}

bool IsFile(const std::string& path) {
  struct stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode);
}

bool MayRun(const std::string& path) { return IsFile(path) && ::access(path.c_str(), X_OK) == 0; }

std::vector<std::string> FoldersOf(const RankCommand& command) {
  std::vector<std::string> folders;
  std::istringstream entries(ValueForRanks(command, "PATH"));
  for (std::string entry; std::getline(entries, entry, ':');) folders.push_back(entry);
  return folders;
}

std::vector<std::string> ProgramsIn(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
    while (open != nullptr && names.size() < kProgramsMax) {
      const dirent* const entry = ::readdir(open.get());
      if (entry == nullptr) break;
      names.emplace_back(entry->d_name);
    }
  }
  return names;
}

std::string HereText(const RankCommand& command) {
  if (!command.directory.empty()) return command.directory;
  std::array<char, 4096> here;
  return ::getcwd(here.data(), here.size()) == nullptr ? "this folder" : here.data();
}

std::string WhyNoProgram(const RankCommand& command) {
  const std::string& program = command.command[0];
  const std::string shown = MakePrintable(program);
  if (program.find('/') != std::string::npos) {
    const std::string path = In(command.directory, program);
    if (MayRun(path)) return {};
    if (IsFile(path)) return shown + " may not be executed: chmod +x " + shown;
    return "no file " + shown + " in " + MakePrintable(HereText(command));
  }
  const std::vector<std::string> folders = FoldersOf(command);
  for (const std::string& folder : folders) {
    if (MayRun(In(folder, program))) return {};
  }
  if (program.find(' ') != std::string::npos) {
    return "no program \"" + shown + "\": remove the quotes: -- " + shown;
  }
  const bool is_file = IsFile(In(command.directory, program));
  if (IsPythonScript(program) && !is_file)
    return shown + " is not in " + MakePrintable(HereText(command));
  if (IsPythonScript(program))
    return shown + " is a script, not a program: write -- python " + shown;
  if (is_file) {
    return shown + " is a file, not a program in PATH: write ./" + shown;
  }
  return "no program " + shown + " in PATH" + DidYouMean(program, ProgramsIn(folders));
}

}  // namespace

bool IsPython(const std::string& program) {
  const std::string name = NameIn(program);
  const std::size_t stem = name.starts_with("python") ? 6 : name.starts_with("pypy") ? 4 : 0;
  return stem > 0 && name.find_first_not_of("0123456789.", stem) == std::string::npos;
}

std::string ValueOf(const RankCommand& command, std::string_view variable) {
  std::string value;
  for (const auto& [name, given] : command.environment) {
    if (name == variable) value = given;
  }
  return value;
}

std::string ValueForRanks(const RankCommand& command, const char* variable) {
  std::string value = ValueOf(command, variable);
  if (const char* const own = std::getenv(variable); value.empty() && own != nullptr) value = own;
  return value;
}

std::string ScriptOf(const std::vector<std::string>& command) {
  if (command.empty()) return {};
  if (IsPythonScript(command[0])) return command[0];
  if (!IsPython(command[0])) return {};
  const std::size_t at = Split(command).script;
  return at < command.size() ? command[at] : std::string();
}

std::vector<std::string> WithPython(std::vector<std::string> command, const std::string& python,
                                    const std::string& directory) {
  if (!python.empty()) {
    command.insert(command.begin(), python);
    return command;
  }
  if (!IsPythonScript(command[0]) || !IsFile(In(directory, command[0]))) return command;
  if (command[0].find('/') != std::string::npos && MayRun(In(directory, command[0])))
    return command;
  command.insert(command.begin(), kUsualPython);
  return command;
}

std::string JobNameOf(const std::vector<std::string>& command) {
  std::string name;
  if (const std::string script = ScriptOf(command); !script.empty()) {
    name = NameIn(script);
    if (IsPythonScript(name)) name.resize(name.size() - 3);
  } else {
    const auto module = std::ranges::find(command, "-m");
    // A job of `mlxcommctl bench` is named after the verb.
    const bool has_verb = NameIn(command[0]) == "mlxcommctl" && command.size() > 1;
    const bool has_module = IsPython(command[0]) && command.end() - module > 1;
    name = has_module ? *(module + 1) : has_verb ? command[1] : NameIn(command[0]);
  }
  for (char& letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) == 0 && letter != '.' && letter != '_' && letter != '-') letter = '-';
  }
  name.resize(std::min(name.size(), kJobNameBytesMax));
  return name.empty() ? "job" : name;
}

std::string WhyNotRun(RankCommand command) {
  const std::string directory = command.directory;
  const bool is_there = directory.empty() || ::access(directory.c_str(), X_OK) == 0;
  if (!is_there && command.directory_needed) return "no folder " + MakePrintable(directory);
  if (!is_there) command.directory.clear();
  std::string why = WhyNoProgram(command);
  if (!why.empty()) return why;
  const std::string script = ScriptOf(command.command);
  if (script.empty() || ::access(In(command.directory, script).c_str(), F_OK) == 0) return {};
  if (script.starts_with('/')) return "no file " + MakePrintable(script);
  why = MakePrintable(script) + " is not in " + MakePrintable(HereText(command));
  if (!is_there) why += ", and there is no folder " + MakePrintable(directory);
  return why;
}

RankPython AskPython(const RankCommand& command, std::chrono::nanoseconds timeout) {
  RankPython facts;
  if (!IsPython(command.command[0])) return facts;
  std::vector<std::string> words = {command.command[0]};
  const std::vector<std::string> options = Split(command.command).options;
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"-c",
                             "import importlib.util as u, sys; print(u.find_spec('mlxcomm') and 1, "
                             "'_mlxcomm_startup' in sys.modules, sys.executable)"});
  const auto output = RunProgram(words, {.timeout_ns = static_cast<std::uint64_t>(timeout.count()),
                                         .environment = command.environment});
  if (!output.ok() || output->exit_code != 0) return facts;
  std::istringstream words_of(output->text);
  std::string package, loaded, path;
  std::getline(words_of >> package >> loaded >> std::ws, path);
  facts.loads_mlxcomm = loaded == "True";
  if (facts.loads_mlxcomm || path.empty()) return facts;
  facts.lacks = "its Python, " + MakePrintable(path);
  facts.lacks +=
      package == "None"
          ? ", has no package mlxcomm: run the ranks with a Python that has it "
            "(--python), or install it there"
          : ", did not load mlxcomm when it started: run the ranks without -S, -I and -E";
  return facts;
}

std::vector<std::string> CommandOf(pid_t pid) {
#if defined(__linux__)
  const std::string text = ReadFileText("/proc/" + std::to_string(pid) + "/cmdline");
  return absl::StrSplit(text, '\0', absl::SkipEmpty());
#else
  const auto listed = RunProgram({"/bin/ps", "-o", "comm=", "-p", std::to_string(pid)},
                                 {.timeout_ns = kListTimeoutNs});
  if (!listed.ok() || listed->text.empty()) return {};
  return {listed->text.substr(0, listed->text.find('\n'))};
#endif
}

bool HasLoadedMlxAlone(pid_t group) {
  std::string files;
#if defined(__linux__)
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid) || ::getpgid(pid) != group)
      continue;
    files += ReadFileText(entry.path() / "maps", kMapsBytesMax);
  }
#else
  const auto listed = RunProgram({"/usr/sbin/lsof", "-bwnP", "-Fn", "-g", std::to_string(group)},
                                 {.timeout_ns = kListTimeoutNs});
  if (listed.ok()) files = listed->text;
#endif
  return files.find("/libmlx.") != std::string::npos &&
         files.find("/_mlxcomm.") == std::string::npos &&
         files.find("/libmlxcomm") == std::string::npos;
}

}  // namespace mlxcomm::ctl
