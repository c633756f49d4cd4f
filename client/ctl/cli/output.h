// Prints results and failures of verbs. With --json a failure is also printed on standard output,
// for programs that read nothing else (CommandFailed of ctl.proto).
#pragma once

#include <string>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

inline constexpr int kExitFailed = 1;  // The daemon or a rank failed.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoDaemon = 3;
inline constexpr int kExitWarnings = 4;

struct ExitCode {
  int code;
  const char* meaning;
};
inline constexpr ExitCode kExitCodes[] = {
    {0, "Done"},
    {kExitFailed, "The daemon refused, or something here failed; see standard error"},
    {kExitUsage, "Wrong usage"},
    {kExitNoDaemon, "No daemon, or it does not answer"},
    {kExitWarnings, "doctor found warnings but no error (errors: 1; only notes: 0)"},
};
inline constexpr char kExitCodeOfRanks[] =
    "launch and bench exit with the code of the first rank that failed, or 128 plus its signal; "
    "127 "
    "if a program is missing; 1 if a host cannot be reached or its connection is lost";

// Failures from here on are printed as JSON, too.
void PrintFailuresAsJson();

// Returns the exit code. `what` is for the message: "cannot write the status".
int WriteOut(const std::string& text, const char* what);
// Only its owner can read the file; an existing file is never replaced. If false, errno is set.
bool WriteNewFile(const std::string& path, const std::string& text);
// Local time for a file name: "20260131-235959".
std::string TimeForName();
// Writes to standard error; returns kExitNoDaemon or kExitFailed.
int ReportFailure(const Failure& failure);
// The same for a message without a Failure; returns `code`.
int Fail(int code, const std::string& message);

}  // namespace mlxcomm::ctl
