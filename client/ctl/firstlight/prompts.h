// What a person is asked to do: pull a cable, plug it in, send the machine to sleep. In a test a
// command does it instead, which gets the prompt's name, and the interface of a cable; where there
// is neither, the step is left out.
//
// Owner: the verb. Thread: main. Memory: texts.
#pragma once

#include <cstdint>
#include <string>

namespace mlxcomm::ctl {

class Prompts {
 public:
  // `command` empty: asks a person, if standard input is a terminal and `ask_nothing` is not set.
  Prompts(std::string command, bool ask_nothing);

  bool anybody() const { return who_ != Who::kNobody; }
  bool is_person() const { return who_ == Who::kPerson; }
  // Shows the text to a person; a command has done it when this returns. False: the command failed,
  // or did not end in time.
  //
  // `interface`: that of the cable; empty: not about a cable.
  bool Ask(const std::string& name, const std::string& interface, const std::string& text,
           std::uint64_t timeout_ns);
  // A person has typed "s" to leave this out. Does not wait.
  bool IsSkipped();
  // "Measures are taken ...": to standard error, where the person looks.
  static void Tell(const std::string& text);

 private:
  enum class Who : std::uint8_t { kNobody, kPerson, kCommand };
  Who who_ = Who::kNobody;
  const std::string command_;
};

}  // namespace mlxcomm::ctl
