#include "client/ctl/cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/text.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/system/small_file.h"

namespace mlxcomm::ctl {
namespace {

bool as_json = false;

int Report(int exit_code, const char* code, const std::string& message) {
  std::fprintf(stderr, "mlxcommctl: %s\n", Shown(message).c_str());
  if (!as_json || exit_code == kExitUsage) return exit_code;
  v1::CommandFailed failed;
  v1::CommandError& error = *failed.mutable_error();
  error.set_code(code);
  error.set_message(message);
  error.set_exit_code(exit_code);
  std::fprintf(stdout, "%s\n", JsonOf(std::move(failed), JsonLayout::kCompact).c_str());
  return exit_code;
}

}  // namespace

void PrintFailuresAsJson() { as_json = true; }

int WriteOut(const std::string& text, const char* what) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "mlxcommctl: cannot write the %s: %s\n", what, std::strerror(errno));
  return kExitFailed;
}

bool WriteNewFile(const std::string& path, const std::string& text) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return file.valid() && WriteAll(file, text) && ::close(file.Release()) == 0;
}

std::string TimeForName() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local));
}

int ReportFailure(const Failure& failure) {
  return Report(failure.code == FailureCode::kUnavailable ? kExitNoDaemon : kExitFailed,
                FailureCodeName(failure.code), failure.message);
}

int Fail(int code, const std::string& message) {
  return Report(code, code == kExitNoDaemon ? FailureCodeName(FailureCode::kUnavailable) : "FAILED",
                message);
}

}  // namespace mlxcomm::ctl
