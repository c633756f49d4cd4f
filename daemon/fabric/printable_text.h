// What another node says of itself (its name, its version), made fit for logs and for
// status: valid UTF-8 without control characters, whatever it sent.
//
// Owner: a function only. Thread: any. Memory: the result.
#pragma once

#include <string>
#include <string_view>

namespace mlxcomm::fabric {

// Each byte that has no place there becomes '?'.
std::string MakePrintable(std::string_view text);

}  // namespace mlxcomm::fabric
