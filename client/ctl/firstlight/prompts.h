// What a person is asked to do: pull a cable, plug it in, send the machine to sleep. A test has a
// command do it instead, which gets the prompt's name, and of a cable its interface; where there is
// neither, it is left out.
//
// Owner: the verb. Thread: main. Memory: texts.
#pragma once

#include <cstdint>
#include <string>

namespace mlxcomm::ctl {

class Prompts {
 public:
  // `command` empty: a person, if standard input is a terminal and `ask_nothing` is not set.
  Prompts(std::string command, bool ask_nothing);

  bool anybody() const { return who_ != Who::kNobody; }
  bool is_person() const { return who_ == Who::kPerson; }
  // A person is shown the text; a command has done it when this returns. False: it cannot, and says
  // so by its exit code, or did not end in time.
  // `interface`: that of the cable it is about; empty: about none.
  bool Ask(const std::string& name, const std::string& interface, const std::string& text,
           std::uint64_t timeout_ns);
  // A person has typed "s": this is left out. Does not wait.
  bool IsSkipped();
  // "Measures are taken ...": to standard error, where the person looks.
  static void Tell(const std::string& text);

 private:
  enum class Who : std::uint8_t { kNobody, kPerson, kCommand };
  Who who_ = Who::kNobody;
  const std::string command_;
};

}  // namespace mlxcomm::ctl
