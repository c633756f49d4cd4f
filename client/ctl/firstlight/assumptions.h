// What this project takes of Macs, and no Mac has shown yet: each is a sentence that first light
// confirms or refutes, with who said it and in which step it is tried.
#pragma once

#include <span>
#include <string_view>

namespace mlxcomm::ctl {

struct Assumption {
  std::string_view id;
  std::string_view assumed;  // A sentence that is true or not.
  std::string_view source;   // Who said it; "guess": nobody.
  std::string_view step;
};

std::span<const Assumption> Assumptions();
const Assumption* FindAssumption(std::string_view id);

// Which outcome of which trial of an RDMA device (rdma_trials.h) confirms what.
struct TrialAssumption {
  std::string_view trial;
  std::string_view confirming;  // "worked", "refused"
  std::string_view id;
};
std::span<const TrialAssumption> TrialAssumptions();

}  // namespace mlxcomm::ctl
