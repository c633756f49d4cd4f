// Reads small files up to a limit, and writes them atomically.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "proto/system/file_descriptor.h"

namespace mlxcomm {

// Does not wait for the other end of a pipe. Invalid with errno set.
FileDescriptor OpenToRead(const std::string& path);
// Reads the whole file. False with errno set: it cannot be read, or (EFBIG) has more than `most`
// bytes; then `text` has more, too.
bool ReadAtMost(const FileDescriptor& file, std::size_t most, std::string& text);
// Returns the first `most` bytes; empty if the file cannot be read.
std::string ReadFileText(const std::string& path, std::size_t most = 64 * 1024);

// False with errno set.
bool WriteAll(const FileDescriptor& file, std::string_view text);

enum class Placing : bool { kOnlyNew, kReplace };
// Writes a temporary file and moves it to `path`. False with errno set, and no file left behind;
// EEXIST: the file exists, with kOnlyNew.
bool WriteWhole(const std::string& path, std::string_view text, Placing placing,
                mode_t mode = 0600);

}  // namespace mlxcomm
