// The verbs that read the daemon's flight recorder: record and trace.
#include <unistd.h>

#include <memory>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/record/render_record.h"

namespace mlxcomm::ctl {
namespace {

struct RecordOptions {
  std::string socket_path;
  std::string job;  // Empty means all; the same for group.
  std::string group;
  std::uint32_t operations_max = 0;  // 0: all.
  bool json = false;                 // Prints a trace even to a terminal.
};

void AddRecordOptions(CLI::App& verb, RecordOptions& options) {
  AddSocket(verb, options.socket_path);
  verb.add_option("--job", options.job, "Show operations of this job")->type_name("NAME");
  verb.add_option("--group", options.group, "Show operations of this group, by name or id")
      ->type_name("NAME");
}

v1::FlightRecordRequest RequestOf(const RecordOptions& options, bool with_tracks) {
  v1::FlightRecordRequest request;
  request.set_job(options.job);
  request.set_group(options.group);
  request.set_operations_max(options.operations_max);
  request.set_with_tracks(with_tracks);
  return request;
}

int RunRecord(const RecordOptions& options) {
  v1::FlightRecordReply record;
  const v1::FlightRecordRequest request = RequestOf(options, false);
  Failure failure = FetchRecord(options.socket_path, request, record);
  std::string text;
  if (failure.ok() && options.json) failure = ToJson(record, text);
  if (!failure.ok()) return ReportFailure(failure);
  return WriteOut(options.json ? text : RenderRecord(record), "record");
}

int RunTrace(const RecordOptions& options) {
  if (!options.json && ::isatty(STDOUT_FILENO) != 0) {
    std::fputs(
        "mlxcommctl: a trace is for Perfetto: write it to a file (mlxcommctl trace > trace.json) "
        "and open that with https://ui.perfetto.dev; to read it here: mlxcommctl record\n",
        stderr);
    return kExitUsage;
  }
  v1::FlightRecordReply record;
  Failure failure = FetchRecord(options.socket_path, RequestOf(options, true), record);
  std::string text;
  if (failure.ok()) failure = ToJson(RenderTrace(record), text, JsonLayout::kCompact);
  return failure.ok() ? WriteOut(text + "\n", "trace") : ReportFailure(failure);
}

}  // namespace

Run AddRecord(CLI::App& record, const Invocation&) {
  const auto options = std::make_shared<RecordOptions>();
  AddRecordOptions(record, *options);
  options->operations_max = 20;
  record
      .add_option("-n,--operations", options->operations_max,
                  "Show this many of the newest operations (20); 0: all")
      ->type_name("COUNT");
  record.add_flag("--json", options->json, "Print JSON (FlightRecordReply in diagnostics.proto)");
  record.footer(
      R"(The newest operation is last. The recorder is always on, but keeps only a sample of the
small operations that ranks on one machine do directly. You see your own jobs.

`ago` is the time since a rank of this node first called, `total` the time from there until
its ranks had their results. `total` consists of `ranks`, until all ranks of this node had
called; `peers`, until data of another node arrived; `data`, until the last byte arrived or
was acknowledged; and `end`. `last` is the rank or node that arrived last. mlxcommctl trace
exports also what each rail and worker did.)");
  return [options] { return RunRecord(*options); };
}

Run AddTrace(CLI::App& trace, const Invocation&) {
  const auto options = std::make_shared<RecordOptions>();
  AddRecordOptions(trace, *options);
  trace
      .add_option("-n,--operations", options->operations_max,
                  "Export this many of the newest operations (all)")
      ->type_name("COUNT");
  trace.add_flag("--json", options->json, "Print even to a terminal; a trace is always JSON");
  trace.footer(
      R"(Prints Chrome's Trace Event Format: a thread for each rank, each direction of a rail and
each worker, with a slice for each operation, phase and frame. Times are relative to
`otherData.begin_unix_ns`.)");
  return [options] { return RunTrace(*options); };
}

}  // namespace mlxcomm::ctl
