// Text fields of fixed size in messages.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace mlxcomm::rail {

// Reads a NUL-padded field, whatever the peer put there.
inline std::string_view TextOf(std::span<const char> field) {
  return {field.data(), static_cast<std::size_t>(std::ranges::find(field, '\0') - field.begin())};
}

inline void PutText(std::string_view text, std::span<char> field) {
  std::ranges::fill(field, '\0');
  std::copy_n(text.begin(), std::min(text.size(), field.size() - 1), field.begin());
}

}  // namespace mlxcomm::rail
