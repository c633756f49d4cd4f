// Small files and folders of the system, as far as they can be read.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

// The text of a file, at most `bytes_max` bytes; empty where it cannot be read.
std::string ReadFileText(const std::string& path, std::size_t bytes_max = 64 * 1024);
// Names in a folder, sorted; at most 4096.
std::vector<std::string> ListFolder(const std::string& path);

}  // namespace mlxcomm::ctl
