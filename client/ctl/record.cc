// The verbs that read the daemon's flight recorder: record and trace.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "client/ctl/daemon_call.h"
#include "client/ctl/json_text.h"
#include "client/ctl/render_record.h"
#include "client/ctl/render_status.h"
#include "client/ctl/render_trace.h"
#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {
namespace {

v1::FlightRecordRequest RequestOf(const RecordOptions& options, bool with_tracks) {
  v1::FlightRecordRequest request;
  request.set_job(options.job);
  request.set_group(options.group);
  request.set_operations_max(options.operations_max);
  request.set_with_tracks(with_tracks);
  return request;
}

int Report(const Failure& failure) {
  std::fprintf(stderr, "mlxcommctl: %s\n", Shown(failure.message).c_str());
  return failure.code == FailureCode::kUnavailable ? kExitNoDaemon : kExitFailed;
}

int Write(const std::string& text, const char* what) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "mlxcommctl: cannot write the %s: %s\n", what, std::strerror(errno));
  return kExitFailed;
}

}  // namespace

int RunRecord(const RecordOptions& options) {
  v1::FlightRecordReply record;
  const v1::FlightRecordRequest request = RequestOf(options, options.json && options.tracks);
  Failure failure = FetchRecord(options.socket_path, request, record);
  std::string text;
  if (failure.ok() && options.json) failure = ToJson(record, text);
  if (!failure.ok()) return Report(failure);
  return Write(options.json ? text : RenderRecord(record), "record");
}

int RunTrace(const RecordOptions& options) {
  if (!options.json && ::isatty(STDOUT_FILENO) != 0) {
    std::fputs("mlxcommctl: a trace is read by Perfetto: write it to a file (mlxcommctl trace > "
               "trace.json) and open that with https://ui.perfetto.dev; for people there is "
               "mlxcommctl record\n", stderr);
    return kExitUsage;
  }
  v1::FlightRecordReply record;
  Failure failure = FetchRecord(options.socket_path, RequestOf(options, true), record);
  std::string text;
  if (failure.ok()) failure = ToJson(RenderTrace(record), text, JsonLayout::kCompact);
  return failure.ok() ? Write(text + "\n", "trace") : Report(failure);
}

}  // namespace mlxcomm::ctl
