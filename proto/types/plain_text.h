// Text from others, before people read it: names in logs, in errors and in status must not move a
// terminal's cursor or break a line.
//
// Plain text is UTF-8 without control characters: U+0000 to U+001F, U+007F to U+009F.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>

namespace mlxcomm {

bool IsPlainText(std::string_view text);
// Replaces each byte that is not part of plain text by '?'.
std::string MakePrintable(std::string_view text);

}  // namespace mlxcomm
