// The expected result of a step, by the oracle. A result that is the same on all ranks is computed once;
// other ranks' results are then compared with it byte by byte: they must be the same to the bit.
//
// Owner: Job. Thread: one. Memory: results of kKeptMax steps.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/sim/program.h"

namespace mlxcomm::sim {

class Expected {
 public:
  // Empty: right. `rank` in the step's group.
  std::string Wrong(std::size_t index, const Step& step, std::uint32_t rank,
                    const oracle::Bytes& output);

 private:
  static constexpr std::size_t kKeptMax = 8;
  std::map<std::size_t, oracle::Bytes> same_for_all_;  // By step.
};

}  // namespace mlxcomm::sim
