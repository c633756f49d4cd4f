// A test's control of the fake, and the fake's reports of mistakes.
//
// FAKE_VERBS_DIR names a folder that all processes of a test share. In it, or in the folder
// FAKE_VERBS_CONTROL if that is set, lies `control`: lines "name value" (README.md, Control, lists
// them), read again whenever it changes. Each violation of Apple's rules is a line of `faults`, and
// of standard error.
//
// Owner: the library, once in a process. Thread: any. Memory: what the file says.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fake_verbs {

struct Settings {
  std::vector<std::pair<std::string, std::vector<std::string>>> devices;
  std::multimap<std::string, std::string> lines;

  bool Has(const std::string& name, const std::string& value) const;
  double Number(const std::string& name, double otherwise) const;
};

class Control {
 public:
  static Control& Get();

  const std::string& folder() const { return folder_; }
  Settings Now();
  // Waits, ends the process, or returns that the call must fail, as the control file says.
  [[nodiscard]] bool MayCall(const char* function);
  [[nodiscard]] bool Lies(const char* function) { return Now().Has("lie", function); }
  // Something that the hardware does not do or accept.
  void Fault(const std::string& what);

 private:
  Control();
  void Append(const char* name, const std::string& line) const;
  std::string folder_;
  std::string file_;
  std::mutex mutex_;
  Settings settings_;
  std::chrono::steady_clock::time_point read_at_{};
};

}  // namespace fake_verbs
