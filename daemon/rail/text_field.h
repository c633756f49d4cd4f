// Text fields of fixed size in messages.
#pragma once

#include <span>
#include <string_view>

namespace mlxcomm::rail {

// Reads a NUL-padded field, whatever the peer put there.
std::string_view TextOf(std::span<const char> field);
void PutText(std::string_view text, std::span<char> field);

}  // namespace mlxcomm::rail
