// A measurement as text, line by line while it runs, and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/bench/bandwidth.h"
#include "client/ctl/bench/link_loads.h"

namespace mlxcomm::ctl {

struct BenchResult {
  std::uint64_t count = 0;
  std::uint64_t operations = 0;  // Including warm-up and check.
  double mean_ns = 0;            // Averaged over ranks and iterations.
  double fastest_ns = 0;         // The mean of the fastest rank.
  double slowest_ns = 0;
  std::uint64_t wrong = 0;  // Elements, over all ranks.
  std::vector<v1::BenchLink> loads = {};
};

struct BenchRun {
  BenchSubject subject = {};
  std::string cluster = {};
  std::uint32_t nodes = 0;               // The cluster's size; 0 if unknown.
  std::vector<std::string> places = {};  // The ranks' nodes, by their lowest rank.
  std::uint32_t iterations = 0;
  std::uint32_t warm_up = 0;
  bool check = true;
  bool in_place = false;
  std::vector<BenchResult> results = {};
};

// False if it is not mlxcomm-bench's output.
[[nodiscard]] bool ParseBenchResult(const std::string& line, BenchResult& result);

// The nodes of the job's ranks; empty if the status does not list all ranks.
std::vector<std::string> PlacesOf(const v1::StatusReply& status, const std::string& job,
                                  std::uint32_t ranks);

std::string RenderBenchHead(const BenchRun& run);
std::string RenderBenchRow(const BenchRun& run, const BenchResult& result);
// The loads of the links at the largest size, and whether all values were right.
std::string RenderBenchEnd(const BenchRun& run);
std::string BenchJson(const BenchRun& run);

}  // namespace mlxcomm::ctl
