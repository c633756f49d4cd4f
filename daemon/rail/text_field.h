// Texts in messages of fixed size.
#pragma once

#include <span>
#include <string_view>

namespace mlxcomm::rail {

// A NUL-padded field, whatever the other side put there.
std::string_view TextOf(std::span<const char> field);
void PutText(std::string_view text, std::span<char> field);

}  // namespace mlxcomm::rail
