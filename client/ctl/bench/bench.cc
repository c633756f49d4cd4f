// mlxcommctl bench starts the ranks, and on rank 0 prints the table. A rank is the program
// mlxcomm-bench, because it needs the client library, which mlxcommctl keeps out of its own
// process.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/ctl/bench/bandwidth.h"
#include "client/ctl/bench/link_loads.h"
#include "client/ctl/bench/render_bench.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/launch/child_process.h"
#include "client/ctl/launch/launch.h"
#include "client/lib/find_place.h"
#include "proto/queue/dial.h"
#include "proto/system/file_descriptor.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {
namespace {

struct BenchOptions {
  std::string called;  // argv[0].
  std::string socket_path;
  std::string job;  // Empty means the environment's, or "bench".
  std::string operation = "all_reduce";
  std::string data_type = "float32";
  std::string reduce_operator = "sum";
  std::uint64_t from_bytes = 8;
  std::uint64_t to_bytes = std::uint64_t{128} << 20;
  double factor = 4;
  std::uint32_t iterations = 20;
  std::uint32_t warm_up = 5;
  bool check = true;
  bool in_place = false;
  bool json = false;
  unsigned ranks = 0;                 // Ranks on each node; 0 with `nodes`: one.
  std::string nodes;                  // "all", or names; empty: this machine.
  std::optional<std::uint32_t> rank;  // Requires `size`; without both, the environment decides.
  std::optional<std::uint32_t> size;
};

constexpr char kProgramName[] = "mlxcomm-bench";
constexpr char kRankZeroFailed[] = "rank 0 failed; see standard error";
constexpr char kJobDefault[] = "bench";  // The same on all ranks, unless a launcher sets it.

bool Subject(const BenchOptions& options, BenchSubject& subject, std::string& error) {
  const auto kind = FindBenchKind(options.operation);
  const auto type = FindDataType(options.data_type);
  const auto op = FindOperator(options.reduce_operator);
  const auto wrong = [](const std::string& option, const std::string& given,
                        const std::string& names) {
    return option + " " + given + ExpectedOneOf(given, names);
  };
  if (!kind) error = wrong("--op", options.operation, BenchKindNames(", "));
  if (!type) error = wrong("--dtype", options.data_type, kDataTypes.Names(", "));
  if (!op) error = wrong("--operator", options.reduce_operator, kReduceOperators.Names(", "));
  if (kind && options.in_place && !MayBeInPlace(*kind)) {
    error = "--in-place: " + options.operation + " cannot replace its input; expected --op " +
            kOperations.NamesWhere(", ",
                                   [](const OperationRow& row) { return MayBeInPlace(row.value); });
  }
  if (!error.empty()) return false;
  subject.kind = *kind;
  subject.type = *type;
  subject.op = Reduces(*kind) ? *op : ReduceOperator::kNone;
  return true;
}

// With --json the daemon's message must not only be on a rank's standard error. If no socket is
// named, ranks start a private daemon.
Failure AskDaemonFirst(const BenchOptions& options) {
  v1::StatusReply status;
  if (!options.json || queue::SocketCandidates(options.socket_path).size() > 1) return {};
  return FetchStatus(options.socket_path, status);
}

template <typename... Words>
void AddWords(std::vector<std::string>& command, const Words&... words) {
  (command.push_back(absl::StrCat(words)), ...);
}

// Starts all ranks as `launch` does; only rank 0 prints.
int LaunchRanks(const BenchOptions& options, const std::string& own_path) {
  LaunchOptions launch;
  launch.nodes = options.nodes;
  launch.socket_path = options.socket_path;
  launch.job = options.job;
  launch.called = own_path;
  launch.ranks = options.ranks;
  launch.prefix = false;
  // Other nodes may have it elsewhere; launch puts its own folder first in their PATH.
  launch.command = {options.nodes.empty() ? own_path : "mlxcommctl", "bench"};
  AddWords(launch.command, "--op", options.operation, "--dtype", options.data_type, "--operator",
           options.reduce_operator, "--from", options.from_bytes, "--to", options.to_bytes,
           "--factor", std::to_string(options.factor), "--iterations", options.iterations,
           "--warm-up", options.warm_up);
  if (!options.check) AddWords(launch.command, "--no-check");
  if (options.in_place) AddWords(launch.command, "--in-place");
  if (options.json) AddWords(launch.command, "--json");
  launch.reports_failure = options.json;
  return RunLaunch(launch);
}

std::vector<std::string> CommandOfRanks(const BenchOptions& options, const std::string& program,
                                        const BenchSubject& subject, const client::Place& place,
                                        const std::vector<std::uint64_t>& counts) {
  std::vector<std::string> command = {program};
  AddWords(command, "--job", place.job, "--rank", place.rank, "--size", subject.ranks, "--kind",
           static_cast<int>(subject.kind), "--type", static_cast<int>(subject.type), "--operator",
           static_cast<int>(subject.op), "--iterations", options.iterations, "--warm-up",
           options.warm_up, "--check", options.check ? "1" : "0");
  if (!options.socket_path.empty()) AddWords(command, "--socket", options.socket_path);
  if (options.in_place) AddWords(command, "--in-place");
  AddWords(command, "--counts");
  for (const std::uint64_t count : counts) AddWords(command, count);
  return command;
}

class RankZero {
 public:
  explicit RankZero(const std::vector<std::string>& command) {
    FileDescriptor in, to, from, out;
    if (!MakePipe(in, to) || !MakePipe(from, out)) return;
    program_ = StartProgram(command, {.input = in.get(), .output = out.get()});
    to_ = ::fdopen(to.Release(), "w");
    from_ = ::fdopen(from.Release(), "r");
  }
  ~RankZero() { Finish(); }
  RankZero(const RankZero&) = delete;
  RankZero& operator=(const RankZero&) = delete;

