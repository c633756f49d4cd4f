// mlxcomm-bench: one rank of `mlxcommctl bench`. Like nccl-tests, for each size it runs warm-up
// operations, timed operations, and one whose result is checked. Rank 0 collects all ranks' times
// and numbers of wrong elements.
//
// Before each size rank 0 writes "ready" and waits for a line; after it, it writes
//   COUNT OPERATIONS MEAN_NS FASTEST_NS SLOWEST_NS WRONG
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "client/bench/values.h"
#include "client/lib/mlxcomm.hpp"

namespace mlxcomm::bench {
namespace {

struct MeasureOptions {
  std::string socket_path;  // Empty means the default.
  std::string job;
  Measured measured;
  std::vector<std::uint64_t> counts;
  std::uint32_t iterations = 20;
  std::uint32_t warm_up = 5;
  bool check = true;
  bool in_place = false;  // Only if the operation MayBeInPlace.
};

struct Outcome {
  std::uint64_t count = 0;
  std::uint64_t operations = 0;  // Including warm-up and check.
  double mean_ns = 0;            // Time of one operation; mean of all ranks and iterations.
  double fastest_ns = 0;         // Mean of the fastest rank.
  double slowest_ns = 0;
  std::uint64_t wrong = 0;  // Elements, over all ranks.
};

bool AwaitLine() {
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  return static_cast<bool>(std::getline(std::cin, line));
}

void Print(const Outcome& outcome) {
  std::printf("%llu %llu %.1f %.1f %.1f %llu\n", static_cast<unsigned long long>(outcome.count),
              static_cast<unsigned long long>(outcome.operations), outcome.mean_ns,
              outcome.fastest_ns, outcome.slowest_ns,
              static_cast<unsigned long long>(outcome.wrong));
  std::fflush(stdout);
}

constexpr std::size_t kShared = 2;  // Each rank shares its mean time and number of wrong elements.

class Rank {
 public:
  Rank(Connection& connection, Group& group, const MeasureOptions& options)
      : group_(group),
        options_(options),
        measured_(options.measured),
        type_(static_cast<mlxcomm_data_type>(measured_.type)),
        input_(connection, std::max(BytesMost(InputElements),
                                    options.in_place ? BytesMost(OutputElements) : 0)),
        separate_(connection, options.in_place ? 1 : BytesMost(OutputElements)),
        output_(options.in_place ? input_.data() : separate_.data()),
        own_(connection, kShared * sizeof(double)),
        all_(connection, kShared * sizeof(double) * measured_.size) {}

  Outcome MeasureSize(std::uint64_t count) {
    FillInput(measured_, count, input_.data());
    group_.Barrier();
    for (std::uint32_t i = 0; i < options_.warm_up; ++i) Operate(count);
    group_.Barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < options_.iterations; ++i) Operate(count);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    const std::uint64_t wrong = options_.check ? Check(count) : 0;
    return Share(count, took.count() / options_.iterations, wrong);
  }

 private:
  std::uint64_t BytesMost(std::uint64_t (*elements)(const Measured&, std::uint64_t)) const {
    const std::uint64_t most = *std::ranges::max_element(options_.counts);
    return std::max<std::uint64_t>(1, elements(measured_, most) * DataTypeBytes(measured_.type));
  }

  void Operate(std::uint64_t count) {
    if (IsPointToPoint(measured_.kind)) return PassOn(count);
    mlxcomm_request request{};
    request.kind = static_cast<mlxcomm_kind>(measured_.kind);
    request.type = type_;
    request.op = static_cast<mlxcomm_operator>(measured_.op);
    request.peer = kRoot;
    request.input = input_.data();
    request.output = output_;
    request.count = count;
    group_.CarryOut(request);
  }
  void PassOn(std::uint64_t count) {
    const std::uint32_t next = (measured_.rank + 1) % measured_.size;
    const std::uint32_t before = (measured_.rank + measured_.size - 1) % measured_.size;
    Ticket receive = group_.ReceiveAsync(output_, count, type_, before);
    group_.Send(input_.data(), count, type_, next);
    receive.Wait();
  }

  // Overwrites old results before the checked operation; in place, that is also the input.
  std::uint64_t Check(std::uint64_t count) {
    const std::uint64_t bytes = OutputElements(measured_, count) * DataTypeBytes(measured_.type);
    std::fill_n(static_cast<std::uint8_t*>(output_), bytes, std::uint8_t{0xa5});
    if (options_.in_place) FillInput(measured_, count, input_.data());
    Operate(count);
    return CountWrong(measured_, count, output_);
  }

