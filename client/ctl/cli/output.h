// How verbs write what they have to say: to standard output, and failures to standard error. With --json
// a failure is also printed on standard output, for programs that read nothing else (CommandFailed of
// ctl.proto).
#pragma once

#include <string>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

inline constexpr int kExitFailed = 1;  // The daemon or a rank failed.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoDaemon = 3;
inline constexpr int kExitWarnings = 4;

// What --help and the man page say of them.
struct ExitCode {
  int code;
  const char* meaning;
};
inline constexpr ExitCode kExitCodes[] = {
    {0, "Done"},
    {kExitFailed, "The daemon refused, or something here failed; standard error says what"},
    {kExitUsage, "Wrong usage"},
    {kExitNoDaemon, "No daemon, or it does not answer"},
    {kExitWarnings, "doctor has found warnings, but no error (errors: 1; notes alone: 0)"},
};
inline constexpr char kExitCodeOfRanks[] =
    "launch and bench exit as the first rank that failed: with its code, or 128 and its signal; "
    "127 if there is no such program; 1 if a host cannot be reached, or its connection is lost";

// From here on failures are printed as JSON, too. Called once, when the command line has been read.
void PrintFailuresAsJson();

// The exit code; `what` for the message: "cannot write the status".
int WriteOut(const std::string& text, const char* what);
// A file for people to send: only its maker can read it, and it never replaces another. False with
// errno set.
bool WriteNewFile(const std::string& path, const std::string& text);
// Local time for a file's name: "20260131-235959".
std::string TimeForName();
// Writes to standard error; returns kExitNoDaemon or kExitFailed.
int ReportFailure(const Failure& failure);
// The same for a message that is no Failure; returns `code`.
int Fail(int code, const std::string& message);

}  // namespace mlxcomm::ctl
