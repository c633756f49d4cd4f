// mlxcomm-bench: one rank of `mlxcommctl bench`, which starts it.
//
// Before each size rank 0 writes "ready" and waits until it has read a line; after it, it writes
//   COUNT OPERATIONS MEAN_NS FASTEST_NS SLOWEST_NS WRONG
#include <cstdio>
#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include "client/bench/measure.h"
#include "client/lib/mlxcomm.hpp"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitNoDaemon = 3;

bool Go() {
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  return static_cast<bool>(std::getline(std::cin, line));
}

void Done(const mlxcomm::bench::Outcome& outcome) {
  std::printf("%llu %llu %.1f %.1f %.1f %llu\n", static_cast<unsigned long long>(outcome.count),
              static_cast<unsigned long long>(outcome.operations), outcome.mean_ns,
              outcome.fastest_ns, outcome.slowest_ns,
              static_cast<unsigned long long>(outcome.wrong));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  mlxcomm::bench::MeasureOptions options;
  unsigned kind = 1;
  unsigned type = 1;
  unsigned op = 0;
  CLI::App app{
      "mlxcomm-bench: one rank of a measurement. mlxcommctl bench starts it; its options are not\n"
      "for people and change with each release."};
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
    std::fprintf(stderr, "mlxcomm-bench: install the same release of it and of mlxcommctl\n");
    return kExitUsage;
  }
  try {
    Measure(options, {Go, Done});
  } catch (const mlxcomm::Error& error) {
    std::fprintf(stderr, "mlxcomm-bench: rank %u: %s\n", options.measured.rank, error.what());
    return error.code() == MLXCOMM_UNAVAILABLE ? kExitNoDaemon : kExitFailed;
  }
  return 0;
}
