// Graphviz's dot, which makes SVG of a picture in its language.
//
// Owner: a function. Thread: any. Memory: the text, at most kOutputBytesMax.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace mlxcomm::ctl {

// NOT_FOUND: it is not installed, and how that is changed.
absl::StatusOr<std::string> SvgOf(const std::string& dot);

}  // namespace mlxcomm::ctl
