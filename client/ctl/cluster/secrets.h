// Takes out of a text what may be a key, before it is given to somebody else.
//
// Known keys go in every form that people and programs write them: bytes, hexadecimal of
// either case, also with colons or blanks between, base64 of both alphabets, the code of
// `cluster key show`. What merely has the form of a key (64 hexadecimal digits; 43 characters
// of base64 and a "="; 14 groups of a code) goes as well, for a key file need not be readable
// to whoever makes a report.
#pragma once

#include <string>
#include <vector>

namespace mlxcomm::ctl {

// The bytes of the keys in a key file's text (proto/key/key_file.h), of which there are two
// while the key is being changed.
std::vector<std::string> KeysIn(const std::string& key_file_text);
std::string WithoutSecrets(std::string text, const std::vector<std::string>& keys);

}  // namespace mlxcomm::ctl
