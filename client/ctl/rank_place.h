// Which rank of how many this process is, from the environment that a launcher makes: the
// same variables in the same order as the Python package reads them.
//
// Owner: none, a pure function of what it asks. Thread: any. Memory: none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mlxcomm::ctl {

struct RankPlace {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
};

// What an environment holds; nothing: the variable is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// Nothing: no launcher's variable names a rank. `error` is set where one does that is wrong.
std::optional<RankPlace> FindPlace(const Environment& environment, std::string& error);

}  // namespace mlxcomm::ctl
