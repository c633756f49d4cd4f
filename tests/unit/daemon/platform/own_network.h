// A network of the test program's own, with cables to plug and pull. Linux only.
//
// Owner: the process. Thread: the main one, before there are others.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace mlxcomm::platform {

inline bool WriteFile(const char* file, const std::string& text) {
  std::ofstream out(file);
  return (out << text << std::flush).good();
}

// NOLINTNEXTLINE(bugprone-command-processor): the command is the test's own.
inline bool Shell(const std::string& command) { return std::system(command.c_str()) == 0; }

// Moves the process into a user and a network namespace, where it stays for all later tests: the
// system refuses a second move, because the process's group has no name in the first. Returns false
// if that is not allowed.
inline bool EnterOwnNetwork() {
  static const bool is_inside = [] {
    const std::string root = "0 " + std::to_string(::geteuid()) + " 1";
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) return WriteFile("/proc/self/uid_map", root);
    // A chroot allows no user namespaces; root does not need one.
    return ::unshare(CLONE_NEWNET) == 0;
  }();
  return is_inside;
}

}  // namespace mlxcomm::platform
