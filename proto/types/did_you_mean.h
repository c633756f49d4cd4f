// What a mistyped word was probably meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm {

// "; did you mean \"status\"?", of the nearest one of the names, or nothing where none is near: each
// third letter may be wrong, missing or one too many, or two exchanged; or it has only begun. An
// option is also meant without its dashes.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& names);

}  // namespace mlxcomm
