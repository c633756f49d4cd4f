// A program that reports something line by line while other things go on, and that is ended when it
// is no longer needed.
//
// Owner: the step that needs it. Thread: main. Memory: its output that was not taken yet; a line
// longer than kLineBytesMax is cut.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "proto/system/file_descriptor.h"

namespace mlxcomm::ctl {

class FollowedProgram {
 public:
  static constexpr std::size_t kLineBytesMax = 64 * 1024;

  explicit FollowedProgram(const std::vector<std::string>& words);
  ~FollowedProgram();  // Ends it.
  FollowedProgram(const FollowedProgram&) = delete;
  FollowedProgram& operator=(const FollowedProgram&) = delete;

  // Readable when TakeLines has something; -1: ended.
  int descriptor() const { return output_.get(); }
  // The complete lines. Does not wait.
  std::vector<std::string> TakeLines();

 private:
  pid_t child_ = -1;
  FileDescriptor output_;
  std::string unread_;
};

}  // namespace mlxcomm::ctl
