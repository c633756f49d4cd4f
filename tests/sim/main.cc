// Runs seeds: one, a range, or until a time limit. A seed decides everything; the same seed gives
// the same run, event by event, in every process.
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/sim/planted.h"
#include "tests/sim/script.h"
#include "tests/sim/world.h"

namespace mlxcomm::sim {
namespace {

struct Options {
  std::uint64_t seed = 0;
  bool has_seed = false;
  std::string seeds;
  double soak_minutes = 0;
  bool verbose = false;
  std::string planted = "none";
  std::string script;
};

struct Total {
  std::uint64_t seeds = 0;
  std::uint64_t failed = 0;
  Outcome sum;  // Without complaints and digests.
};

Planted PlantedOf(const std::string& name) {
  if (name == "drop-acknowledgement") return Planted::kDropAcknowledgement;
  if (name == "keep-duplicates") return Planted::kKeepDuplicates;
  if (name == "forget-credit") return Planted::kForgetCredit;
  return Planted::kNone;
}

// The daemons' own log lines, between the simulator's.
class VirtualTimeSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit VirtualTimeSink(World& world) : world_(world) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::printf("%12.6f    daemon: %.*s\n", static_cast<double>(world_.schedule().now_ns()) / 1e9,
                static_cast<int>(message.payload.size()), message.payload.data());
  }
  void flush_() override {}

  World& world_;
};

void PrintLine(const std::string& line) { std::printf("%s\n", line.c_str()); }

bool RunSeed(std::uint64_t seed, const Options& options, Total& total) {
  const Planted planted = PlantedOf(options.planted);
  Plant(planted);
  const Scenario scenario = MakeScenario(seed);
  if (options.verbose) PrintLine(absl::StrCat("seed ", seed, ": ", scenario.description));
  World world(scenario, options.verbose ? PrintLine : std::function<void(const std::string&)>());
  if (options.verbose) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("sim", std::make_shared<VirtualTimeSink>(world)));
    spdlog::set_level(spdlog::level::debug);
  }
  const Outcome outcome = world.Run();
  ++total.seeds;
  total.sum.events += outcome.events;
  total.sum.calls += outcome.calls;
  total.sum.jobs += outcome.jobs;
  total.sum.jobs_failed += outcome.jobs_failed;
  total.sum.faults += outcome.faults;
  total.sum.shrinks += outcome.shrinks;
  total.sum.questions += outcome.questions;
  total.sum.virtual_ns += outcome.virtual_ns;
  if (options.verbose || options.has_seed) {
    std::printf("seed %" PRIu64 ": %" PRIu64 " events, digest %016" PRIx64 "\n", seed,
                outcome.events, outcome.digest);
  }
  if (outcome.complaints.empty()) return true;
  ++total.failed;
  std::printf("FAILED seed %" PRIu64 " (%s)\n", seed, scenario.description.c_str());
  for (const std::string& complaint : outcome.complaints) PrintLine("  " + complaint);
  std::printf("  replay it with: tests/sim/run --seed %" PRIu64 " --verbose%s\n", seed,
              planted == Planted::kNone ? "" : (" --planted " + options.planted).c_str());
  std::fflush(stdout);
  return false;
}

// Prints the first host's events from the script's beginning on.
int RunScript(const Options& options) {
  std::ifstream file(options.script, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    std::fprintf(stderr, "%s cannot be read\n", options.script.c_str());
    return 2;
  }
  const absl::StatusOr<Scenario> scenario = ParseScript(text);
  if (!scenario.ok()) {
    std::fprintf(stderr, "%s: %s\n", options.script.c_str(),
                 std::string(scenario.status().message()).c_str());
    return 2;
  }
  World world(*scenario, options.verbose ? PrintLine : std::function<void(const std::string&)>());
  world.ReportTo([&world](const char* kind, const std::string& cable) {
    const std::uint64_t now_ns = world.schedule().now_ns();
    if (now_ns < kScriptBegins) return;
    std::printf("event %" PRIu64 " %s%s%s\n", (now_ns - kScriptBegins) / 1000, kind,
                cable.empty() ? "" : " ", cable.c_str());
  });
  const Outcome outcome = world.Run();
  for (const std::string& complaint : outcome.complaints) PrintLine("WRONG " + complaint);
  return outcome.complaints.empty() ? 0 : 1;
}

void PrintTotal(const Total& total, double seconds) {
  const Outcome& sum = total.sum;
  std::printf("%" PRIu64 " seeds, %" PRIu64 " failed: %" PRIu64 " jobs (%" PRIu64
              " ended by faults, %" PRIu64 " groups shrunk to), %" PRIu64 " calls, %" PRIu64
              " questions, %" PRIu64 " faults, %" PRIu64 " events, %.0f virtual s in %.1f s\n",
              total.seeds, total.failed, sum.jobs, sum.jobs_failed, sum.shrinks, sum.calls,
              sum.questions, sum.faults, sum.events, static_cast<double>(sum.virtual_ns) / 1e9,
              seconds);
  std::fflush(stdout);
}

bool ParseRange(const std::string& text, std::uint64_t& first, std::uint64_t& last) {
  const std::vector<std::string> ends = absl::StrSplit(text, "..");
  return ends.size() == 2 && absl::SimpleAtoi(ends[0], &first) &&
         absl::SimpleAtoi(ends[1], &last) && first <= last;
}

int Run(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Total total;
  std::uint64_t first = options.seed;
  std::uint64_t last = options.seed;
  if (!options.seeds.empty() && !ParseRange(options.seeds, first, last)) {
    std::fprintf(stderr, "--seeds %s: expected FIRST..LAST, such as 1..300\n",
                 options.seeds.c_str());
    return 2;
  }
  if (options.soak_minutes > 0) {
    // Different seeds each time.
    first = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    last = kNever;
  }
  double next_line = 10;
  for (std::uint64_t seed = first;; ++seed) {
    RunSeed(seed, options, total);
    if (seed == last) break;
    if (options.soak_minutes > 0 && seconds() >= 60 * options.soak_minutes) break;
    if (options.soak_minutes > 0 && seconds() >= next_line) {
      PrintTotal(total, seconds());
      next_line = seconds() + 10;
    }
  }
  PrintTotal(total, seconds());
  return total.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mlxcomm::sim

int main(int argc, char** argv) {
  mlxcomm::sim::Options options;
  CLI::App app("mlxcomm's daemons, hundreds of them, in virtual time");
  auto* const seed = app.add_option("--seed", options.seed, "replays this one");
  app.add_option("--seeds", options.seeds, "FIRST..LAST");
  app.add_option("--soak", options.soak_minutes, "runs new seeds for this many minutes");
  app.add_flag("--verbose", options.verbose, "prints every event");
  app.add_option("--planted", options.planted, "puts a bug in: the checks must find it")
      ->check(CLI::IsMember({"none", "drop-acknowledgement", "keep-duplicates", "forget-credit"}));
  app.add_option("--script", options.script,
                 "runs the file's steps, and prints what daemons report");
  CLI11_PARSE(app, argc, argv);
  options.has_seed = !seed->empty();
  spdlog::set_level(options.verbose ? spdlog::level::debug : spdlog::level::off);
  if (!options.script.empty()) return mlxcomm::sim::RunScript(options);
  return mlxcomm::sim::Run(options);
}
