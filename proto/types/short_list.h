// Lists in messages that have a bound: they name what fits and count the rest, so that what a
// message ends with, the remedy, is never what is lost.
//
// Owner: functions. Thread: any. Memory: the result.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm {

// The text as it is, or its start and "..."; at most bytes_max bytes (>= 3), whole letters.
std::string Shortened(std::string_view text, std::size_t bytes_max);

// "a; b; and 3 more" with the separator "; ", at most bytes_max bytes (>= 40). Of several items
// each takes at most half of them, so that there are two to compare.
std::string ShortList(const std::vector<std::string>& items, std::string_view separator,
                      std::size_t bytes_max);

}  // namespace mlxcomm
