// The cluster's traffic in the last five minutes, for the page's curves. No I/O.
//
// Owner: Feed, under its lock. Memory: at most kSamplesMax samples of kLinksMax links.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "mlxcomm/v1/ctl.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

class History {
 public:
  static constexpr std::uint64_t kStepNs = 2'000'000'000;  // Minimum between samples.
  static constexpr std::uint64_t kWindowNs = 300'000'000'000;
  static constexpr std::size_t kSamplesMax = kWindowNs / kStepNs;
  static constexpr std::size_t kLinksMax = 256;

  // Takes a sample and returns true, unless the last one is younger than a step.
  bool Add(const v1::StatusReply& status, std::uint64_t unix_ns);
  // Returns the samples from number `seen` on, and sets `seen` to the number of the next one.
  v1::WebHistory Since(std::uint64_t& seen) const;

 private:
  // Index in links_ of a link that is gone and was idle in the window, so that another can replace
  // it.
  std::size_t PlaceOfLinkThatIsGone(const std::map<std::string, double>& rates) const;
  double OperationsPerSecond(const v1::StatusReply& status, double seconds);

  std::deque<v1::WebSample> samples_;
  std::uint64_t first_ = 0;                    // Number of samples_.front().
  std::vector<std::string> links_;             // Listed in order of appearance.
  std::map<std::string, std::uint64_t> done_;  // Operations of each job, at the last sample.
};

}  // namespace mlxcomm::ctl
