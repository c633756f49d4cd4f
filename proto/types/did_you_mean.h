// Suggests the intended name for a mistyped word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm {

// Returns "; did you mean \"status\"?" with the most similar name, or nothing. A name is similar if
// `word` is its beginning, or if at most one letter in three is wrong, missing, extra or swapped.
// The dashes of an option may be missing.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& names);

}  // namespace mlxcomm
