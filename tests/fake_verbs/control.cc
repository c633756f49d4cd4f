#include "tests/fake_verbs/control.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace fake_verbs {
namespace {

// The maximum age of what was read from the file.
constexpr auto kFresh = std::chrono::milliseconds(2);

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool Settings::Has(const std::string& name, const std::string& value) const {
  const auto [first, last] = lines.equal_range(name);
  for (auto at = first; at != last; ++at) {
    if (at->second == value) return true;
  }
  return false;
}

double Settings::Number(const std::string& name, double otherwise) const {
  const auto found = lines.find(name);
  return found == lines.end() ? otherwise : std::atof(found->second.c_str());
}

// Never destroyed: threads of queue pairs use it to the end of the process.
Control& Control::Get() {
  static Control* const control = new Control;
  return *control;
}

Control::Control() : folder_(Environment("FAKE_VERBS_DIR")) {
  const std::string own = Environment("FAKE_VERBS_CONTROL");
  file_ = (own.empty() ? folder_ : own) + "/control";
}

Settings Control::Now() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - read_at_ < kFresh) return settings_;
  read_at_ = now;
  Settings settings;
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::string value;
    words >> name >> value;
    if (name == "device") {
      std::string gids;
      words >> gids;
      settings.devices.emplace_back(value, Split(gids, ','));
    } else if (!name.empty()) {
      settings.lines.emplace(name, value);
    }
  }
  settings_ = settings;
  return settings;
}

bool Control::MayCall(const char* function) {
  if (Now().Has("hang", function)) Append("hung", std::string(function) + "\n");
  while (Now().Has("hang", function)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Settings settings = Now();
  if (settings.Has("print", function)) std::puts("the driver has something to say");
  if (settings.Has("crash", function)) {
    Append("crashed", std::string(function) + "\n");
    ::signal(SIGSEGV, SIG_DFL);  // No sanitizer's.
    ::raise(SIGSEGV);
  }
  return !settings.Has("fail", function);
}

void Control::Fault(const std::string& what) {
  const std::string line = "fake verbs: " + what + "\n";
  std::fputs(line.c_str(), stderr);
  Append("faults", line);
}

void Control::Append(const char* name, const std::string& line) const {
  const int file = ::open((folder_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file < 0) return;
  if (::write(file, line.data(), line.size()) < 0) std::abort();
  ::close(file);
}

}  // namespace fake_verbs
