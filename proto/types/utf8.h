// Text from others, before it goes into messages: protobuf refuses a whole message
// for one string that is not UTF-8, and a name cut in the middle of a letter is none.
//
// Owner: functions. Thread: any. Memory: none.
#pragma once

#include <cstddef>
#include <string_view>

namespace mlxcomm {

// Bytes of the well-formed character that the text, not empty, begins with; 0: there is
// none. Overlong forms, surrogates and what lies above U+10FFFF are not characters.
std::size_t FirstCharacterBytes(std::string_view text);

// The longest start of the text that is UTF-8, ends with a whole character and has at
// most bytes_max bytes. Equal to the text where that is fine as it is.
std::string_view Utf8Prefix(std::string_view text, std::size_t bytes_max);

}  // namespace mlxcomm
