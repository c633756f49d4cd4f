// One point of the scale table: prints it as JSON. tests/sim/scale makes the table.
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>

#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "tests/sim/scale_run.h"

int main(int argc, char** argv) {
  using namespace mlxcomm::sim;
  ScaleOptions options;
  std::string topology = "ring";
  CLI::App app("time of an all_reduce on many simulated nodes");
  app.add_option("--topology", topology)->check(CLI::IsMember({"ring", "tree"}));
  app.add_option("--nodes", options.nodes)->check(CLI::Range(2, 512));
  app.add_option("--bytes", options.bytes);
  app.add_option("--bytes-per-second", options.bytes_per_second, "of a cable or a port");
  app.add_option("--latency-ns", options.latency_ns, "of a cable");
  app.add_option("--uplink-hosts", options.uplink_hosts, "an uplink carries so many ports' worth");
  app.add_option("--event-ns", options.event_ns, "the loop's time for each event");
  app.add_option("--repeats", options.repeats, "the last one counts");
  app.add_flag("--in-place", options.in_place, "the output is the input's memory");
  CLI11_PARSE(app, argc, argv);
  options.ring = topology == "ring";
  spdlog::set_level(spdlog::level::off);
  const auto begin = std::chrono::steady_clock::now();
  const ScaleResult result = RunScale(options);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!result.wrong.empty()) {
    std::fprintf(stderr, "%u nodes: %s\n", options.nodes, result.wrong.c_str());
    return 1;
  }
  std::printf("{\"topology\": \"%s\", \"nodes\": %u, \"bytes\": %" PRIu64
              ", \"plan\": \"%s\", "
              "\"time_ns\": %" PRIu64 ", \"optimum_ns\": %" PRIu64 ", \"events\": %" PRIu64
              ", \"seconds\": %.1f}\n",
              topology.c_str(), options.nodes, options.bytes, result.plan.c_str(), result.time_ns,
              result.optimum_ns, result.events, seconds);
  return 0;
}
