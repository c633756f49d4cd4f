// Graphviz's dot, which makes SVG of a picture in its language.
//
// Thread: any. Memory: the text, at most kOutputBytesMax.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace mlxcomm::ctl {

// NOT_FOUND: it is not installed; the message says how to install it.
absl::StatusOr<std::string> SvgOf(const std::string& dot);

}  // namespace mlxcomm::ctl
