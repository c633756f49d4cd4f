// How verbs write what they have to say: to standard output, and failures to standard error. With --json
// a failure is also printed on standard output, for programs that read nothing else (CommandFailed of
// ctl.proto).
//
// Thread: main.
#pragma once

#include <string>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

inline constexpr int kExitFailed = 1;  // The daemon or a rank failed.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoDaemon = 3;
inline constexpr int kExitWarnings = 4;  // doctor: warnings, but no error.

// From here on failures are printed as JSON, too. Called once, when the command line has been read.
void PrintFailuresAsJson();

// The exit code; `what` for the message: "cannot write the status".
int WriteOut(const std::string& text, const char* what);
// Writes to standard error; returns kExitNoDaemon or kExitFailed.
int ReportFailure(const Failure& failure);
// The same for a message that is no Failure; returns `code`.
int Fail(int code, const std::string& message);

}  // namespace mlxcomm::ctl
