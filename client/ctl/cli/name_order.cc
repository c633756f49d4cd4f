#include "client/ctl/cli/name_order.h"

#include <algorithm>

namespace mlxcomm::ctl {

std::string NumbersPadded(const std::string& name) {
  constexpr std::size_t kDigits = 20;
  std::string padded;
  std::string digits;
  for (std::size_t at = 0; at <= name.size(); ++at) {
    if (at < name.size() && name[at] >= '0' && name[at] <= '9') {
      digits += name[at];
      continue;
    }
    if (!digits.empty())
      padded += std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
    digits.clear();
    if (at < name.size()) padded += name[at];
  }
  return padded;
}

}  // namespace mlxcomm::ctl
