// Text from others, before people read it: names in logs, in errors and in status must
// not move a terminal's cursor or break a line.
//
// Plain text is UTF-8 without control characters: U+0000 to U+001F, U+007F to U+009F.
//
// Owner: functions. Thread: any. Memory: the result.
#pragma once

#include <string>
#include <string_view>

namespace mlxcomm {

bool IsPlainText(std::string_view text);
// Each byte that has no place there becomes '?'.
std::string MakePrintable(std::string_view text);

}  // namespace mlxcomm
