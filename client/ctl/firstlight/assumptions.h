// What this project assumes about Macs without having seen it on one: each assumption is a sentence
// that first light confirms or refutes, with its source and the step that tries it.
#pragma once

#include <span>
#include <string_view>

namespace mlxcomm::ctl {

struct Assumption {
  std::string_view id;
  std::string_view assumed;  // A sentence that is true or not.
  std::string_view source;   // "guess": there is none.
  std::string_view step;
};

std::span<const Assumption> Assumptions();
const Assumption* FindAssumption(std::string_view id);

// Which outcome of which trial of an RDMA device (rdma_trials.h) confirms which assumption.
struct TrialAssumption {
  std::string_view trial;
  std::string_view confirming;  // "worked", "refused"
  std::string_view id;
};
std::span<const TrialAssumption> TrialAssumptions();

}  // namespace mlxcomm::ctl
