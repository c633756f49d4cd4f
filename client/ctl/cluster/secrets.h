// Removes keys from a text that other people will read. Known keys are removed in every form:
// bytes, hexadecimal with or without separators, base64 of both alphabets, the code of `cluster key
// show`. Any other text that looks like a key is removed, too, because the user who makes a report
// may not be able to read the key file.
#pragma once

#include <string>
#include <vector>

namespace mlxcomm::ctl {

// Returns the bytes of the keys in a key file's text (proto/key/key_file.h): two during a rotation.
std::vector<std::string> KeysIn(const std::string& key_file_text);
std::string WithoutSecrets(std::string text, const std::vector<std::string>& keys);

}  // namespace mlxcomm::ctl
