// Lists with a limit, for messages: they name what fits and count the rest, so that the end of a
// message, the remedy, is never cut off.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm {

// The text itself, or its start and "..."; at most bytes_max bytes (>= 3), whole characters.
std::string Shortened(std::string_view text, std::size_t bytes_max);

// "a; b; and 3 more" with the separator "; ", at most bytes_max bytes (>= 40). Of several items,
// each takes at most half of the bytes, so that two can be compared.
std::string ShortList(const std::vector<std::string>& items, std::string_view separator,
                      std::size_t bytes_max);

}  // namespace mlxcomm
