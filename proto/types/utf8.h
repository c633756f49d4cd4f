// Text from others, before it goes into messages: protobuf refuses a whole message for one string
// that is not UTF-8, such as a name cut in the middle of a character.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <string_view>

namespace mlxcomm {

// The length of the well-formed character at the start of the text, which is not empty; 0: there is
// none. Overlong forms, surrogates and numbers above U+10FFFF are not characters.
std::size_t FirstCharacterBytes(std::string_view text);

// The longest start of the text that is UTF-8, ends with a whole character and has at most
// bytes_max bytes: the text itself where nothing is wrong with it.
std::string_view Utf8Prefix(std::string_view text, std::size_t bytes_max);

}  // namespace mlxcomm