  const absl::Status& started() const { return program_.status(); }
  // False if it has ended.
  bool Read(std::string& line) {
    char text[512];
    if (std::fgets(text, sizeof text, from_) == nullptr) return false;
    line = text;
    if (line.ends_with('\n')) line.pop_back();
    return true;
  }
  void Go() {
    std::fputs("go\n", to_);
    std::fflush(to_);
  }
  // Closes its pipes; returns its exit code.
  int Finish() {
    if (to_ != nullptr) std::fclose(std::exchange(to_, nullptr));
    if (from_ != nullptr) std::fclose(std::exchange(from_, nullptr));
    if (!program_.ok()) return kExitFailed;
    int status = 0;
    while (::waitpid(*program_, &status, 0) < 0 && errno == EINTR) {
    }
    program_ = absl::CancelledError();
    return ExitCodeOf(status);
  }

 private:
  absl::StatusOr<pid_t> program_ = absl::ResourceExhaustedError("no pipe");
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

class Table {
 public:
  Table(const BenchOptions& options, BenchRun& run, std::string job, std::size_t sizes)
      : options_(options),
        run_(run),
        job_(std::move(job)),
        sizes_(sizes),
        progress_(::isatty(STDERR_FILENO) != 0) {}

  // All ranks are waiting to start the next size.
  bool Begin() {
    if (!run_.results.empty()) return Progress();
    FindPlaces();
    run_.cluster = status_.cluster();
    run_.nodes = static_cast<std::uint32_t>(status_.nodes_size());
    return Print(options_.json ? "" : RenderBenchHead(run_)) && Progress();
  }
  bool Add(BenchResult result) {
    v1::StatusReply now;
    if (run_.places.size() != 1 && Poll(now)) {
      result.loads =
          LoadsBetween(status_, now, static_cast<double>(result.operations), result.mean_ns);
    }
    status_.Swap(&now);
    run_.results.push_back(std::move(result));
    return Print(options_.json ? "" : RenderBenchRow(run_, run_.results.back()));
  }
  bool End() { return Print(options_.json ? BenchJson(run_) : RenderBenchEnd(run_)); }

