// Small files: read up to a bound, and written so that a reader finds all of one or none of it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "proto/system/file_descriptor.h"

namespace mlxcomm {

// Does not wait for the other end of a pipe; what kind of file it is is asked after. Not valid: errno.
FileDescriptor OpenToRead(const std::string& path);
// What is there, with memory for as much. False with errno set: it cannot be read, or (EFBIG) has more
// than `most` bytes; then `text` has more too.
bool ReadAtMost(const FileDescriptor& file, std::size_t most, std::string& text);
// The first `most` bytes; empty where it cannot be read.
std::string ReadFileText(const std::string& path, std::size_t most = 64 * 1024);

// False with errno set.
bool WriteAll(const FileDescriptor& file, std::string_view text);

enum class Placing : bool { kOnlyNew, kReplace };
// Written beside it, and then put into its place. False with errno set, and nothing is left; EEXIST: it
// must be new, and is not.
bool WriteWhole(const std::string& path, std::string_view text, Placing placing,
                mode_t mode = 0600);

}  // namespace mlxcomm