  Outcome Share(std::uint64_t count, double mean_ns, std::uint64_t wrong) {
    own_.as<double>()[0] = mean_ns;
    own_.as<double>()[1] = static_cast<double>(wrong);
    group_.AllGather(own_.data(), all_.data(), kShared, MLXCOMM_FLOAT64);
    Outcome outcome{.count = count,
                    .operations = std::uint64_t{options_.warm_up} + options_.iterations +
                                  (options_.check ? 1 : 0),
                    .mean_ns = 0,
                    .fastest_ns = mean_ns,
                    .slowest_ns = mean_ns,
                    .wrong = 0};
    for (std::uint32_t rank = 0; rank < measured_.size; ++rank) {
      const double* const shared = all_.as<double>() + kShared * rank;
      outcome.mean_ns += shared[0] / measured_.size;
      outcome.fastest_ns = std::min(outcome.fastest_ns, shared[0]);
      outcome.slowest_ns = std::max(outcome.slowest_ns, shared[0]);
      outcome.wrong += static_cast<std::uint64_t>(shared[1]);
    }
    return outcome;
  }

  Group& group_;
  const MeasureOptions& options_;
  const Measured measured_;
  const mlxcomm_data_type type_;
  Buffer input_;
  Buffer separate_;  // The output, unless in place.
  void* const output_;
  Buffer own_;
  Buffer all_;
};

// Throws mlxcomm::Error.
void Measure(const MeasureOptions& options) {
  mlxcomm_connect_options connect;
  mlxcomm_connect_options_init(&connect);
  if (!options.socket_path.empty()) connect.socket_path = options.socket_path.c_str();
  Connection connection(connect);
  Group group(connection, options.job, options.measured.rank, options.measured.size);
  Rank rank(connection, group, options);
  for (const std::uint64_t count : options.counts) {
    if (options.measured.rank == 0 && !AwaitLine()) return;
    const Outcome outcome = rank.MeasureSize(count);
    if (options.measured.rank == 0) Print(outcome);
  }
  group.Barrier();  // No rank leaves while others still need it.
}

}  // namespace
}  // namespace mlxcomm::bench

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNoDaemon = 3;

}  // namespace

int main(int argc, char** argv) {
  mlxcomm::bench::MeasureOptions options;
  unsigned kind = 1;
  unsigned type = 1;
  unsigned op = 0;
  CLI::App app{
      "mlxcomm-bench: one rank of mlxcommctl bench, which starts it. Its options are internal and\n"
      "change with each release."};
  app.option_defaults()->group("");
  app.add_option("--socket", options.socket_path);
  app.add_option("--job", options.job)->required();
  app.add_option("--rank", options.measured.rank)->required();
  app.add_option("--size", options.measured.size)->required()->check(CLI::Range(1u, 4096u));
  app.add_option("--kind", kind)->required();
  app.add_option("--type", type)->required();
  app.add_option("--operator", op)->required();
  app.add_option("--iterations", options.iterations)->check(CLI::PositiveNumber);
  app.add_option("--warm-up", options.warm_up);
  app.add_option("--check", options.check);
  app.add_flag("--in-place", options.in_place);
  app.add_option("--counts", options.counts)->required();
  CLI11_PARSE(app, argc, argv);
  options.measured.kind = static_cast<mlxcomm::OperationKind>(kind);
  options.measured.type = static_cast<mlxcomm::DataType>(type);
  options.measured.op = static_cast<mlxcomm::ReduceOperator>(op);
  if (kind > 255 || type > 255 || op > 255 || !IsValid(options.measured.kind) ||
      !IsValid(options.measured.type)) {
    std::fprintf(stderr,
                 "mlxcomm-bench: install the same release of mlxcomm-bench and mlxcommctl\n");
    return kExitUsage;
  }
  try {
    mlxcomm::bench::Measure(options);
  } catch (const mlxcomm::Error& error) {
    std::fprintf(stderr, "mlxcomm-bench: rank %u: %s\n", options.measured.rank, error.what());
    return error.code() == MLXCOMM_UNAVAILABLE ? kExitNoDaemon : kExitFailed;
  }
  return 0;
}