 private:
  // Polls for a second, because other nodes may not list their ranks yet. A group of one has no
  // status.
  void FindPlaces() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (Poll(status_)) {
      run_.places = PlacesOf(status_, job_, run_.subject.ranks);
      if (!run_.places.empty() || run_.subject.ranks == 1 ||
          std::chrono::steady_clock::now() >= until)
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  // Without a status the table lacks the links, which is reported once.
  bool Poll(v1::StatusReply& status) {
    const Failure failure = FetchStatus(options_.socket_path, status);
    if (!failure.ok() && !std::exchange(reported_, true)) {
      Fail(0, "the table lacks the links: " + failure.message);
    }
    return failure.ok();
  }
  bool Progress() {
    if (!progress_) return true;
    std::fprintf(stderr, "size %zu of %zu\r", run_.results.size() + 1, sizes_);
    return true;
  }
  bool Print(const std::string& text) {
    return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  }

  const BenchOptions& options_;
  BenchRun& run_;
  const std::string job_;
  const std::size_t sizes_;
  const bool progress_;
  bool reported_ = false;
  v1::StatusReply status_;
};

int FailToPrint() {
  return Fail(kExitFailed, "cannot write the table: " + std::string(std::strerror(errno)));
}

int RunRankZero(const BenchOptions& options, const std::vector<std::string>& command,
                const BenchSubject& subject, const std::string& job, std::size_t sizes) {
  std::signal(SIGPIPE, SIG_IGN);  // The write fails instead.
  RankZero rank(command);
  if (!rank.started().ok())
    return Fail(kExitFailed, absl::StrCat("cannot start a rank: ", rank.started().message()));
  BenchRun run{.subject = subject,
               .iterations = options.iterations,
               .warm_up = options.warm_up,
               .check = options.check,
               .in_place = options.in_place};
  Table table(options, run, job, sizes);
  std::uint64_t wrong = 0;
  for (std::string line; rank.Read(line);) {
    BenchResult result;
    bool shown = true;
    if (line == "ready") {
      shown = table.Begin();
      rank.Go();
    } else if (ParseBenchResult(line, result)) {
      wrong += result.wrong;
      shown = table.Add(std::move(result));
    } else {
      return Fail(kExitFailed,
                  "mlxcomm-bench printed \"" + line + "\": install the same release of both");
    }
    if (!shown) return FailToPrint();
  }
  const int code = rank.Finish();
  if (code != 0 && options.json) return Fail(code, kRankZeroFailed);
  if (code != 0) return code;
  if (!table.End()) return FailToPrint();
  return wrong == 0 ? 0 : kExitFailed;
}

int RunBench(const BenchOptions& options) {
  BenchSubject subject;
  std::string error;
  if (!Subject(options, subject, error)) return Fail(kExitUsage, error);
  // Ranks get the factor with few digits: a smaller one might round to 1, and the list would not
  // end.
  if (options.from_bytes == 0 || options.from_bytes > options.to_bytes ||
      !(options.factor >= 1.01) || options.iterations == 0) {
    return Fail(
        kExitUsage,
        "--from, --to, --factor, --iterations: expected 1 <= from <= to, a factor of at least "
        "1.01, and at least one iteration");
  }
  const std::string own_path = OwnPath(options.called);
  if (options.ranks > 0 || !options.nodes.empty()) {
    const Failure failure = AskDaemonFirst(options);
    return failure.ok() ? LaunchRanks(options, own_path) : ReportFailure(failure);
  }
  client::PlaceGiven given{.job = options.job, .rank = options.rank, .size = options.size};
  client::Place place;
  const Failure failure = client::FindPlace(client::ProcessEnvironment, given, place);
  if (!failure.ok()) return Fail(kExitUsage, failure.message);
  if (!place.launched && !options.rank) {
    return Fail(kExitUsage,
                "choose what to measure: the cables (mlxcommctl bench --nodes all) or this machine "
                "(mlxcommctl bench -n 2); or start it with your own launcher");
  }
  if (place.job == client::kDefaultJob) place.job = kJobDefault;
  subject.ranks = place.size;
  const std::string program = FindProgramBeside(own_path, kProgramName, "bench");
  if (program.empty()) {
    return Fail(kExitFailed,
                std::string(kProgramName) + " is not beside " + own_path +
                    ": activate the Python environment that mlxcomm is installed in, or install "
                    "mlxcomm again");
  }
  const auto counts = BenchCounts(subject, options.from_bytes, options.to_bytes, options.factor);
  const auto command = CommandOfRanks(options, program, subject, place, counts);
  if (place.rank != 0) Become(command, -1, STDOUT_FILENO, STDERR_FILENO);
  if (const Failure reached = AskDaemonFirst(options); !reached.ok()) return ReportFailure(reached);
  return RunRankZero(options, command, subject, place.job, counts.size());
}

}  // namespace

Run AddBench(CLI::App& bench, const Invocation& invocation) {
  const auto options = std::make_shared<BenchOptions>();
  options->called = invocation.called;
  CLI::Option* const ranks =
      bench.add_option("-n,--ranks", options->ranks, "Ranks on this machine, or on each node (1)")
          ->type_name("COUNT")
          ->check(CLI::Range(1, 64));
  CLI::Option* const nodes =
      bench
          .add_option("--nodes", options->nodes,
                      "Measure the cables between nodes: all that are up, or mac-1,mac-2")
          ->type_name("NODES")
          ->check(NotEmpty("all, or nodes"));
  CLI::Option* const rank =
      bench.add_option("--rank", options->rank, "This process's rank (from the launcher)")
          ->type_name("RANK");
  CLI::Option* const size =
      bench.add_option("--size", options->size, "Number of ranks (from the launcher)")
          ->type_name("COUNT");
  rank->needs(size)->excludes(ranks)->excludes(nodes);
  size->needs(rank)->excludes(ranks)->excludes(nodes);
  bench.add_option("--op", options->operation, "Operation to measure (all_reduce)")
      ->type_name(OneOf(BenchKindNames(",")));
  bench.add_option("-d,--dtype", options->data_type, "Element type (float32)")
      ->type_name(OneOf(kDataTypes.Names(",")));
  bench.add_option("-o,--operator", options->reduce_operator, "Reduction operator (sum)")
      ->type_name(OneOf(kReduceOperators.Names(",")));
  AddQuantity(bench, "-b,--from", options->from_bytes, ParseBytes, "64M or 1.5G", "First size (8)");
  AddQuantity(bench, "-e,--to", options->to_bytes, ParseBytes, "64M or 1.5G", "Last size (128M)");
  bench.add_option("-f,--factor", options->factor, "Factor between sizes (4)");
  bench.add_option("-i,--iterations", options->iterations, "Timed operations per size (20)")
      ->type_name("COUNT");
  bench.add_option("-w,--warm-up", options->warm_up, "Warm-up operations per size (5)")
      ->type_name("COUNT");
  bench.add_flag_callback(
      "--no-check", [options] { options->check = false; }, "Do not check values");
  bench.add_flag("--in-place", options->in_place,
                 "Write the result over the input, as MLX's all_reduce does");
  bench.add_flag("--json", options->json, "Print JSON: one object, at the end");
  bench.add_option("--job", options->job, "Name of the job, the same on all ranks")
      ->type_name("NAME");
  AddSocket(bench, options->socket_path);
  bench.footer(
      R"(The table is like that of nccl-tests. Times are means over ranks and iterations.

With --nodes one rank runs on each node, and the operations use the cables; like launch, it
needs ssh. With only -n all ranks run on this machine, and no cable is used. A launcher can
also start the ranks, each as `mlxcommctl bench`.

`algbw` is bytes / time. `busbw` is algbw times 2(n-1)/n for all_reduce, times (n-1)/n for
operations with a block for each rank, and algbw otherwise. `link` is the rate of the
busiest link, as a share of its best rate so far; the lines below the table show each
direction of each link at the largest size. `wrong` counts the wrong elements of one more
operation; with any, the exit code is 1.)");
  return [options] { return RunBench(*options); };
}

}  // namespace mlxcomm::ctl
