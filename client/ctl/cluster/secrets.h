// Removes from a text everything that may be a key, before other people get it.
//
// Known keys are removed in every form in which people and programs write them: bytes, hexadecimal
// in either case, also with colons or blanks between, base64 of both alphabets, the code of
// `cluster key show`. Anything else that has the form of a key (64 hexadecimal digits; 43
// characters of base64 and a "="; 14 groups of a code) is removed as well, because the user who
// makes a report may not be able to read the key file.
#pragma once

#include <string>
#include <vector>

namespace mlxcomm::ctl {

// The bytes of the keys in a key file's text (proto/key/key_file.h): two while the key is being
// changed.
std::vector<std::string> KeysIn(const std::string& key_file_text);
std::string WithoutSecrets(std::string text, const std::vector<std::string>& keys);

}  // namespace mlxcomm::ctl
